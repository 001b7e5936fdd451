"""From a stream of messages to episodes: which messages belong together, told by their stamps alone.

Episodes are visible in the stamps (see sim_node/episode_time.py): a jump of 5 s or more begins one, and so does time
that goes back, when a simulator was started anew. Where time goes on over a reset, ego jumps. Each topic keeps its own
order, but a message of one topic may come in seconds earlier or later than its contemporaries of another: it may have
been lost and sent again. So an episode stays open for a while after its last message, and what is ahead of its states
waits for them.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sim_node.cdr import CdrError
from sim_node.episode_result import EpisodeResult
from sim_node.episode_time import EPISODE_JUMP
from wcpg_ros import bag_messages
from wcpg_ros.bag_storage import RawMessage
from wcpg_ros.bag_topics import COMMAND, EGO, EPISODE, MARKERS, RISK, VEHICLES

_BACKWARDS = 1_000_000_000     # ns by which a topic's stamps may go back before that counts as a new beginning
_LINGER = 10_000_000_000       # ns of receiving time that an episode stays open after its last message
_MOST_OPEN = 50                # episodes, however fast they follow each other
_LEAP, _FASTEST = 10.0, 60.0   # m, m/s: who moves by more than the one and the other times the time did not drive


@dataclass(eq=False)
class RawEpisode:
    """The messages of one episode, by stamp (ns); most stay serialized, since few are ever needed."""

    first: int                                                    # stamps of the first and the last state
    last: int
    heard: int                                                    # when its last message was received, ns
    since: int | None = None                                      # ns, for one that follows another at once …
    until: int | None = None                                      # … and for that other one
    place: tuple[int, float, float] | None = None                 # ego's last state: stamp, x, y
    ego: dict[int, bytes] = field(default_factory=dict)
    vehicles: dict[int, bytes] = field(default_factory=dict)
    markers: list[bytes] = field(default_factory=list)
    commands: dict[int, float] = field(default_factory=dict)     # m/s²
    alphas: dict[int, float] = field(default_factory=dict)
    result: EpisodeResult | None = None

    def covers(self, stamp: int) -> bool:
        """Whether a stamp belongs here."""
        return ((self.first - _BACKWARDS if self.since is None else self.since - 1) < stamp
                < (self.last + EPISODE_JUMP if self.until is None else self.until))

    def moves_to(self, stamp: int, x: float, y: float) -> bool:
        """Note where ego is; whether it could have driven there."""
        before, self.place = self.place, (stamp, x, y)
        if before is None:
            return True
        seconds = abs(stamp - before[0]) * 1e-9
        return not math.hypot(x - before[1], y - before[2]) > _LEAP + _FASTEST * seconds     # a NaN is no jump

    def part(self, stamp: int) -> RawEpisode:
        """End before a stamp; gives the episode that begins with it."""
        rest = RawEpisode(stamp, max(stamp, self.last), self.heard, since=stamp, until=self.until, place=self.place)
        parts: list[tuple[dict[int, Any], dict[int, Any]]] = [
            (self.ego, rest.ego), (self.vehicles, rest.vehicles), (self.commands, rest.commands),
            (self.alphas, rest.alphas)]
        for mine, theirs in parts:
            for late in [each for each in mine if each >= stamp]:
                theirs[late] = mine.pop(late)
        self.until = stamp
        self.last = max((*self.ego, *self.vehicles), default=self.first)
        return rest


class _Early(NamedTuple):
    """What came before the states it speaks of."""

    log_time: int                                 # ns
    newest: int                                   # number of the newest episode then: it belongs to that or a later one
    belongs: Callable[[RawEpisode], bool]
    add: Callable[[RawEpisode], Any]
    otherwise: str                                # what it is if its states never come


class Assembler:
    """Sorts messages into episodes; `counts` says what was odd about them."""

    def __init__(self, longest: int, counts: Counter[str]) -> None:
        self._longest = longest        # ns that an episode lasts at most
        self._counts = counts
        self._open: list[RawEpisode] = []
        self._closed = 0               # how many episodes came before the first open one
        self._place: dict[str, tuple[int, int]] = {}     # each topic's last stamp, and the number of its episode
        self._now = 0                  # the newest receiving time, ns
        self._early: deque[_Early] = deque()

    def take(self, role: str, message: RawMessage) -> list[RawEpisode]:
        """Add a message; gives the episodes that are over by now."""
        if message.log_time > self._now:
            self._now = message.log_time
        try:
            self._sort_in(role, message)
        except CdrError:
            self._counts['malformed messages'] += 1
        over = 0
        for episode in self._open:
            if self._now - episode.heard <= _LINGER and len(self._open) - over <= _MOST_OPEN:
                break
            over += 1
        return self._close(over) if over else []

    def finish(self) -> list[RawEpisode]:
        """The episodes that are still open when there is nothing more to come."""
        closed = self._close(len(self._open))
        for early in self._early:
            self._counts[early.otherwise] += 1
        return closed

    def _close(self, count: int) -> list[RawEpisode]:
        self._early = deque(early for early in self._early if not self._add_early(early))
        closed, self._open = self._open[:count], self._open[count:]
        self._closed += count
        return closed

    def _sort_in(self, role: str, message: RawMessage) -> None:
        if role == EPISODE:
            for result in bag_messages.episode_results(message.data):
                self._conclude(result, message.log_time)
        elif role == MARKERS:
            if self._open and not self._is_over(self._open[-1]):
                self._open[-1].markers.append(message.data)
        elif role == RISK:
            stamp, alpha = bag_messages.risk_level(message.data)
            if episode := self._episode_of(role, stamp):
                episode.alphas.setdefault(stamp, alpha)
            else:
                self._keep(message.log_time, lambda episode: episode.covers(stamp),
                           lambda episode: episode.alphas.setdefault(stamp, alpha), 'risk without a state')
        elif role == COMMAND:
            self._command(message)
        else:
            self._state(role, message)

    def _state(self, role: str, message: RawMessage) -> None:
        stamp = bag_messages.header_stamp(message.data)
        episode = self._episode_of(role, stamp)
        if episode is None:
            if self._open and stamp < self._open[-1].last:
                self._counts['times that the clock went back'] += 1
            episode = RawEpisode(stamp, stamp, message.log_time)
            self._open.append(episode)
            self._place[role] = stamp, self._closed + len(self._open) - 1
        if role == EGO and stamp not in episode.ego and not episode.moves_to(
                stamp, *bag_messages.ego_position(message.data)):
            episode = self._part(episode, stamp)
        states = episode.ego if role == EGO else episode.vehicles
        episode.first, episode.last = min(episode.first, stamp), max(episode.last, stamp)
        episode.heard = message.log_time
        if stamp in states:
            self._counts['repeated states'] += role == EGO
        elif stamp - episode.first > self._longest:
            self._counts['states after the end'] += role == EGO
        else:
            states[stamp] = message.data

    def _part(self, episode: RawEpisode, stamp: int) -> RawEpisode:
        """The episode that begins in the middle of what looked like one."""
        self._counts['times that ego jumped'] += 1
        place = self._open.index(episode) + 1
        self._open.insert(place, episode.part(stamp))
        number = self._closed + place
        for role, (last, index) in self._place.items():
            self._place[role] = last, index + (index >= number or role == EGO)
        return self._open[place]

    def _command(self, message: RawMessage) -> None:
        stamp = bag_messages.header_stamp(message.data)
        episode = self._episode_of(COMMAND, stamp)
        if episode is None:
            acceleration = bag_messages.acceleration(message.data)
            self._keep(message.log_time, lambda episode: episode.covers(stamp),
                       lambda episode: episode.commands.setdefault(stamp, acceleration), 'commands without a state')
        elif stamp in episode.commands:
            self._counts['repeated commands'] += 1
        elif not self._is_over(episode):
            episode.commands[stamp] = bag_messages.acceleration(message.data)
            episode.heard = message.log_time

    def _is_over(self, episode: RawEpisode) -> bool:
        """Whether states go on where no episode does; what comes then would only fill the memory."""
        return episode.last - episode.first > self._longest

    def _episode_of(self, role: str, stamp: int) -> RawEpisode | None:
        """The open episode that a topic's next message belongs to: a topic never returns to an earlier one."""
        last, number = self._place.get(role, (stamp, -1))
        if stamp < last - _BACKWARDS:
            number += 1
        current = number - self._closed
        if 0 <= current < len(self._open) and self._open[current].covers(stamp):     # as nearly always
            self._place[role] = stamp, number
            return self._open[current]
        candidates = list(enumerate(self._open, start=self._closed))
        if number < 0 and role not in (EGO, VEHICLES):
            candidates.reverse()     # who begins to speak late answers the newest states
        for index, episode in candidates:
            if index >= number and episode.covers(stamp):
                self._place[role] = stamp, index
                return episode
        return None

    def _conclude(self, result: EpisodeResult, log_time: int) -> None:
        def belongs(episode: RawEpisode) -> bool:
            return result.start <= episode.first and episode.last <= result.end

        def add(episode: RawEpisode) -> None:
            episode.result = result

        fitting = [episode for episode in self._open if belongs(episode)]
        if fitting:
            add(fitting[-1])
        else:
            self._keep(log_time, belongs, add, 'results without states')

    def _keep(self, log_time: int, belongs: Callable[[RawEpisode], bool], add: Callable[[RawEpisode], Any],
              otherwise: str) -> None:
        """Keep what came before its states, for as long as they may still come."""
        self._early.append(_Early(log_time, self._closed + len(self._open) - 1, belongs, add, otherwise))
        while self._now - self._early[0].log_time > _LINGER:
            early = self._early.popleft()
            if not self._add_early(early):
                self._counts[early.otherwise] += 1

    def _add_early(self, early: _Early) -> bool:
        """Add it to its episode, if that has come by now."""
        for episode in self._open[max(early.newest - self._closed, 0):]:
            if early.belongs(episode):
                early.add(episode)
                return True
        return False
