"""What is missing from a bag, doubled or of the wrong kind is handled and counted, or refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip('mcap', reason='needs the bags extra')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import assert_same, changed, driven, make_bag, messages, read, stamped, write_bag

from wcpg_ros.bag_episodes import Assembler
from wcpg_ros.bag_messages import header_stamp
from wcpg_ros.bag_storage import RawMessage
from wcpg_ros.bag_topics import COMMAND, EGO, EPISODE, MARKERS, TYPES, VEHICLES, new_topic
from wcpg_ros.bag_writer import BagWriter

GAP = ('left_turn', 'gap:3', 3, 5)


@pytest.fixture(scope='module')
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes of the gap rule."""
    return make_bag(tmp_path_factory.mktemp('bags') / 'whole')


def test_a_dropped_state_costs_its_two_decisions(whole: Path, tmp_path: Path) -> None:
    states = [m for m in messages(whole) if m.topic == EGO]
    lost = states[8]     # the third decision's
    changed(whole, tmp_path / 'bag', lambda all_: [m for m in all_ if m != lost])
    episodes, reader = read(tmp_path / 'bag')
    expected = driven(*GAP)
    assert episodes[0].gaps == 2
    assert reader.summary.oddities() == {'lost decisions': 2, 'states of which a part is missing (--tolerance)': 1}
    transitions = episodes[0].transitions
    assert transitions.index.tolist() == [i for i in range(len(expected[0].rows['action'])) if i not in (1, 2)]
    assert transitions.truncated[0]     # a gap is behind it
    assert_same(episodes[1].transitions, expected[1])


def test_states_between_decisions_may_be_lost(whole: Path, tmp_path: Path) -> None:
    changed(whole, tmp_path / 'bag', lambda all_: [
        m for m in all_ if m.topic not in (EGO, VEHICLES) or header_stamp(m.data) % 400_000_000 == 0])
    episodes, reader = read(tmp_path / 'bag')
    for episode, expected in zip(episodes, driven(*GAP), strict=True):
        assert len(episode.transitions) == len(expected.rows['action'])
        np.testing.assert_array_equal(episode.transitions.reward, np.float32(expected.rows['reward']))
    assert reader.summary.oddities() == {}


def test_lost_commands_cost_only_a_window_without_any(whole: Path, tmp_path: Path) -> None:
    def change(everything: list[RawMessage]) -> list[RawMessage]:
        commands = [m for m in everything if m.topic == COMMAND]
        lost = [*commands[4:8], commands[9]]     # the second window, and one of the third
        return [m for m in everything if m not in lost]
    changed(whole, tmp_path / 'bag', change)
    episodes, reader = read(tmp_path / 'bag')
    assert episodes[0].transitions.index.tolist()[:3] == [0, 2, 3]
    assert reader.summary.oddities() == {'decisions without a command': 1, 'lost decisions': 1}


def test_a_bag_that_begins_in_the_middle_keeps_the_rest_of_the_episode(whole: Path, tmp_path: Path) -> None:
    changed(whole, tmp_path / 'bag', lambda all_: [m for m in all_ if m.log_time >= 2_100_000_000])
    episodes, reader = read(tmp_path / 'bag')
    expected = driven(*GAP)
    assert_same(episodes[0].transitions, expected[0], start=6)     # from 2.4 s on
    assert_same(episodes[1].transitions, expected[1])
    assert reader.summary.oddities() == {}


def test_without_its_result_an_episode_of_unknown_beginning_is_left_out(whole: Path, tmp_path: Path) -> None:
    def change(everything: list[RawMessage]) -> list[RawMessage]:
        result = next(m for m in everything if m.topic == EPISODE)
        return [m for m in everything if m.log_time >= 2_100_000_000 and m != result]
    changed(whole, tmp_path / 'bag', change)
    episodes, reader = read(tmp_path / 'bag', scenario='left_turn')
    assert len(episodes[0].transitions) == 0
    assert episodes[0].outcome == 'unknown'
    assert reader.summary.oddities() == {'episodes without their beginning': 1}


def test_a_bag_that_ends_in_the_middle_is_cut_not_ended(whole: Path, tmp_path: Path) -> None:
    last = max(m.log_time for m in messages(whole))
    changed(whole, tmp_path / 'bag', lambda all_: [m for m in all_ if m.log_time <= last - 1_000_000_000])
    episodes, reader = read(tmp_path / 'bag')
    assert [episode.outcome for episode in episodes][-1] == 'cut'
    transitions = episodes[-1].transitions
    assert not transitions.done.any()
    assert transitions.truncated.tolist() == [False] * (len(transitions) - 1) + [True]
    assert reader.summary.oddities() == {'episodes without their end': 1}


