"""From an episode's messages to transitions, decision by decision.

A decision is made every 0.4 s of the episode's time. Its observation is the state with its stamp, its action the mean
command of the window that follows (our own controllers hold one command all the while), its next observation the state
with the next decision's stamp, or the one that ended the episode.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from sim_node.cdr import CdrError
from sim_node.episode_time import EPISODE_GRID, STEP_NANOSECONDS
from sim_node.geometry import build_geometry
from sim_node.observation_batch import observe_batch
from sim_node.poses import in_scene
from sim_node.rewards import episode_reward
from sim_node.scenario import STEP_SECONDS, Scenario
from sim_node.state import OUTCOMES, RUNNING
from wcpg_ros import bag_messages
from wcpg_ros.bag_episodes import RawEpisode
from wcpg_ros.bag_judge import JudgedState, Sizes, follows_route, judge
from wcpg_ros.bag_rules import Rules
from wcpg_ros.conversions import NANOSECONDS

UNKNOWN, CUT = 'unknown', 'cut'     # outcomes of episodes whose end nobody can tell, or is not in the bag
TERMINAL = OUTCOMES[1:]
_RISK_STAMP_ERROR = 1000     # ns
_ROUTE_STATES = 10           # of an episode, by which it is seen whether ego follows the route


@dataclass(frozen=True)
class Transitions:
    """An episode's decisions in their order, one row each."""

    observation: np.ndarray          # float32 [n, d]
    action: np.ndarray               # float32, m/s²
    reward: np.ndarray               # float32
    next_observation: np.ndarray     # float32 [n, d]
    done: np.ndarray                 # bool: the task ended here
    truncated: np.ndarray            # bool: the record breaks off here, or has a gap behind
    steps: np.ndarray                # of 0.1 s until the next observation
    alpha: np.ndarray                # float32, NaN where nobody says it
    index: np.ndarray                # which decision of its episode

    def __len__(self) -> int:
        return len(self.action)


@dataclass(frozen=True)
class RecordedEpisode:
    """An episode as a bag tells it."""

    scenario: str
    row: str
    seed: int | None            # None where nobody says it
    outcome: str                # success, collision, timeout, no_command, cut or unknown
    episode_return: float
    start: int                  # ns; stamps of the first and the last state it is made of
    end: int
    gaps: int                   # decisions that are lost
    transitions: Transitions


@dataclass
class _Course:
    """What is known of an episode beside its states."""

    start: int
    end: int
    outcome: str
    reward: float = 0.0


