"""ros2 bag of standalone/: what is recorded, also by a recorder that is killed, is what was published."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from wcpg_ros.domain import Ros, Running, eventually

pytest.importorskip('rclpy', reason='needs rclpy')
pytest.importorskip('rosbags', reason='needs the bags extra')
pytest.importorskip('ros2_standalone', reason='a ROS 2 distribution is used instead of standalone/')

from bag_tools import messages
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_typestore


@pytest.fixture
def demo(ros: Ros) -> Running:
    running = ros.start_python('-m', 'demo_node')
    running.wait_for('^ready')
    return running


def recorded(path: Path) -> dict[str, list[tuple[int, object]]]:
    """Read with nothing but the definitions in the bag."""
    found: dict[str, list[tuple[int, object]]] = {}
    with AnyReader([path], default_typestore=get_typestore(Stores.EMPTY)) as reader:
        for connection, stamp, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            found.setdefault(connection.topic, []).append((stamp, getattr(message, 'data', message)))
    return found


def wait_until_more_is_written(bag: Path) -> None:
    """Wait until the recorder has handed more messages to the operating system."""
    [file] = [*bag.glob('*.mcap'), *bag.glob('*.db3')]
    before = file.stat().st_size
    eventually(lambda: file.stat().st_size > before, 10, f'{file} grows')


@pytest.mark.usefixtures('demo')
@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_ctrl_c_finishes_the_bag(ros: Ros, tmp_path: Path, storage: str) -> None:
    recorder = ros.ros2('bag', 'record', '/numbers', '/latched', '-o', tmp_path / 'bag', '-s', storage)
    recorder.wait_for(r"Subscribed to topic '/numbers'")
    recorder.wait_for(r"Subscribed to topic '/latched'")
    wait_until_more_is_written(tmp_path / 'bag')
    wait_until_more_is_written(tmp_path / 'bag')
    recorder.signal(signal.SIGINT)
    assert recorder.ended() == 0
    read = recorded(tmp_path / 'bag')
    assert [value for _, value in read['/latched']] == ['once']   # sent before the recorder was there
    numbers = [int(value[0]) for _, value in read['/numbers']]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))   # none is missing
    assert len(numbers) >= 20
    info = ros.run_ros2('bag', 'info', tmp_path / 'bag').stdout
    assert re.search(rf'Storage id: +{storage}\nROS Distro: +jazzy\nDuration: +[\d.]+s\nStart: ', info)
    assert f'Topic: /numbers | Type: std_msgs/msg/Float64MultiArray | Count: {len(numbers)} | ' \
           'Serialization Format: cdr' in info


@pytest.mark.usefixtures('demo')
@pytest.mark.parametrize('storage', ['mcap', 'sqlite3'])
def test_a_killed_recorder_loses_at_most_its_last_second(ros: Ros, tmp_path: Path, storage: str) -> None:
    recorder = ros.ros2('bag', 'record', '-a', '-o', tmp_path / 'bag', '-s', storage)
    recorder.wait_for(r"Subscribed to topic '/numbers'")
    wait_until_more_is_written(tmp_path / 'bag')
    wait_until_more_is_written(tmp_path / 'bag')
    time.sleep(0.6)   # into the middle of a second that is not written yet
    killed_at = time.time_ns()
    recorder.signal(signal.SIGKILL)
    recorder.ended()
    unfinished = ros.run_ros2('bag', 'info', tmp_path / 'bag')
    assert unfinished.returncode == 1
    assert f"run 'ros2 bag reindex {tmp_path / 'bag'}'" in unfinished.stderr
    as_it_is = [message.data for message in messages(tmp_path / 'bag') if message.topic == '/numbers']
    assert ros.run_ros2('bag', 'reindex', tmp_path / 'bag').returncode == 0
    assert [message.data for message in messages(tmp_path / 'bag') if message.topic == '/numbers'] == as_it_is
    numbers = recorded(tmp_path / 'bag')['/numbers']
    values = [int(value[0]) for _, value in numbers]
    assert values == list(range(values[0], values[0] + len(values)))
    lost_seconds = (killed_at - numbers[-1][0]) * 1e-9
    assert lost_seconds < 1.0 + 0.5   # the second allowed, and what a busy machine adds
    assert ros.run_ros2('bag', 'info', tmp_path / 'bag').returncode == 0


def test_play_publishes_what_was_recorded(ros: Ros, demo: Running, tmp_path: Path) -> None:
    recorder = ros.ros2('bag', 'record', '/numbers', '/latched', '-o', tmp_path / 'first')
    recorder.wait_for(r"Subscribed to topic '/numbers'")
    recorder.wait_for(r"Subscribed to topic '/latched'")
    wait_until_more_is_written(tmp_path / 'first')
    recorder.signal(signal.SIGINT)
    recorder.ended()
    demo.signal(signal.SIGKILL)
    first = recorded(tmp_path / 'first')

    again = ros.ros2('bag', 'record', '-e', 'again|clock', '-o', tmp_path / 'second')
    again.wait_for('Recording...')
    player = ros.ros2('bag', 'play', tmp_path / 'first', '--rate', '0.5', '--clock', '20', '--delay', '1.5',
                      '--remap', '/numbers:=/again', '/latched:=/latched_again')
    again.wait_for(r"Subscribed to topic '/again'")
    assert player.ended() == 0
    again.signal(signal.SIGINT)
    assert again.ended() == 0
    second = recorded(tmp_path / 'second')
    assert [list(value) for _, value in second['/again']] == [list(value) for _, value in first['/numbers']]
    assert [value for _, value in second['/latched_again']] == ['once']
    spans = [stamps[-1][0] - stamps[0][0] for stamps in (second['/again'], first['/numbers'])]
    assert spans[0] / spans[1] == pytest.approx(2.0, rel=0.15)   # at half the rate
    clock = [message.clock.sec + message.clock.nanosec * 1e-9 for _, message in second['/clock']]
    assert clock == sorted(clock)
    assert clock[0] * 1e9 == pytest.approx(first['/latched'][0][0], abs=1e9)   # the bag's time, not ours


def test_mistakes_are_named(ros: Ros, tmp_path: Path) -> None:
    assert 'Need to specify at least one option' in ros.run_ros2('bag', 'record').stderr
    exists = ros.run_ros2('bag', 'record', '-a', '-o', tmp_path)
    assert (exists.returncode, exists.stderr) == (1, f"[ERROR] [ros2bag]: Output folder '{tmp_path}' already exists.\n")
    missing = ros.run_ros2('bag', 'info', tmp_path / 'nothing')
    assert missing.returncode == 2
    assert f"Bag path '{tmp_path / 'nothing'}' does not exist!" in missing.stderr
    rate = ros.run_ros2('bag', 'play', tmp_path, '-r', '0')
    assert '0 is not in the valid range (> 0.0)\n' in rate.stderr
    storage = ros.run_ros2('bag', 'record', '-a', '-s', 'foo')
    assert "invalid choice: 'foo'" in storage.stderr
    for mistake in (missing, rate, storage):
        assert 'not supported here' not in mistake.stderr
    unsupported = ros.run_ros2('bag', 'record', '-a', '--max-bag-size', '1000')
    assert 'not supported here' in unsupported.stderr
    (tmp_path / 'half_0.mcap').write_bytes(b'\x89MCAP0\r\n')
    half = ros.run_ros2('bag', 'info', tmp_path / 'half_0.mcap')
    assert half.returncode == 1
    assert 'is no finished mcap file' in half.stderr
    (tmp_path / 'half_0.mcap').unlink()
    empty = ros.run_ros2('bag', 'reindex', tmp_path)
    assert empty.returncode == 1
    assert 'is this a bag?' in empty.stderr