def test_states_repeated_by_a_pause_count_once(whole: Path, tmp_path: Path) -> None:
    def change(everything: list[RawMessage]) -> list[RawMessage]:
        paused = [m for m in everything if m.log_time == 1_300_000_000 and m.topic in (EGO, VEHICLES)]
        place = everything.index(paused[-1]) + 1
        return everything[:place] + 5 * paused + everything[place:]
    changed(whole, tmp_path / 'bag', change)
    episodes, reader = read(tmp_path / 'bag')
    assert_same(episodes[0].transitions, driven(*GAP)[0])
    assert reader.summary.oddities() == {'repeated states': 5}


def test_a_simulator_started_anew_begins_a_new_episode(whole: Path, tmp_path: Path) -> None:
    everything = [m for m in messages(whole) if m.log_time < 3_000_000_000]
    assert not [m for m in everything if m.topic == EPISODE]
    later = [m._replace(log_time=m.log_time + 100_000_000_000) for m in messages(whole)]
    write_bag(tmp_path / 'bag', everything + later)     # stamps go from 3 s back to 0
    episodes, reader = read(tmp_path / 'bag', scenario='left_turn')
    assert [episode.outcome for episode in episodes] == ['cut', 'success', 'success', 'success']
    for episode, expected in zip(episodes[1:], driven(*GAP), strict=True):
        assert_same(episode.transitions, expected)
    assert reader.summary.oddities() == {'episodes without their end': 1, 'times that the clock went back': 1}


def test_a_clock_that_jumps_ahead_parts_the_episode(whole: Path, tmp_path: Path) -> None:
    """The recorded first half is cut; where the second begins nobody knows."""
    expected = driven(*GAP)[0]

    def change(everything: list[RawMessage]) -> list[RawMessage]:
        first = [m for m in everything if m.log_time < 10_000_000_000]
        return [stamped(m, header_stamp(m.data) + 7_300_000_000 * (m.log_time >= 2_000_000_000)) for m in first
                if m.topic in (EGO, VEHICLES, COMMAND)] + [m for m in first if m.topic == MARKERS]
    changed(whole, tmp_path / 'bag', change)
    episodes, reader = read(tmp_path / 'bag', scenario='left_turn')
    assert episodes[0].outcome == 'cut'
    np.testing.assert_allclose(episodes[0].transitions.observation, expected.rows['observation'][:4], rtol=2e-7)
    assert reader.summary.oddities()['episodes taken to begin with their first state'] == 1


def test_episodes_back_to_back_without_a_pause_in_the_stamps(whole: Path, tmp_path: Path) -> None:
    """As simulators record whose clock goes on over a reset: 0.1 s later ego stands where it begins."""
    kept = [m for m in messages(whole) if m.topic in (EGO, VEHICLES, COMMAND, MARKERS)]
    begins = sorted({m.log_time // 10_000_000_000 * 10_000_000_000 for m in kept if m.topic == COMMAND and
                     m.log_time % 10_000_000_000 == 0 and m.log_time - 100_000_000 not in
                     {each.log_time for each in kept}})
    assert len(begins) == 3
    shifts, shift = {}, 0
    for begin, end in zip(begins, [*begins[1:], 10**18], strict=True):
        shifts[begin] = shift - begin
        last = max(m.log_time for m in kept if m.log_time < end)
        shift += last - begin + 100_000_000
    moved = []
    for message in kept:
        by = shifts[max(begin for begin in begins if begin <= message.log_time)]
        message = message._replace(log_time=message.log_time + by)
        moved.append(message if message.topic == MARKERS else stamped(message, header_stamp(message.data) + by))
    write_bag(tmp_path / 'bag', moved)
    episodes, reader = read(tmp_path / 'bag', scenario='left_turn')
    for episode, expected in zip(episodes, driven(*GAP), strict=True):
        assert_same(episode.transitions, expected)
    assert reader.summary.oddities() == {'episodes taken to begin with their first state': 2,
                                         'episodes whose end was worked out': 3, 'times that ego jumped': 2}


