"""The closed loop over ROS: `python bench/ros.py [--json]`.

Two processes in lock-step, as fast as they go: the simulator publishes a state, the policy answers, the world moves on.
The peer is a bare rclpy ping-pong of the same messages between two processes that do nothing else, on the same executor
as the nodes; a second one uses rclpy's default executor. All take turns in rounds, so that whatever else the machine
does hits all of them; each round gives seconds per round trip, figures are medians over the rounds. The episodes of all
rounds are compared with the same ones driven in process.

Then, at real time: the simulator is killed with signal 9, and the time until the policy's first braking command taken;
and both nodes are started, and the time until their first message taken.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import AccelStamped, Transform, Twist
from nav_msgs.msg import Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from sensor_msgs.msg import MultiDOFJointState

from sim_node.episode import Episode
from sim_node.episode_result import EpisodeResult
from sim_node.qos import KEEP_ALL, LATCHED, NEWEST
from sim_node.running import EventsExecutor
from sim_node.scenario import load_scenario
from sim_node.state import OUTCOMES
from wcpg_ros.controllers import prepare
from wcpg_ros.domain import Ros, Running, surroundings, taken_domain
from wcpg_ros.episodes import drive

MODEL = Path(__file__).parent.parent / 'models' / 'left_turn.safetensors'
SCENARIO, ALPHA = 'left_turn', 0.1
RATIO_BAR, REAL_TIME_BAR, BRAKE_BAR, START_BAR, MEMORY_BAR = 1.5, 25.0, 0.6, 3.0, 150.0
EXECUTORS = {'events': EventsExecutor, 'default': SingleThreadedExecutor}
ROUND_TRIPS, WARM_UP = 2000, 300
VEHICLES = 5           # as many as a left turn has at its beginning
BRAKE = 3.875          # m/s²: a fail-safe that no policy commands by chance
PATIENCE = 60.0        # s


def ping(executor: str) -> None:
    """One side of the bare ping-pong; prints seconds per round trip."""
    rclpy.init()
    node = rclpy.create_node('ping')
    odometry = Odometry(child_frame_id='base_link')
    vehicles = MultiDOFJointState(joint_names=[f'vehicle_{i}' for i in range(VEHICLES)],
                                  transforms=[Transform() for _ in range(VEHICLES)],
                                  twist=[Twist() for _ in range(VEHICLES)])
    odometry.header.frame_id = vehicles.header.frame_id = 'map'
    odometry_out = node.create_publisher(Odometry, 'ego/odometry', KEEP_ALL)
    vehicles_out = node.create_publisher(MultiDOFJointState, 'vehicles', KEEP_ALL)
    times: list[float] = []

    def send() -> None:
        odometry_out.publish(odometry)
        vehicles_out.publish(vehicles)

    def returned(_: AccelStamped) -> None:
        times.append(time.perf_counter())
        send()

    node.create_subscription(AccelStamped, 'ego/acceleration_command', returned, NEWEST)
    node.create_timer(0.2, lambda: None if times else send())     # until the other side is there
    spin(node, executor, lambda: len(times) > WARM_UP + ROUND_TRIPS)
    print('seconds', (times[-1] - times[WARM_UP]) / (len(times) - 1 - WARM_UP), flush=True)


def pong(executor: str) -> None:
    """The other side: reads both messages and answers."""
    rclpy.init()
    node = rclpy.create_node('pong')
    command = AccelStamped()
    out = node.create_publisher(AccelStamped, 'ego/acceleration_command', KEEP_ALL)
    node.create_subscription(Odometry, 'ego/odometry', lambda message: None, NEWEST)
    node.create_subscription(MultiDOFJointState, 'vehicles', lambda message: out.publish(command), NEWEST)
    spin(node, executor, lambda: False)


def spin(node: Node, executor: str, done: Callable[[], bool]) -> None:
    """As sim_node.running does."""
    spinning = EXECUTORS[executor]()
    spinning.add_node(node)
    while not done():
        spinning.spin_once(timeout_sec=0.2)


class Observer:
    """A node of the bench's own in a domain."""

    def __init__(self, ros: Ros) -> None:
        self._context = rclpy.Context()
        with surroundings(ros.environment):
            rclpy.init(context=self._context, domain_id=ros.domain)
            self.node = rclpy.create_node('bench', context=self._context)
        self._executor = EventsExecutor(context=self._context)
        self._executor.add_node(self.node)

    def listen(self, kind: Any, topic: str, qos: Any) -> list[tuple[float, Any]]:
        """Messages with the times of their arrival."""
        heard: list[tuple[float, Any]] = []
        self.node.create_subscription(kind, topic, lambda message: heard.append((time.monotonic(), message)), qos)
        return heard

    def until(self, reached: Callable[[], Any], process: Running) -> None:
        """Spin until something is reached."""
        end = time.monotonic() + PATIENCE
        while not reached():
            if time.monotonic() > end:
                raise TimeoutError(f'nothing for {PATIENCE:g} s:\n{process.text}')
            self._executor.spin_once(timeout_sec=0.05)

    def close(self) -> None:
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


