"""Record drives into a rosbag2 bag straight from the simulator: what the nodes would say, as fast as the disk allows.

    record --scenario left_turn --controller models/left_turn.safetensors --alpha random --episodes 2000 --out bags/big
    record --scenario merge --controller gap:2 --episodes 300 --seed 5 --storage sqlite3 --out bags/gap2

Topics, types and stamps are those of the nodes in lock-step. Messages count as received when they were sent, in
simulated time, so that `ros2 bag play` plays them at their own pace.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from sim_node import cdr, markers
from sim_node.episode import Episode
from sim_node.episode_result import EpisodeResult
from sim_node.scenario import STEP_SECONDS, Scenario
from sim_node.seeds import episode_seed
from sim_node.settings import SettingsError
from wcpg_ros import bag_topics
from wcpg_ros.bag_writer import SUFFIXES, BagWriter
from wcpg_ros.controllers import Controller, Model, prepare
from wcpg_ros.conversions import risk_message
from wcpg_ros.evaluate import add_scene_arguments, parse_changes
from wcpg_ros.interrupts import INTERRUPTED, interrupts

FRAME, BASE_FRAME = 'map', 'base_link'
RANDOM = 'random'


@dataclass(frozen=True)
class Source:
    """Who drives, at which risk level, and in what."""

    scenario: Scenario
    controller: Controller
    random_alpha: bool = False     # a model's: drawn anew for every episode

    def for_episode(self, seed: int) -> Controller:
        """The controller of one episode; its risk level depends on nothing but the seed."""
        if not self.random_alpha or not isinstance(self.controller, Model):
            return self.controller
        info = self.controller.policy.info
        alpha = float(np.random.default_rng(seed).uniform(info.alpha_min, info.alpha_max))
        return replace(self.controller, alpha=alpha)


class DriveWriter:
    """Writes drives into a bag."""

    def __init__(self, bag: BagWriter, risk: bool, with_markers: bool = True) -> None:
        self._bag = bag
        self._with_markers = with_markers
        self._shown: set[str] = set()
        wanted = {bag_topics.RISK: risk, bag_topics.MARKERS: with_markers}
        for name in bag_topics.TYPES:
            if wanted.get(name, True):
                bag.add_topic(bag_topics.new_topic(name))

    def drive(self, episode: Episode, controller: Controller) -> EpisodeResult:
        """One episode that has begun, to its end."""
        write, repeat = self._bag.write, episode.scenario.action_repeat
        self._state(episode)
        if self._with_markers:
            road = markers.road_markers(episode.stamp, FRAME, episode.scenario)
            write(bag_topics.MARKERS, road, episode.stamp)
        while episode.result is None:
            command = float(controller.act(episode.batch, episode.observation)[0])
            risk = b''
            if isinstance(controller, Model):
                opinion = controller.policy.risk(episode.observation[0], command, controller.alpha)
                risk = risk_message(episode.stamp, controller.alpha, opinion)
            for _ in range(repeat):
                write(bag_topics.COMMAND, cdr.acceleration(episode.stamp, BASE_FRAME, command), episode.stamp)
                if risk:
                    write(bag_topics.RISK, risk, episode.stamp)
                    risk = b''
                episode.step(command)
                self._state(episode)
                if episode.result is not None:
                    break
        write(bag_topics.EPISODE, episode.result.message(), episode.stamp)
        return episode.result

    def _state(self, episode: Episode) -> None:
        write, stamp, names = self._bag.write, episode.stamp, episode.names
        write(bag_topics.CLOCK, cdr.clock(stamp), stamp)
        write(bag_topics.EGO, cdr.odometry(stamp, FRAME, BASE_FRAME, episode.ego), stamp)
        write(bag_topics.VEHICLES, cdr.vehicles(stamp, FRAME, names, episode.others), stamp)
        if self._with_markers:
            write(bag_topics.MARKERS, markers.vehicle_markers(
                stamp, FRAME, episode.scenario, episode.ego, names, episode.others, self._shown - set(names)), stamp)
            self._shown = set(names)


def record(source: Source, bag: BagWriter, episodes: int, seed: int, with_markers: bool = True,
           progress: bool = False, asked_to_stop: Callable[[], bool] = lambda: False) -> list[EpisodeResult]:
    """Drive episodes of a seed into a bag, one after the other; asked to stop, it ends with the one under way."""
    episode = Episode(source.scenario)
    writer = DriveWriter(bag, isinstance(source.controller, Model), with_markers)
    results = []
    for index in tqdm(range(episodes), unit='episode', disable=not progress, leave=False):
        episode.begin(episode_seed(seed, index))
        results.append(writer.drive(episode, source.for_episode(episode.seed)))
        if asked_to_stop():
            break
    return results


def risk_level(text: str) -> float | str:
    """The value of --alpha."""
    return RANDOM if text == RANDOM else float(text)


def main(args: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog='record', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_scene_arguments(parser, risk_level, 'risk level of a model file, or `random`: another for every episode')
    parser.add_argument('--episodes', type=int, default=100, help='default: 100')
    parser.add_argument('--out', type=Path, required=True, metavar='DIRECTORY', help='the bag to make')
    parser.add_argument('--storage', choices=sorted(SUFFIXES), default='mcap', help='default: mcap')
    parser.add_argument('--without-markers', action='store_true',
                        help='leave out the boxes for RViz, two thirds of a bag')
    given = parser.parse_args(args)
    try:
        random_alpha = given.alpha == RANDOM
        scenario, controller = prepare(given.scenario, given.row, given.controller,
                                       None if random_alpha else given.alpha, parse_changes(given.changes))
        if random_alpha and not isinstance(controller, Model):
            raise SettingsError(f'alpha: {given.controller!r} has no dial, only model files do')
        if given.episodes < 1:
            raise SettingsError(f'episodes: expected at least 1, got {given.episodes}')
        started = time.perf_counter()
        stop: list[bool] = []
        with interrupts(lambda: stop.append(True)), BagWriter(given.out, given.storage) as bag:
            results = record(Source(scenario, controller, random_alpha), bag, given.episodes, given.seed,
                             not given.without_markers, sys.stderr.isatty(), lambda: bool(stop))
    except KeyboardInterrupt:     # before the first episode, or for the second time
        print('record: stopped', file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError, sqlite3.Error) as error:
        print(f'record: {error}', file=sys.stderr)
        return 2
    seconds = time.perf_counter() - started
    driven = sum(result.steps for result in results) * STEP_SECONDS
    counts = Counter(result.outcome for result in results)
    print(f'{given.out}: {len(results)} episodes ({", ".join(f"{n} {name}" for name, n in sorted(counts.items()))}), '
          f'{driven:.0f} s driven in {seconds:.1f} s, {driven / seconds:.0f} times real time')
    if stop:
        print(f'record: stopped after {len(results)} of {given.episodes} episodes; the bag is whole', file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == '__main__':
    sys.exit(main())
