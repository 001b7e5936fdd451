"""Bags for tests: driven here, copied with changes, and what the simulator itself had."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sim_node.batch import Batch
from sim_node.seeds import episode_seed
from wcpg_ros.bag_files import read_file
from wcpg_ros.bag_reader import BagReader, ReadOptions
from wcpg_ros.bag_storage import FileReport, RawMessage
from wcpg_ros.bag_topics import TYPES, new_topic
from wcpg_ros.bag_transitions import RecordedEpisode, Transitions
from wcpg_ros.bag_writer import BagWriter
from wcpg_ros.controllers import prepare
from wcpg_ros.record import Source, record


def make_bag(path: Path, scenario: str = 'left_turn', controller: str = 'gap:3', episodes: int = 3, seed: int = 5,
             alpha: float | None = None, storage: str = 'mcap', with_markers: bool = True) -> Path:
    """A bag driven here."""
    source = Source(*prepare(scenario, 'train', controller, alpha))
    with BagWriter(path, storage) as bag:
        record(source, bag, episodes, seed, with_markers)
    return path


def messages(bag: Path) -> list[RawMessage]:
    """Everything in a bag of one file."""
    [file] = [*bag.glob('*.mcap'), *bag.glob('*.db3')]
    return list(read_file(file, lambda _: True, FileReport(file)))


def write_bag(path: Path, contents: Iterable[RawMessage], types: dict[str, str] | None = None) -> Path:
    """A bag of given messages; `types` names the types of topics that are not ours."""
    with BagWriter(path) as bag:
        for message in contents:
            if message.topic not in bag.topics:
                ours = message.topic if message.topic in TYPES else next(
                    name for name, kind in TYPES.items() if kind == (types or {})[message.topic])
                topic = new_topic(ours)
                topic.name = message.topic
                bag.add_topic(topic)
            bag.write(message.topic, message.data, message.log_time)
    return path


def changed(bag: Path, path: Path, change: Callable[[list[RawMessage]], Iterable[RawMessage]],
            types: dict[str, str] | None = None) -> Path:
    """A copy of a bag with its messages changed."""
    return write_bag(path, change(messages(bag)), types)


def stamped(message: RawMessage, stamp: int) -> RawMessage:
    """A message that begins with a header, with another stamp (ns)."""
    return message._replace(data=message.data[:4] + struct.pack('<iI', *divmod(stamp, 10**9)) + message.data[12:])


def read(*paths: Path, **options: object) -> tuple[list[RecordedEpisode], BagReader]:
    """All episodes of bags, and the reader with its summary."""
    reader = BagReader(paths, ReadOptions(**options))     # type: ignore[arg-type]
    return list(reader.episodes()), reader


@dataclass
class Driven:
    """What the simulator had of one episode."""

    rows: dict[str, list] = field(default_factory=lambda: {name: [] for name in (
        'observation', 'action', 'reward', 'next_observation', 'done', 'steps')})


def driven(scenario: str, controller: str, episodes: int, seed: int, alpha: float | None = None,
           row: str = 'train', time: bool = False) -> list[Driven]:
    """The same episodes in process, decision by decision."""
    scene, driver = prepare(scenario, row, controller, alpha, {'layout.time': True} if time else None)
    found = []
    for index in range(episodes):
        batch = Batch(scene, 1, auto_reset=False)
        observation, before, rows = batch.reset([episode_seed(seed, index)]).copy(), 0, Driven()
        while True:
            action = driver.act(batch, observation)
            result = batch.step(action, scene.action_repeat)
            for name, value in (('observation', observation[0].copy()), ('action', action[0]),
                                ('reward', result.reward[0]), ('next_observation', result.final_observation[0].copy()),
                                ('done', bool(result.done[0])), ('steps', int(result.steps[0]) - before)):
                rows.rows[name].append(value)
            before, observation = int(result.steps[0]), result.observation.copy()
            if result.done[0]:
                break
        found.append(rows)
    return found


def assert_same(transitions: Transitions, expected: Driven, start: int = 0) -> None:
    """Equal to float32, from a decision on."""
    for name, values in expected.rows.items():
        actual, wanted = getattr(transitions, name), np.array(values[start:])
        assert len(actual) == len(wanted), name
        if name in ('done', 'steps'):
            assert (actual == wanted).all(), name
        else:
            np.testing.assert_allclose(actual, wanted.astype(np.float32), rtol=2e-7, atol=1e-7, err_msg=name)
