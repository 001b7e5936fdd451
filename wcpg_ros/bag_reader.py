"""Bags to episodes and their transitions, streamed: one bag, a split one, a directory of many, unfinished ones.

    reader = BagReader([Path('bags/big')], ReadOptions(scenario='left_turn'))
    for episode in reader.episodes():
        replay.add(episode.transitions …)
    print(reader.summary.outcomes, reader.summary.problems)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from sim_node.episode_time import STEP_NANOSECONDS
from sim_node.scenario import Scenario, load_scenario, scenario_names
from sim_node.settings import SettingsError
from wcpg_ros.bag_episodes import Assembler, RawEpisode
from wcpg_ros.bag_files import files_of, find_bags, missing_files, read_file
from wcpg_ros.bag_rules import BagError, Rules
from wcpg_ros.bag_storage import FileReport, RawMessage
from wcpg_ros.bag_topics import COMMAND, EGO, EPISODE, MARKERS, RISK, TYPES, VEHICLES
from wcpg_ros.bag_transitions import UNKNOWN, EpisodeReader, RecordedEpisode
from wcpg_ros.bag_writer import METADATA_FILE, Topic

NEEDED = (EGO, VEHICLES, COMMAND)
USED = (*NEEDED, MARKERS, RISK, EPISODE)
_SLACK = 100     # steps that a foreign episode may go on for after its task has ended


@dataclass(frozen=True)
class ReadOptions:
    """How to read bags."""

    scenario: str | None = None                              # None: as the bags themselves say
    row: str = 'train'
    changes: Mapping[str, Any] = field(default_factory=dict)   # to the scenario: `layout.time: true`
    rules: Rules = field(default_factory=Rules)


@dataclass
class EpisodeRow:
    """One line about an episode, for summaries."""

    outcome: str
    episode_return: float
    seconds: float
    gaps: int
    transitions: int
    alpha: float | None     # of its first decision


@dataclass
class Summary:
    """What reading found, good and bad."""

    bags: int = 0
    files: int = 0
    unfinished: int = 0
    seconds: float = 0.0                                      # from the first to the last message, summed over bags
    topics: dict[str, Topic] = field(default_factory=dict)    # by the bags' own names, with counts
    episodes: list[EpisodeRow] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)     # what was odd, in words
    problems: list[str] = field(default_factory=list)         # what could not be read, and where

    @property
    def transitions(self) -> int:
        """How many decisions were read."""
        return sum(row.transitions for row in self.episodes)

    @property
    def outcomes(self) -> dict[str, int]:
        """How many episodes ended how."""
        return dict(sorted(Counter(row.outcome for row in self.episodes).items()))

    def oddities(self) -> dict[str, int]:
        """What was odd, without what did not happen."""
        return {what: count for what, count in sorted(self.counts.items()) if count}


class BagReader:
    """Reads bags once, in order; `summary` grows on the way."""

    def __init__(self, paths: Iterable[Path], options: ReadOptions | None = None) -> None:
        self._bags = [bag for path in paths for bag in find_bags(path)]
        self._options = options or ReadOptions()
        unknown = set(self._options.rules.names) - set(TYPES)
        if unknown:
            raise BagError(f'{", ".join(sorted(unknown))}: not a topic of ours; map one of {", ".join(USED)}')
        self._roles = {self._options.rules.names.get(name, name): name for name in USED}
        if self._options.rules.vehicle_size is not None:
            del self._roles[self._options.rules.names.get(MARKERS, MARKERS)]
        self._scenarios: dict[tuple[str, str], Scenario] = {}     # by name and row
        self._last_scenario: str | None = None
        self.summary = Summary()

    def episodes(self, progress: bool = False) -> Iterator[RecordedEpisode]:
        """Every episode of every bag; what cannot be read is in `summary.problems`, and the rest goes on."""
        size = sum(file.stat().st_size for bag in self._bags for file in bag)
        with tqdm(total=size, unit='B', unit_scale=True, desc='reading', disable=not progress, leave=False) as bar:
            for files in self._bags:
                yield from self._bag(files, bar)

    def _bag(self, files: list[Path], bar: Any) -> Iterator[RecordedEpisode]:
        summary = self.summary
        summary.bags += 1
        reports = [FileReport(path) for path in files]
        reader = EpisodeReader(self._options.rules, summary.counts)
        assembler = Assembler(self._longest(), summary.counts)
        results_topic = self._options.rules.names.get(EPISODE, EPISODE)

        def known(raws: Iterable[RawEpisode]) -> Iterator[RecordedEpisode]:
            for raw in raws:
                reader.results_expected = any(results_topic in report.topics for report in reports)
                scenario = self._scenario(raw, files[0].parent)
                if scenario is None:
                    summary.counts['episodes of an unknown scenario (--scenario)'] += 1
                    summary.episodes.append(EpisodeRow(UNKNOWN, 0.0, (raw.last - raw.first) * 1e-9, 0, 0, None))
                    continue
                episode = reader.read(raw, scenario)
                summary.episodes.append(_row(episode))
                yield episode

        try:
            for message in self._messages(reports, bar):
                if over := assembler.take(self._roles[message.topic], message):
                    yield from known(over)
            yield from known(assembler.finish())
            self._add_missing_topics(reports)
            if reader.off_route and reader.off_route == reader.episodes:
                raise BagError(f"{files[0].parent}: ego is never on the route of {self._last_scenario}: it is refused "
                               '(is --scenario or --scene-pose wrong?)')
        except BagError as error:
            summary.problems.append(str(error))
        finally:     # also when nobody wants to read on
            self._sum_up(reports)
            self._add_missing_files(files)

    def _messages(self, reports: list[FileReport], bar: Any) -> Iterator[RawMessage]:
        for report in reports:
            def wanted(topic: Topic, path: Path = report.path) -> bool:
                role = self._roles.get(topic.name)
                if role is not None and topic.type != TYPES[role]:
                    raise BagError(f'{path}: {topic.name} is a {topic.type or "topic of no type"}, not a '
                                   f'{TYPES[role]}; the bag is refused (is another topic meant? --map {role}=NAME)')
                return role is not None
            yield from read_file(report.path, wanted, report, bar.update)

    def _add_missing_topics(self, reports: list[FileReport]) -> None:
        bag, present = reports[0].path.parent, {name for report in reports for name in report.topics}
        if not present:
            if not any(report.problems for report in reports):
                self.summary.problems.append(f'{bag}: nothing in it, not even a topic')
            return
        for name in NEEDED:
            actual = self._options.rules.names.get(name, name)
            if actual not in present:
                self.summary.problems.append(
                    f'{bag}: no {actual} in it; there is {", ".join(sorted(present))}. Is it one of '
                    f'them? --map {name}=NAME')

    def _add_missing_files(self, files: list[Path]) -> None:
        bag = files[0].parent
        if files == files_of(bag):     # not only some of them were asked for
            self.summary.problems += [f'{path}: missing, although {METADATA_FILE} names it; the rest is read'
                                      for path in missing_files(bag)]

    def _sum_up(self, reports: list[FileReport]) -> None:
        summary = self.summary
        for report in reports:
            summary.files += 1
            summary.unfinished += report.unfinished
            summary.problems += report.problems
            for topic in report.topics.values():
                summary.topics.setdefault(topic.name, Topic(topic.name, topic.type)).count += topic.count
        starts = [report.start for report in reports if report.start is not None]
        if starts:
            summary.seconds += (max(report.end for report in reports) - min(starts)) * 1e-9

    def _scenario(self, raw: RawEpisode, bag: Path) -> Scenario | None:
        options, result = self._options, raw.result
        name = options.scenario or (result.scenario if result else self._last_scenario)
        if name is None:
            return None
        try:
            scenario = self._load(name, result.row if result else options.row)
        except SettingsError as error:
            raise BagError(f'{bag}: driven in another scene: {error} (--scenario)') from None
        if result is not None and result.scenario != scenario.name:
            raise BagError(f'{bag}: driven in {result.scenario}, not in {scenario.name}: it is refused')
        self._last_scenario = name
        return scenario

    def _load(self, name: str, row: str) -> Scenario:
        if (name, row) not in self._scenarios:
            self._scenarios[name, row] = load_scenario(name, row, dict(self._options.changes))
        return self._scenarios[name, row]

    def _longest(self) -> int:
        name = self._options.scenario or scenario_names()[0]
        return (self._load(name, self._options.row).max_steps + _SLACK) * STEP_NANOSECONDS


def _row(episode: RecordedEpisode) -> EpisodeRow:
    alphas = episode.transitions.alpha
    known = alphas[~np.isnan(alphas)]
    return EpisodeRow(episode.outcome, episode.episode_return, (episode.end - episode.start) * 1e-9, episode.gaps,
                      len(episode.transitions), float(known[0]) if len(known) else None)
