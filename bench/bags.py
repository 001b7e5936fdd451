"""Bags: reading against `rosbags` decoding the same messages, memory, recording: `python bench/bags.py [--json]`.

Times are those that the one thread really ran, the contenders in turn, medians over the rounds. Reading ends with
transitions; `rosbags` ends with message objects, of the topics that reading needs. Memory is the largest resident set
of a process that reads a bag and keeps nothing, for a bag and for one ten times larger.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

from rosbags.highlevel import AnyReader

from sim_node.scenario import STEP_SECONDS
from wcpg_ros.bag_reader import BagReader
from wcpg_ros.bag_topics import COMMAND, EGO, EPISODE, RISK, VEHICLES
from wcpg_ros.bag_writer import BagWriter
from wcpg_ros.controllers import prepare
from wcpg_ros.record import Source, record

READ_BAR, RECORD_BAR, MEMORY_BAR = 1.5, 200.0, 2.0
CONTROLLERS = ('gap:2', 'models/left_turn.safetensors')
MEASURE = ('import resource, sys; from pathlib import Path; from wcpg_ros.bag_reader import BagReader; '
           'reader = BagReader([Path(sys.argv[1])]); count = sum(len(e.transitions) for e in reader.episodes()); '
           'print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)')


def record_bag(path: Path, controller: str, episodes: int, storage: str) -> dict[str, float]:
    """Times real time, by the thread's clock and by the wall's."""
    source = Source(*prepare('left_turn', 'train', controller))
    ran, started = thread_time(), perf_counter()
    with BagWriter(path, storage) as bag:
        results = record(source, bag, episodes, 0)
    driven = sum(result.steps for result in results) * STEP_SECONDS
    return {'real_time_ratio': driven / (thread_time() - ran), 'by_the_wall': driven / (perf_counter() - started)}


def read_transitions(path: Path) -> float:
    """Seconds of ours."""
    started = thread_time()
    for _ in BagReader([path]).episodes():
        pass
    return thread_time() - started


def decode(path: Path) -> float:
    """Seconds of rosbags."""
    started = thread_time()
    with AnyReader([path]) as reader:
        wanted = [each for each in reader.connections if each.topic in (EGO, VEHICLES, COMMAND, RISK, EPISODE)]
        for connection, _, data in reader.messages(wanted):
            reader.deserialize(data, connection.msgtype)
    return thread_time() - started


def peak_memory(path: Path) -> float:
    """MiB that a process of its own takes to read a bag."""
    done = subprocess.run([sys.executable, '-c', MEASURE, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1024


def measure(episodes: int, rounds: int) -> dict[str, Any]:
    """All figures."""
    report: dict[str, Any] = {'recording': {}, 'reading': {}, 'memory': {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for controller in CONTROLLERS:
            record_bag(folder / f'warm{len(list(folder.iterdir()))}', controller, 1, 'mcap')
        for storage in ('mcap', 'sqlite3'):
            for controller in CONTROLLERS:
                path = folder / f'{storage}_{Path(controller).stem.replace(":", "")}'
                figures = record_bag(path, controller, episodes, storage)
                report['recording'][f'{controller}, {storage}'] = {**figures, 'bar': RECORD_BAR,
                                                                   'met': figures['real_time_ratio'] >= RECORD_BAR}
            read_transitions(path)
            decode(path)
            pairs = [(read_transitions(path), decode(path)) for _ in range(rounds)]
            ratio = statistics.median(ours / theirs for ours, theirs in pairs)
            report['reading'][storage] = {
                'ours_s': statistics.median(ours for ours, _ in pairs),
                'rosbags_s': statistics.median(theirs for _, theirs in pairs),
                'ratio': ratio, 'bar': READ_BAR, 'met': ratio <= READ_BAR}
        record_bag(folder / 'large', 'gap:2', 10 * episodes, 'mcap')
        small, large = peak_memory(folder / 'mcap_gap2'), peak_memory(folder / 'large')
        report['memory'] = {'small_mib': small, 'ten_times_mib': large, 'ratio': large / small, 'bar': MEMORY_BAR,
                            'met': large / small <= MEMORY_BAR}
    return report


def show(report: dict[str, Any]) -> None:
    """The report in words."""
    def verdict(figures: dict[str, Any]) -> str:
        return f'bar: {figures["bar"]:g}, {"met" if figures["met"] else "MISSED"}'
    for name, figures in report['recording'].items():
        print(f'recording {name:<38} {figures["real_time_ratio"]:6.0f} times real time, '
              f'{figures["by_the_wall"]:.0f} by the wall clock ({verdict(figures)})')
    for name, figures in report['reading'].items():
        print(f'reading {name:<40} {figures["ratio"]:6.2f} of rosbags decoding: {figures["ours_s"]:.2f} s to '
              f'{figures["rosbags_s"]:.2f} s ({verdict(figures)})')
    memory = report['memory']
    print(f'{"memory for a bag ten times larger":<48} {memory["ratio"]:6.2f} times: {memory["small_mib"]:.0f} to '
          f'{memory["ten_times_mib"]:.0f} MiB ({verdict(memory)})')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--episodes', type=int, default=50, help='in each bag (default: 50)')
    parser.add_argument('--rounds', type=int, default=5, help='of reading (default: 5)')
    given = parser.parse_args()
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    report = measure(given.episodes, given.rounds)
    if given.json:
        print(json.dumps(report))
    else:
        show(report)


if __name__ == '__main__':
    main()