@contextmanager
def stage() -> Iterator[tuple[Ros, Observer]]:
    """A domain with an observer in it."""
    with tempfile.TemporaryDirectory() as folder, taken_domain() as domain:
        ros = Ros(domain, Path(folder))
        observer = Observer(ros)
        try:
            yield ros, observer
        finally:
            ros.kill_all()
            observer.close()


def start(ros: Ros, module: str, **parameters: Any) -> Running:
    """One of the nodes."""
    options = [part for name, value in parameters.items() for part in ('-p', f'{name}:={value}')]
    return ros.start_python('-m', module, '--ros-args', *options)


def bare_round_trip(executor: str) -> float:
    """Seconds per round trip of the ping-pong."""
    with stage() as (ros, _):
        ros.start_python(__file__, '--role', 'pong', '--executor', executor)
        return float(ros.start_python(__file__, '--role', 'ping', '--executor', executor).wait_for(
            r'^seconds (\S+)$', PATIENCE)[1])


def closed_loop(seed: int, episodes: int) -> tuple[float, float, list[EpisodeResult]]:
    """Seconds per step, MiB of the policy, and how the episodes ended."""
    with stage() as (ros, observer):
        heard = observer.listen(DiagnosticArray, '/sim/episode', LATCHED)
        wcpg = start(ros, 'wcpg_ros', model=MODEL, alpha=ALPHA, stale_after=10.0)
        sim = start(ros, 'sim_node', scenario=SCENARIO, seed=seed, lockstep=True, speed_factor=0.0,
                    command_timeout=10.0, episodes=episodes + 1)     # the first is to warm up
        observer.until(lambda: len(heard) > episodes, sim)
        status = Path('/proc', str(wcpg.process.pid), 'status').read_text()
        resident = re.search(r'VmRSS:\s+(\d+) kB', status)
    results = [EpisodeResult.from_texts({pair.key: pair.value for pair in message.status[0].values})
               for _, message in heard]
    steps = sum(result.steps for result in results[1:])
    assert resident is not None
    return (heard[-1][0] - heard[0][0]) / steps, int(resident[1]) / 1024, results[1:]


def differing(results: list[EpisodeResult], first: int) -> int:
    """How many episodes ended otherwise than in process."""
    rows = drive(*prepare(SCENARIO, 'train', str(MODEL), ALPHA), episodes=len(results), seed=first)
    return sum((result.seed, result.outcome, result.steps, result.episode_return) !=
               (row['seed'], OUTCOMES[row['outcome']], row['steps'], float(row['return']))
               for result, row in zip(results, rows, strict=True))


def start_and_brake() -> tuple[float, float, float]:
    """Seconds from a node's start to its first message, of each; then from kill -9 to the first braking command."""
    with stage() as (ros, observer):
        states = observer.listen(Odometry, '/ego/odometry', KEEP_ALL)
        commands = observer.listen(AccelStamped, '/ego/acceleration_command', KEEP_ALL)
        began = time.monotonic()
        sim = start(ros, 'sim_node', scenario=SCENARIO, command_timeout=0.5)
        observer.until(lambda: states, sim)
        sim_seconds = states[0][0] - began
        began = time.monotonic()
        wcpg = start(ros, 'wcpg_ros', model=MODEL, failsafe_deceleration=BRAKE, stale_after=0.5)
        observer.until(lambda: commands, wcpg)
        wcpg_seconds = commands[0][0] - began
        observer.until(lambda: len(commands) > 10, wcpg)
        sim.signal(signal.SIGKILL)
        killed = time.monotonic()
        observer.until(lambda: commands[-1][1].accel.linear.x == -BRAKE, wcpg)
        first = next(when for when, message in commands if message.accel.linear.x == -BRAKE)
        return sim_seconds, wcpg_seconds, first - killed


