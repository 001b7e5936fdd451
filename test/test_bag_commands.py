"""record, bag inspect, bag export, and learning from what they give."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

pytest.importorskip('mcap', reason='needs the bags extra')
pytest.importorskip('rosbags', reason='needs the bags extra')

from bag_tools import driven, make_bag, messages, read, write_bag
from rosbags.rosbag2 import Reader

from sim_node.state import OUTCOMES
from wcpg_ros import bag, offline, record
from wcpg_ros.bag_rules import Rules
from wcpg_ros.bag_topics import COMMAND, EGO, TYPES, VEHICLES
from wcpg_ros.replay import Replay
from wcpg_ros.train import main as train_main
from wcpg_ros.train import make_trainer

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope='module')
def bags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two bags, of a rule and of full throttle."""
    folder = tmp_path_factory.mktemp('bags')
    make_bag(folder / 'gap', controller='gap:4', episodes=4, seed=5)
    make_bag(folder / 'go', controller='constant:4', episodes=4, seed=6)
    return folder


def test_record_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / 'bag'
    command = ['--scenario', 'merge', '--controller', 'gap:4', '--episodes', '2', '--out', str(out)]
    assert record.main([*command, '--storage', 'sqlite3', '--without-markers']) == 0
    assert '2 episodes (2 success)' in capsys.readouterr().out
    assert '/vehicles/markers' not in read(out)[1].summary.topics
    assert record.main(command) == 2
    assert 'exists already; choose another place' in capsys.readouterr().err
    assert record.main([*command[:-1], str(tmp_path / 'other'), '--alpha', 'random']) == 2
    assert 'has no dial' in capsys.readouterr().err