@dataclass
class EpisodeReader:
    """Turns raw episodes into transitions; `counts` says what was odd about them."""

    rules: Rules
    counts: Counter[str]
    results_expected: bool = True     # whether the bag has the topic that says how episodes end
    sizes: dict[tuple[str, int], tuple[float, float]] = field(default_factory=dict)
    episodes: int = 0
    off_route: int = 0                # of them

    def read(self, raw: RawEpisode, scenario: Scenario) -> RecordedEpisode:
        """All that can be told of an episode."""
        states = self._join(raw)
        course = self._course(raw, scenario, states) if self._follows_route(raw, scenario) else None
        rows, gaps = ([], 0) if course is None else self._decisions(raw, scenario, course, states)
        course = course or _Course(raw.first, raw.last, UNKNOWN)
        self.counts['lost decisions'] += gaps
        result = raw.result
        return RecordedEpisode(
            scenario.name, result.row if result else scenario.row, result.seed if result else None, course.outcome,
            course.reward, course.start, course.end, gaps, self._transitions(rows, scenario, course, raw))

    def _follows_route(self, raw: RawEpisode, scenario: Scenario) -> bool:
        self.episodes += 1
        stamps = sorted(raw.ego)
        states = []
        for stamp in stamps[::max(len(stamps) // _ROUTE_STATES, 1)]:
            with contextlib.suppress(CdrError):     # counted where it is needed
                states.append(bag_messages.ego_state(raw.ego[stamp]))
        if not states or follows_route(scenario, in_scene(np.array(states), self.rules.scene_pose).tolist()):
            return True
        self.off_route += 1
        self.counts["episodes off the scene's route (is --scenario or --scene-pose wrong?)"] += 1
        return False

    def _join(self, raw: RawEpisode) -> dict[int, int]:
        """The stamps of ego's states, each with the stamp of the others' state that belongs to it."""
        joined = {stamp: stamp for stamp in raw.ego if stamp in raw.vehicles}
        tolerance = round(self.rules.tolerance * NANOSECONDS)
        if tolerance and raw.vehicles:
            theirs = np.array(sorted(raw.vehicles))
            for stamp in raw.ego:
                nearest = int(theirs[np.abs(theirs - stamp).argmin()])
                if stamp not in joined and abs(nearest - stamp) <= tolerance:
                    joined[stamp] = nearest
        alone = len(raw.ego) - len(joined)
        if not tolerance:
            alone += len(raw.vehicles.keys() - joined.keys())
        self.counts['states of which a part is missing (--tolerance)'] += alone
        return dict(sorted(joined.items()))

    def _course(self, raw: RawEpisode, scenario: Scenario, states: dict[int, int]) -> _Course | None:
        result = raw.result
        if result is not None:
            return _Course(result.start, result.end, result.outcome, result.episode_return)
        if not states:
            self.counts['episodes without a whole state'] += 1
            return None
        start = raw.first
        if start % EPISODE_GRID:
            if self.results_expected:     # ours: it began earlier, and nobody says when
                self.counts['episodes without their beginning'] += 1
                return None
            self.counts['episodes taken to begin with their first state'] += 1
        return self._judged(raw, scenario, states, start)

    def _judged(self, raw: RawEpisode, scenario: Scenario, states: dict[int, int], start: int) -> _Course:
        if self.rules.vehicle_size is None:
            for data in raw.markers:
                try:
                    self.sizes |= bag_messages.box_sizes(data)
                except CdrError:
                    self.counts['malformed messages'] += 1
        sizes = Sizes(self.rules.vehicle_size, self.sizes)
        if not sizes.known():
            self.counts['episodes whose end needs --vehicle-size'] += 1
            return _Course(start, max(states), UNKNOWN)
        outcome, end = judge(scenario, start, self._judged_states(raw, states), sizes)
        if outcome == RUNNING:
            self.counts['episodes without their end'] += 1
            return _Course(start, end, CUT)
        self.counts['episodes whose end was worked out'] += 1
        self.counts['states after the end'] += sum(stamp > end for stamp in states)
        terms = scenario.reward
        reward = episode_reward(outcome, round((end - start) / STEP_NANOSECONDS), terms.success, terms.bonus,
                                terms.decay, terms.collision, terms.timeout)
        return _Course(start, end, OUTCOMES[outcome], float(np.float32(reward)))

    def _judged_states(self, raw: RawEpisode, states: dict[int, int]) -> Iterator[JudgedState]:
        for stamp, partner in states.items():
            decoded = self._decode(raw, stamp, partner)
            if decoded is not None:
                yield JudgedState(stamp, tuple(decoded[0].tolist()), decoded[1], decoded[2])

    def _decode(self, raw: RawEpisode, stamp: int, partner: int) -> tuple[np.ndarray, list[str], np.ndarray] | None:
        """Ego, and the others with their names, in the scene."""
        try:
            ego = bag_messages.ego_state(raw.ego[stamp])[None]
            names, others = bag_messages.vehicle_states(raw.vehicles[partner])
        except CdrError:
            self.counts['malformed messages'] += 1
            return None
        return in_scene(ego, self.rules.scene_pose)[0], names, in_scene(others, self.rules.scene_pose)

    def _decisions(self, raw: RawEpisode, scenario: Scenario, course: _Course,
                   states: dict[int, int]) -> tuple[list[tuple], int]:
        """(decision, state, next state, done, steps, action) of each that is whole, and how many are not."""
        period = scenario.action_repeat * STEP_NANOSECONDS
        stamps, ends = np.array(list(states), dtype=np.int64), course.outcome in TERMINAL
        command_stamps = np.array(sorted(raw.commands), dtype=np.int64)
        accelerations = np.array([raw.commands[stamp] for stamp in command_stamps.tolist()])
        decoded: dict[int, tuple | None] = {}

        def state_at(stamp: int) -> tuple | None:
            """The state of a stamp; a foreign one may be half a step away."""
            place = int(np.searchsorted(stamps, stamp - STEP_NANOSECONDS // 2))
            near = [s for s in stamps[place:place + 8].tolist() if abs(s - stamp) < STEP_NANOSECONDS // 2]
            if not near:
                return None
            best = min(near, key=lambda s: abs(s - stamp))
            if best not in decoded:
                decoded[best] = self._decode(raw, best, states[best])
            return decoded[best]

        rows, gaps = [], 0
        # The bag may begin later than the episode: what lies before is not lost, it was never there.
        first = max(-(-(raw.first - course.start) // period), 0)
        last = -(-(course.end - course.start) // period) if ends else (course.end - course.start) // period
        for index in range(first, last):
            now = course.start + index * period
            then = min(now + period, course.end)
            done = ends and then == course.end
            low, high = np.searchsorted(command_stamps, (now, then))
            state, after = state_at(now), state_at(then)
            if done and after is None:
                after = state     # a terminal's next state is never looked at
            if low == high:
                self.counts['decisions without a command'] += 1
            if state is None or after is None or low == high:
                gaps += 1
                continue
            rows.append((index, state, after, done, round((then - now) / STEP_NANOSECONDS),
                         accelerations[low:high].mean()))
        return rows, gaps

    def _transitions(self, rows: list[tuple], scenario: Scenario, course: _Course, raw: RawEpisode) -> Transitions:
        index = np.array([row[0] for row in rows], dtype=np.int64)
        steps = np.array([row[4] for row in rows], dtype=np.int64)
        done = np.array([row[3] for row in rows], dtype=np.bool_)
        followed = np.append(np.diff(index) == 1, False) if len(rows) else np.zeros(0, np.bool_)
        elapsed = index * scenario.action_repeat
        period = scenario.action_repeat * STEP_NANOSECONDS
        stamps = (course.start + index * period).tolist()
        return Transitions(
            observation=observations(scenario, [row[1] for row in rows], elapsed),
            action=np.array([row[5] for row in rows], dtype=np.float32),
            reward=np.where(done, np.float32(course.reward), np.float32(0.0)),
            next_observation=observations(scenario, [row[2] for row in rows], elapsed + steps),
            done=done, truncated=~followed & ~done, steps=steps,
            alpha=np.array([_level_at(raw.alphas, stamp, period) for stamp in stamps], dtype=np.float32), index=index)


def _level_at(alphas: dict[int, float], stamp: int, period: int) -> float:
    """The risk level of a decision, NaN where nobody says it."""
    if stamp in alphas:
        return alphas[stamp]
    # A risk message has its stamp in seconds, to a microsecond at most; a foreign decision lies between two of ours.
    known = [each for each in alphas if stamp - period < each <= stamp + _RISK_STAMP_ERROR]
    return alphas[max(known)] if known else np.nan


def observations(scenario: Scenario, states: list[tuple], steps: np.ndarray) -> np.ndarray:
    """What a policy would have seen of decoded states, so many steps after the episode's beginning."""
    geometry, layout = build_geometry(scenario), scenario.layout
    count = len(states)
    out = np.zeros((count, layout.size), np.float32)
    most = max((len(others) for _, _, others in states), default=0)
    ego, others, counts = np.zeros((count, 4)), np.zeros((count, max(most, 1), 4)), np.zeros(count, np.int64)
    for row, (own, _, theirs) in enumerate(states):
        ego[row], counts[row] = own, len(theirs)
        others[row, :len(theirs)] = theirs
    observe_batch(geometry.segments, geometry.lanes, geometry.view, ego, others, counts, steps * STEP_SECONDS,
                  layout.time, out)
    return out