def measure(rounds: int, episodes: int) -> dict[str, Any]:
    """All figures."""
    Episode(load_scenario(SCENARIO)).warm_up()     # compiled before anything is timed
    seconds: dict[str, list[float]] = {'events': [], 'default': [], 'loop': []}
    memory, different, total = 0.0, 0, 0
    for number in range(rounds):
        for executor in EXECUTORS:
            seconds[executor].append(bare_round_trip(executor))
        first = 7 + number
        loop, resident, results = closed_loop(first * 1_000_000 - 1, episodes)
        seconds['loop'].append(loop)
        memory = max(memory, resident)
        different += differing(results, first)
        total += len(results)
    starts = [start_and_brake() for _ in range(rounds)]
    median = {name: statistics.median(values) for name, values in seconds.items()}
    return {
        'loop_ms': round(1e3 * median['loop'], 3), 'steps_per_second': round(1 / median['loop']),
        'times_real_time': round(0.1 / median['loop'], 1), 'real_time_bar': REAL_TIME_BAR,
        'bare_ms': round(1e3 * median['events'], 3),
        'loop_to_bare': round(statistics.median(
            loop / bare for loop, bare in zip(seconds['loop'], seconds['events'], strict=True)), 2),
        'ratio_bar': RATIO_BAR,
        'bare_default_executor_ms': round(1e3 * median['default'], 3),
        'loop_to_bare_default_executor': round(median['loop'] / median['default'], 2),
        'episodes': total, 'episodes_unlike_in_process': different,
        'brake_after_kill_s': round(statistics.median(brake for *_, brake in starts), 3),
        'brake_after_kill_worst_s': round(max(brake for *_, brake in starts), 3), 'brake_bar': BRAKE_BAR,
        'start_sim_s': round(statistics.median(sim for sim, *_ in starts), 2),
        'start_wcpg_s': round(statistics.median(wcpg for _, wcpg, _ in starts), 2), 'start_bar': START_BAR,
        'wcpg_mib': round(memory, 1), 'wcpg_mib_bar': MEMORY_BAR,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--episodes', type=int, default=20, help='in each round (default: 20)')
    parser.add_argument('--role', choices=['ping', 'pong'], help=argparse.SUPPRESS)
    parser.add_argument('--executor', default='events', help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.role is not None:
        {'ping': ping, 'pong': pong}[given.role](given.executor)
        return
    found = measure(given.rounds, given.episodes)
    if given.json:
        print(json.dumps(found))
        return
    print(f'closed loop, two processes       {found["loop_ms"]:7.3f} ms a step: {found["steps_per_second"]} steps/s, '
          f'{found["times_real_time"]:g} times real time (bar: {REAL_TIME_BAR:g})')
    print(f'bare ping-pong, same executor    {found["bare_ms"]:7.3f} ms: the loop takes {found["loop_to_bare"]:g} '
          f'of it (bar: {RATIO_BAR:g})')
    print(f'bare ping-pong, default executor {found["bare_default_executor_ms"]:7.3f} ms: the loop takes '
          f'{found["loop_to_bare_default_executor"]:g} of it')
    print(f'unlike in process                {found["episodes_unlike_in_process"]:7d} of {found["episodes"]} episodes')
    print(f'brakes after kill -9             {found["brake_after_kill_s"]:7.3f} s, worst '
          f'{found["brake_after_kill_worst_s"]:g} (bar: {BRAKE_BAR:g})')
    print(f'start to first message           {found["start_sim_s"]:7.2f} s the simulator, {found["start_wcpg_s"]:g} '
          f'the policy (bar: {START_BAR:g})')
    print(f'memory of the policy             {found["wcpg_mib"]:7.1f} MiB (bar: {MEMORY_BAR:g})')


if __name__ == '__main__':
    sys.exit(main())