def test_recording_needs_no_ros(tmp_path: Path) -> None:
    program = ('import sys; sys.modules.update(dict.fromkeys(("rclpy", "std_msgs", "nav_msgs"))); '
               'from wcpg_ros import bag, record; '
               f'record.main("--scenario left_turn --controller gap:2 --episodes 1 --out {tmp_path}/bag".split()); '
               f'sys.exit(bag.main(["inspect", "{tmp_path}/bag"]))')
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_inspect_tells_and_draws(bags: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bag.main(['inspect', str(bags), '--json', '--plot', str(tmp_path / 'plot.png')]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts['bags'], facts['episodes'], facts['problems']) == (2, 8, [])
    assert facts['transitions'] == sum(len(e.rows['action']) for e in [
        *driven('left_turn', 'gap:4', 4, 5), *driven('left_turn', 'constant:4', 4, 6)])
    assert (tmp_path / 'plot.png').read_bytes()[:4] == b'\x89PNG'
    assert bag.main(['inspect', str(bags)]) == 0
    assert '8 episodes: ' in capsys.readouterr().out


def test_reindex_finishes_a_bag_for_other_tools(tmp_path: Path) -> None:
    file = make_bag(tmp_path / 'bag', episodes=20) / 'bag_0.mcap'
    (tmp_path / 'bag' / 'metadata.yaml').unlink()
    file.write_bytes(file.read_bytes()[:file.stat().st_size * 3 // 5])
    before = read(tmp_path / 'bag')[1].summary
    assert bag.main(['reindex', str(tmp_path / 'bag')]) == 0
    after = read(tmp_path / 'bag')[1].summary
    assert (before.unfinished, after.unfinished) == (1, 0)
    assert after.episodes == before.episodes
    with Reader(tmp_path / 'bag') as reader:
        assert {c.topic: c.msgcount for c in reader.connections} == {
            name: topic.count for name, topic in after.topics.items()}


def test_mistakes_are_named(bags: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, says in ((['--map', '/vehicles'], 'expected OURS=THEIRS'),
                            (['--map', '/wheels=/x'], 'not a topic of ours'),
                            (['--scenario', 'roundabout'], "'roundabout' is unknown")):
        assert bag.main(['inspect', str(bags), *arguments]) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize('option', ['--scene-pose nan 0 0', '--scene-pose 0 inf 0', '--scene-pose 0 0 1e300',
                                    '--vehicle-size nan nan', '--vehicle-size 4.6 -1.9', '--vehicle-size inf 2',
                                    '--vehicle-size 4.6 0', '--tolerance nan', '--tolerance -1', '--tolerance 1e300'])
def test_numbers_that_are_none_are_refused(bags: Path, tmp_path: Path, option: str,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(bags), *option.split(), '--scenario', 'left_turn']
    out = ['--out', str(tmp_path / 'out')]
    for command in (lambda: bag.main(['inspect', *arguments]),
                    lambda: bag.main(['export', *arguments, '--to', 'npz', *out]),
                    lambda: train_main(['--from-bag', *arguments, '--config', str(ROOT / 'config' / 'offline.yaml'),
                                        *out])):
        assert command() == 2
        assert f': {option.split()[0]}: expected ' in capsys.readouterr().err
        assert not (tmp_path / 'out').exists()


def test_export_to_npz(bags: Path, tmp_path: Path) -> None:
    assert bag.main(['export', str(bags), '--to', 'npz', '--out', str(tmp_path / 'x.npz'), '--set',
                     'layout.time=true']) == 0
    expected = [*driven('left_turn', 'gap:4', 4, 5, time=True), *driven('left_turn', 'constant:4', 4, 6, time=True)]
    with np.load(tmp_path / 'x.npz') as file:
        np.testing.assert_allclose(file['observations'], np.concatenate([e.rows['observation'] for e in expected]),
                                   rtol=2e-7, atol=1e-7)
        assert file['observations'].dtype == np.float32
        np.testing.assert_array_equal(file['terminations'], np.concatenate([e.rows['done'] for e in expected]))
        assert not file['truncations'].any()
        assert file['rewards'].sum() == pytest.approx(sum(e.rows['reward'][-1] for e in expected))
        info = json.loads(str(file['info']))
    assert [each['seed'] for each in info] == [*range(5_000_000, 5_000_004), *range(6_000_000, 6_000_004)]


def test_an_archive_is_new_and_of_one_scene(bags: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_bag(tmp_path / 'merge', 'merge', episodes=1)
    command = ['--to', 'npz', '--out', str(tmp_path / 'x.npz')]
    assert bag.main(['export', str(bags), str(tmp_path / 'merge'), *command]) == 2
    assert 'left_turn, merge: an archive is of one scene' in capsys.readouterr().err
    assert not (tmp_path / 'x.npz').exists()
    (tmp_path / 'x.npz').write_bytes(b'somebody needs this')
    assert bag.main(['export', str(bags), *command]) == 2
    assert 'x.npz: exists already; choose another name, or remove it' in capsys.readouterr().err
    assert (tmp_path / 'x.npz').read_bytes() == b'somebody needs this'


def test_export_to_minari(bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                          capsys: pytest.CaptureFixture[str]) -> None:
    minari = pytest.importorskip('minari', reason='needs the minari extra')
    monkeypatch.setenv('MINARI_DATASETS_PATH', str(tmp_path))
    # A bag that breaks off: its last episode is truncated, not terminated.
    everything = messages(make_bag(tmp_path / 'cut', episodes=2, seed=5))
    last = max(message.log_time for message in everything)
    write_bag(tmp_path / 'part', [m for m in everything if m.log_time < last - 2_000_000_000])
    assert bag.main(['export', str(bags), str(tmp_path / 'part'), '--to', 'minari', '--out', 'wcpg/test-v0']) == 0
    dataset = minari.load_dataset('wcpg/test-v0')
    episodes = list(dataset.iterate_episodes())
    assert len(episodes) == 10
    expected = driven('left_turn', 'gap:4', 4, 5)[0].rows
    np.testing.assert_allclose(episodes[0].observations[:-1], expected['observation'], rtol=2e-7, atol=1e-7)
    np.testing.assert_allclose(episodes[0].observations[-1], expected['next_observation'][-1], rtol=2e-7, atol=1e-7)
    assert episodes[0].actions.shape == (len(expected['action']), 1)
    ends = [(bool(e.terminations[-1]), bool(e.truncations[-1])) for e in episodes]
    assert ends == [(True, False)] * 9 + [(False, True)]
    # Whoever has the dataset has the scene too: the recorded actions give the recorded episode again.
    scene = dataset.recover_environment()
    observation, _ = scene.reset(seed=5)
    np.testing.assert_allclose(observation, episodes[0].observations[0], rtol=2e-7, atol=1e-7)
    paid = [scene.step(action)[1] for action in episodes[0].actions]
    np.testing.assert_allclose(paid, episodes[0].rewards, rtol=2e-7)
    assert bag.main(['export', str(bags), '--to', 'minari', '--out', 'wcpg/test-v0']) == 2
    assert 'exists already; choose another name' in capsys.readouterr().err
    for name in ('badname', 'bad name-v0', 'x/y-v'):
        assert bag.main(['export', str(bags), '--to', 'minari', '--out', name]) == 2
        assert f'{name!r}: expected the name of a Minari dataset, NAME-v0' in capsys.readouterr().err


def test_n_step_rewards_by_hand(bags: Path) -> None:
    episodes, _ = read(bags / 'go')
    transitions = episodes[0].transitions
    count = len(transitions)
    replay = Replay(1000, transitions.observation.shape[1])
    offline.add(replay, transitions, episodes[0].outcome, 0.99, 3, bound=3.0)
    assert replay.size == count
    assert (replay.column('action') == 3.0).all()     # 4 m/s² were asked for
    discount = 0.99 ** transitions.steps.astype(float)
    paid = float(transitions.reward[-1])
    assert replay.column('reward')[count - 1] == pytest.approx(paid)
    assert replay.column('reward')[count - 3] == pytest.approx(discount[-3] * discount[-2] * paid, rel=1e-6)
    assert (replay.column('reward')[:count - 3] == 0).all()
    assert replay.column('done').tolist() == [0.0] * (count - 3) + [1.0] * 3
    assert replay.column('discount')[0] == pytest.approx(discount[0] * discount[1] * discount[2], rel=1e-6)
    d = replay.observation_size
    np.testing.assert_array_equal(replay.rows[0, d:2 * d], transitions.next_observation[2])


QUICK = ['offline.updates=40', 'offline.interval=20', 'validation.episodes=20', 'learning.batch=64']


def test_training_from_bags_and_on_in_the_simulator(bags: Path, tmp_path: Path) -> None:
    out = tmp_path / 'run'
    assert train_main(['--from-bag', str(bags), '--config', str(ROOT / 'config' / 'offline.yaml'), '--set', *QUICK,
                       '--then-sim', '20', '--out', str(out)]) == 0
    config = yaml.safe_load((out / 'config.yaml').read_text())
    assert (config['scenario'], config['episodes']) == ('left_turn', 20)
    trainer = make_trainer(out)
    recorded = sum(len(e.transitions) for e in read(bags)[0])
    assert trainer.episodes >= 20
    assert trainer.learner.updates > 40
    assert trainer.replay.size > recorded
    rows = (out / 'log.csv').read_text().splitlines()
    assert len(rows) == 1 + 2 + 1     # two validations offline, one after driving


def test_training_from_a_bag_of_another_simulator(bags: Path, tmp_path: Path) -> None:
    """States and commands under other names; what its end was, and how it is read again, the run knows."""
    theirs = {EGO: '/odom', VEHICLES: '/traffic', COMMAND: '/accel'}
    write_bag(tmp_path / 'bag', [m._replace(topic=theirs[m.topic]) for m in messages(bags / 'go') if m.topic in theirs],
              {name: TYPES[ours] for ours, name in theirs.items()})
    out = tmp_path / 'run'
    assert train_main(['--from-bag', str(tmp_path / 'bag'), '--scenario', 'left_turn', '--config',
                       str(ROOT / 'config' / 'offline.yaml'), '--set', *QUICK, '--vehicle-size', '4.6', '1.9', '--map',
                       *(f'{ours}={name}' for ours, name in theirs.items()), '--out', str(out)]) == 0
    trainer = make_trainer(out)
    expected = read(bags / 'go')[0]
    assert trainer.replay.size == sum(len(episode.transitions) for episode in expected)
    assert set(trainer.replay.column('outcome')) == {OUTCOMES.index(episode.outcome) for episode in expected}
    assert trainer.config.rules == Rules((4.6, 1.9), names=theirs)


def test_an_interrupted_offline_run_ends_with_the_same_weights(
        bags: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ['--from-bag', str(bags), '--config', str(ROOT / 'config' / 'offline.yaml'), '--set', *QUICK]
    assert train_main([*command, '--out', str(tmp_path / 'whole')]) == 0
    asked = []
    update = offline.Trainer.update

    def interrupted(trainer: offline.Trainer, progress: float) -> None:
        update(trainer, progress)
        if trainer.learner.updates == 27 and not asked:
            asked.append(True)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(offline.Trainer, 'update', interrupted)
    assert train_main([*command, '--out', str(tmp_path / 'halves')]) == 130
    assert train_main(['--resume', str(tmp_path / 'halves')]) == 0
    whole, halves = ((tmp_path / name / 'model.safetensors').read_bytes() for name in ('whole', 'halves'))
    assert whole == halves


def test_training_says_what_is_wrong_with_the_bags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = ['--config', str(ROOT / 'config' / 'offline.yaml')]
    assert train_main(['--from-bag', str(tmp_path / 'none'), *config]) == 2
    assert 'does not exist' in capsys.readouterr().err
    make_bag(tmp_path / 'bag', episodes=1)
    assert train_main(['--from-bag', str(tmp_path / 'bag'), *config, '--set', 'alpha.relabel=0.5', '--out',
                       str(tmp_path / 'run')]) == 2
    assert 'set alpha.relabel to 1' in capsys.readouterr().err
    assert not (tmp_path / 'run').exists()
    make_bag(tmp_path / 'other', 'merge', episodes=1)
    assert train_main(['--from-bag', str(tmp_path / 'other'), '--scenario', 'left_turn', *config, '--out',
                       str(tmp_path / 'run')]) == 2
    said = capsys.readouterr().err
    assert f'{tmp_path / "other"}: driven in merge, not in left_turn: it is refused' in said
    assert 'no transition in there' in said