def test_a_recording_that_never_ends_does_not_fill_the_memory(whole: Path) -> None:
    """An hour of driving on: after the longest episode nothing more of it is kept."""
    counts: Counter[str] = Counter()
    assembler = Assembler(40_000_000_000, counts)
    first = {m.topic: m for m in reversed(messages(whole)) if m.topic in (EGO, VEHICLES, COMMAND, MARKERS)}
    for index in range(36_000):
        for topic, message in first.items():
            message = message._replace(log_time=index * 100_000_000)
            if topic != MARKERS:
                message = stamped(message, message.log_time)
            assert assembler.take(topic, message) == []
    [episode] = assembler.finish()
    assert len(episode.ego) == len(episode.vehicles) == 401
    assert max(len(episode.commands), len(episode.markers)) <= 402
    assert counts['states after the end'] == 36_000 - 401


@pytest.mark.parametrize('seconds', [-6, 6])
@pytest.mark.parametrize('topic', [EGO, VEHICLES, COMMAND, EPISODE])
def test_a_topic_that_comes_seconds_before_or_after_the_others(
        whole: Path, tmp_path: Path, topic: str, seconds: int) -> None:
    """As where a recorder stalls and gets again what it has lost, one topic sooner than another."""
    changed(whole, tmp_path / 'bag', lambda all_: sorted(
        (m._replace(log_time=m.log_time + 10**10 + seconds * 10**9 * (m.topic == topic)) for m in all_),
        key=lambda m: m.log_time))
    episodes, reader = read(tmp_path / 'bag')
    for episode, drive in zip(episodes, driven(*GAP), strict=True):
        assert_same(episode.transitions, drive)
    assert reader.summary.oddities() == {}


def test_topics_may_arrive_in_any_order_within_a_second(whole: Path, tmp_path: Path) -> None:
    order = list(TYPES)
    changed(whole, tmp_path / 'bag', lambda all_: sorted(
        all_, key=lambda m: (m.log_time // 900_000_000, order.index(m.topic))))
    episodes, reader = read(tmp_path / 'bag')
    for episode, expected in zip(episodes, driven(*GAP), strict=True):
        assert_same(episode.transitions, expected)
    assert reader.summary.oddities() == {}


def test_a_missing_topic_is_named_with_what_is_there(whole: Path, tmp_path: Path) -> None:
    changed(whole, tmp_path / 'bag', lambda all_: [m for m in all_ if m.topic != VEHICLES])
    _, reader = read(tmp_path / 'bag')
    [problem] = reader.summary.problems
    assert f'no {VEHICLES} in it' in problem
    assert '--map /vehicles=NAME' in problem
    assert reader.summary.transitions == 0


def test_a_topic_of_another_type_is_refused_and_other_bags_are_read(whole: Path, tmp_path: Path) -> None:
    with_other_type = [m._replace(topic='/ego/odometry') if m.topic == COMMAND else m for m in messages(whole)
                       if m.topic != EGO]
    with BagWriter(tmp_path / 'all' / 'wrong') as out:
        for name, kind in ((VEHICLES, VEHICLES), (EGO, COMMAND)):
            topic = new_topic(kind)
            topic.name = name
            out.add_topic(topic)
        for message in with_other_type:
            if message.topic in out.topics:
                out.write(message.topic, message.data, message.log_time)
    make_bag(tmp_path / 'all' / 'right')
    episodes, reader = read(tmp_path / 'all')
    assert len(episodes) == 3
    [problem] = [p for p in reader.summary.problems if 'refused' in p]
    assert 'is a geometry_msgs/msg/AccelStamped, not a nav_msgs/msg/Odometry' in problem


def test_a_bag_of_another_scene_is_refused(whole: Path) -> None:
    episodes, reader = read(whole, scenario='merge')
    assert episodes == []
    assert 'driven in left_turn, not in merge' in reader.summary.problems[0]


def test_malformed_messages_are_counted(whole: Path, tmp_path: Path) -> None:
    def change(everything: list[RawMessage]) -> list[RawMessage]:
        states = [m for m in everything if m.topic == VEHICLES]
        short = {states[4]: states[4].data[:30], states[12]: b'\x00\x02'}
        return [m._replace(data=short.get(m, m.data)) for m in everything]
    changed(whole, tmp_path / 'bag', change)
    episodes, reader = read(tmp_path / 'bag')
    assert reader.summary.counts['malformed messages'] == 2
    assert episodes[0].gaps == 4
    assert_same(episodes[1].transitions, driven(*GAP)[1])
