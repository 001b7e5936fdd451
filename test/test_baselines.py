"""Baselines: trained by libraries on our scenes, driven without them."""

import gc
import itertools
import json
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sim_node.scenario import load_scenario
from sim_node.settings import replaced
from wcpg_ros import evaluate
from wcpg_ros.baselines import train
from wcpg_ros.baselines.baseline_file import Baseline, BaselineInfo
from wcpg_ros.baselines.c51 import C51Run, Network, QuickC51
from wcpg_ros.baselines.stable import HeldNoise, PenalisedTanh, StableRun
from wcpg_ros.baselines.vec_env import SceneVecEnv
from wcpg_ros.model_file import ModelError, ModelFile
from wcpg_ros.run_directory import RunDirectory
from wcpg_ros.seeds import training_start
from wcpg_ros.settings import ExplorationSettings, Recipe, load_recipe

RECIPE = replaced(load_recipe('config/left_turn.yaml'), {
    'learning.batch': 32, 'learning.replay': 5000, 'learning.updates_per_decision': 0.5, 'world.scenes': 4,
    'exploration.random_decisions': 64, 'validation.episodes': 20}, 'recipe')
ALGORITHMS = ('ddpg', 'ppo', 'c51')
INFO = BaselineInfo(algorithm='ddpg', output='tanh', scenario='merge', layout_version=1, vehicles=3,
                    time_feature=False, observation_size=16, normaliser_clip=5.0, action_bound=4.0, recipe={}, seed=0,
                    decisions=10, code_version='0.1.0')


def random_baseline(output: str = 'tanh', seed: int = 0) -> Baseline:
    rng = np.random.default_rng(seed)
    widths = [16, 8, 6, 5 * 7 if output == 'grid' else 1]
    tensors = {'normaliser.mean': rng.normal(0.0, 10.0, 16), 'normaliser.std': rng.uniform(0.5, 20.0, 16)}
    for k, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        tensors[f'layer{k}.weight'] = rng.normal(0.0, 1.0, (outputs, inputs))
        tensors[f'layer{k}.bias'] = rng.normal(0.0, 0.3, outputs)
    if output == 'grid':
        tensors |= {'grid': np.linspace(-4.0, 4.0, 5), 'atoms': np.linspace(-50.0, 60.0, 7)}
    return Baseline(replace(INFO, output=output), {name: value.astype(np.float32) for name, value in tensors.items()})


def make_run(algorithm: str, seed: int = 3, decisions: int = 400, recipe: Recipe = RECIPE):
    scenario = load_scenario('left_turn', 'train', RECIPE.world.changes)
    if algorithm == 'c51':
        return C51Run(scenario, recipe, seed, decisions)
    return StableRun(algorithm, scenario, recipe, seed, decisions)


@pytest.mark.parametrize('output', ['tanh', 'clip', 'grid'])
def test_a_file_gives_the_same_bits_back_alone_or_in_a_batch(output: str, tmp_path: Path) -> None:
    baseline = random_baseline(output)
    baseline.save(tmp_path / 'b.safetensors')
    again = Baseline.load(tmp_path / 'b.safetensors')
    assert again.info == baseline.info
    rows = np.random.default_rng(1).normal(0.0, 20.0, (50, 16)).astype(np.float32)
    together = baseline.act(rows)
    assert np.abs(together).max() <= 4.0
    assert len(set(together.tolist())) > 1
    assert [again.act(row[None])[0] for row in rows] == together.tolist()


def test_a_baseline_by_hand() -> None:
    """One layer, one input that counts: (10 - 4) / 2 is clipped to 2.5, times 0.2 is 0.5, times the bound is 2."""
    tensors = {'normaliser.mean': np.full(16, 4.0), 'normaliser.std': np.full(16, 2.0),
               'layer0.weight': np.eye(1, 16) * 0.2, 'layer0.bias': np.zeros(1)}
    info = replace(INFO, output='clip', normaliser_clip=2.5)
    baseline = Baseline(info, {name: value.astype(np.float32) for name, value in tensors.items()})
    assert baseline.act(np.full((1, 16), 10.0)).tolist() == [2.0]


@pytest.mark.parametrize(('change', 'message'), [
    ({'layer1.weight': None}, "tensor 'layer1.bias' is missing|tensor 'layer1.weight' is missing|shape"),
    ({'layer2.bias': np.zeros(2, np.float32)}, 'layer2.weight has shape'),
    ({'layer0.bias': np.full(8, np.nan, np.float32)}, 'tensor layer0.bias is not of finite float32 numbers'),
])
def test_a_baseline_that_does_not_fit_together_is_refused(change: dict, message: str) -> None:
    good = random_baseline()
    tensors = {name: value for name, value in {**good.tensors, **change}.items() if value is not None}
    with pytest.raises(ModelError, match=message):
        Baseline(good.info, tensors)


def test_evaluate_drives_a_baseline_and_says_what_it_is_not(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = str(tmp_path / 'b.safetensors')
    random_baseline('grid').save(path)
    common = ['--scenario', 'merge', '--controller', path, '--episodes', '5', '--json']
    assert evaluate.main(common) == 0
    assert json.loads(capsys.readouterr().out)['n'] == 5
    assert evaluate.main([*common, '--alpha', '0.5']) == 2
    assert 'is a baseline (ddpg), it has no dial' in capsys.readouterr().err
    assert evaluate.main(['--scenario', 'left_turn', *common[2:]]) == 2
    assert 'trained for merge, not for left_turn' in capsys.readouterr().err
    with pytest.raises(ModelError, match=r'a baseline \(ddpg\), without dial and critic'):
        ModelFile.load(path)


def test_the_penalty_is_the_gradient_of_its_term() -> None:
    x, same = (torch.tensor([[0.3], [-4.0]], requires_grad=True) for _ in range(2))
    PenalisedTanh(0.01)(x).mean().backward()
    (torch.tanh(same).mean() + 0.01 * (same ** 2).mean()).backward()
    assert torch.allclose(x.grad, same.grad)
    assert isinstance(make_run('ddpg').model.actor.mu[-1], PenalisedTanh)


def test_an_update_that_is_over_leaves_nothing_behind() -> None:
    layer = torch.nn.Linear(3, 1)
    x = layer(torch.ones(4, 3))
    known = weakref.ref(x)
    PenalisedTanh(0.01)(x).mean().backward()
    del x
    gc.collect()
    assert known() is None


def test_the_recipe_says_where_to_drive(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    recipe = tmp_path / 'r.yaml'
    recipe.write_text('validation: {episodes: 10}')
    with pytest.raises(SystemExit):
        train.main(['--algorithm', 'ppo', '--config', str(recipe), '--out', str(tmp_path / 'run')])
    assert f'{recipe} names no scenario: --scenario is needed' in capsys.readouterr().err
    recipe.write_text('world: {scenario: merge}\nvalidation: {episodes: 10}')
    assert train.main(['--algorithm', 'ppo', '--config', str(recipe), '--decisions', '100',
                       '--out', str(tmp_path / 'run')]) == 0
    assert Baseline.load(tmp_path / 'run' / 'model.safetensors').info.scenario == 'merge'


def test_driving_a_baseline_needs_no_torch(tmp_path: Path) -> None:
    path = str(tmp_path / 'b.safetensors')
    random_baseline().save(path)
    code = ('import sys; from wcpg_ros.evaluate import main; '
            f'main(["--scenario", "merge", "--controller", {path!r}, "--episodes", "2"]); '
            'print([name for name in ("torch", "stable_baselines3", "tianshou") if name in sys.modules])')
    said = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == '[]'


def test_the_scenes_are_those_a_wcpg_run_of_the_seed_begins_with() -> None:
    world = SceneVecEnv(load_scenario('merge'), 3, training_start(2), scale=10.0)
    world.reset()
    assert world.batch.scenes['seed'].tolist() == [training_start(2) + i for i in range(3)]
    rewards, finals = [], 0
    for _ in range(80):     # braking, everybody runs out of time or is hit; 80 decisions are more than an episode
        world.step_async(np.full((3, 1), 0.5))
        observation, reward, done, infos = world.step_wait()
        rewards += reward[done].tolist()
        finals += sum('terminal_observation' in info for info in infos)
        assert not (done & [np.array_equal(row, info.get('terminal_observation')) for row, info in
                            zip(observation, infos, strict=True)]).any()     # the next episode's, not the last one's
    assert finals == len(rewards) == world.episodes > 0
    assert world.decisions == 240
    assert all(reward == -5.0 or 0.0 <= reward <= 8.0 for reward in rewards)     # in tenths


def test_a_hold_is_full_throttle_whatever_the_actor_says() -> None:
    noise = HeldNoise(ExplorationSettings(noise_std=0.5, hold_probability=1.0, hold_decisions=3.0), 2, 4.0,
                      np.random.default_rng(0))
    for action in (-1.0, 1.0):
        assert set(np.clip(action + noise(), -1.0, 1.0).ravel().tolist()) <= {-1.0, 1.0}
    quiet = HeldNoise(ExplorationSettings(noise_std=1.0), 20_000, 4.0, np.random.default_rng(0))
    assert quiet().std() == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize('algorithm', ALGORITHMS)
def test_the_exported_network_acts_as_the_librarys(algorithm: str) -> None:
    run = make_run(algorithm)
    run.learn(200)
    output, tensors = run.tensors()
    layout = load_scenario('left_turn', 'train', RECIPE.world.changes).layout
    info = replace(INFO, algorithm=algorithm, output=output, layout_version=layout.version, time_feature=layout.time,
                   observation_size=layout.size, normaliser_clip=RECIPE.learning.observation_clip)
    baseline = Baseline(info, tensors)
    observation = run.world.batch._observation.copy()
    if algorithm == 'c51':
        with torch.no_grad():
            share, _ = run._network(run._normaliser.columns(observation, RECIPE.learning.observation_clip).T)
            expected = run._grid[((share * run._algorithm.policy.support).sum(-1)).argmax(-1).numpy()]
    else:
        expected = 4.0 * run.model.predict(run._normalise.normalize_obs(observation), deterministic=True)[0][:, 0]
    np.testing.assert_allclose(baseline.act(observation), expected, atol=2e-4)


@pytest.mark.parametrize('algorithm', ALGORITHMS)
def test_a_resumed_run_ends_with_the_weights_it_would_have_had(algorithm: str, tmp_path: Path) -> None:
    whole = make_run(algorithm)
    whole.learn(160)
    arrays, facts = whole.state()
    facts = json.loads(json.dumps(facts))
    arrays = {name: values.copy() for name, values in arrays.items()}
    resumed = make_run(algorithm, seed=3)
    resumed.restore(arrays, facts)
    for run in (whole, resumed):
        # Libraries draw from global streams: each run must find them as it left them.
        run.restore(arrays, facts)
        run.learn(160)
    for (name, first), second in zip(whole.tensors()[1].items(), resumed.tensors()[1].values(), strict=True):
        assert first.tobytes() == second.tobytes(), name
    assert whole.world.episodes == resumed.world.episodes
    before = make_run(algorithm).tensors()[1]
    assert before['layer0.weight'].tobytes() != whole.tensors()[1]['layer0.weight'].tobytes()     # it has learnt


def test_the_quick_projection_is_tianshous() -> None:
    from tianshou.algorithm.modelfree.c51 import C51
    from tianshou.data import Batch
    run = make_run('c51')
    run.learn(200)
    algorithm, rng = run._algorithm, np.random.default_rng(0)
    low, high = algorithm.policy.v_min - 1.0, algorithm.policy.v_max + 1.0     # beyond the atoms, too
    batch = Batch(obs_next=rng.normal(size=(64, run._replay.observation_size)).astype(np.float32),
                  returns=torch.from_numpy(rng.uniform(low, high, (64, 51)).astype(np.float32)))
    assert isinstance(algorithm, QuickC51)
    with torch.no_grad():
        quick, theirs = algorithm._target_dist(batch), C51._target_dist(algorithm, batch)
    torch.testing.assert_close(quick, theirs, atol=1e-5, rtol=0.0)
    assert Network(4, [8])(np.zeros((2, 4), np.float32))[0].sum(-1).tolist() == pytest.approx(np.ones((2, 5)))


def test_c51_learns_from_the_rewards_of_as_many_decisions_as_the_recipe_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then from the atoms of the state after them, discounted; behind an end, from nothing."""
    run = make_run('c51', recipe=replaced(RECIPE, {'learning.n_step': 3, 'learning.batch': 200}, 'recipe'))
    batches = []
    monkeypatch.setattr(run._algorithm, '_update_with_batch', batches.append)
    run.learn(400)
    gamma = RECIPE.learning.gamma ** 4
    atoms = run._algorithm.policy.support.numpy()
    ended = run._replay.column('done').astype(bool)
    assert ended.any()
    assert run._replay.column('discount')[~ended] == pytest.approx(gamma ** 3)
    rewards = run._replay.column('reward')
    for returns in (batch.returns.numpy() for batch in batches):
        spread = returns[:, -1] - returns[:, 0]
        widest = gamma ** 3 * (atoms[-1] - atoms[0])
        assert np.unique(spread.round(4)).tolist() == pytest.approx([0.0, widest], abs=1e-4)
        alone = returns[spread == 0.0]
        assert np.isin(alone[:, 0], rewards[ended]).all()
        assert returns[spread > 0.0, 0] == pytest.approx(gamma ** 3 * atoms[0])     # rewards come at an end only


def test_the_command_trains_keeps_the_best_and_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, 'INTERVAL', 160)
    out = tmp_path / 'run'
    options = ['--algorithm', 'ddpg', '--scenario', 'merge', '--config', 'config/merge.yaml', '--decisions', '400',
               '--out', str(out), '--set', 'learning.batch=32', 'exploration.random_decisions=64',
               'validation.episodes=20', 'world.scenes=16']
    assert train.main(options) == 0
    log = (out / 'log.csv').read_text().splitlines()
    assert [line.split(',')[0] for line in log] == ['decisions', '160', '320', '400']
    best = Baseline.load(out / 'best.safetensors')
    assert best.info.algorithm == 'ddpg'
    assert best.info.scenario == 'merge'
    assert Baseline.load(out / 'model.safetensors').info.decisions == 400
    assert train.main(options) == 2
    assert 'exists already' in capsys.readouterr().err
    (out / 'log.csv').write_text('\n'.join([*log, 'written after the checkpoint']) + '\n')
    assert train.main(['--resume', str(out)]) == 0
    with RunDirectory(out).locked():
        assert train.main(['--resume', str(out)]) == 2
    assert 'another process is training in there' in capsys.readouterr().err
    for place, said in (('--out', 'cannot be written to'), ('--seed', 'seed: expected a whole number')):
        (tmp_path / 'file').touch()
        value = str(tmp_path / 'file' / 'run') if place == '--out' else '-1'
        assert train.main([*options, '--out', str(tmp_path / 'other'), place, value]) == 2
        assert said in capsys.readouterr().err
    assert train.main(['--resume', str(tmp_path)]) == 2
    assert 'not a run directory' in capsys.readouterr().err


def test_a_killed_run_goes_on_from_its_last_checkpoint_as_if_never_stopped(tmp_path: Path,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, 'INTERVAL', 64)
    monkeypatch.setattr(train, 'EVERY', 3)
    whole, killed = (RunDirectory.create(tmp_path / name, train.BaselineConfig('ddpg', 'merge', 1, 512, RECIPE)).path
                     for name in ('whole', 'killed'))
    train.BaselineTrainer(whole).train(progress=False)
    trainer = train.BaselineTrainer(killed)
    validations = iter(range(5))     # the last checkpoint is that of the third
    validate = trainer._validate

    def until_killed() -> dict:
        if next(validations, None) is None:
            raise KeyboardInterrupt
        return validate()
    monkeypatch.setattr(trainer, '_validate', until_killed)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(progress=False)
    assert train.BaselineTrainer(killed).learner.world.decisions == 3 * 64
    train.BaselineTrainer(killed).train(progress=False)
    for name in ('best', 'model'):
        assert (killed / f'{name}.safetensors').read_bytes() == (whole / f'{name}.safetensors').read_bytes()
    logs = [[line.split(',') for line in (path / 'log.csv').read_text().splitlines()] for path in (whole, killed)]
    assert len(logs[0]) == 1 + 8
    for first, second in zip(*logs, strict=True):
        assert [*first[:2], *first[3:]] == [*second[:2], *second[3:]]     # but for the seconds


@pytest.mark.parametrize(('change', 'message'), [
    ('learning.updates_per_decision=0.3', 'times 64 scenes must be a whole number'),
    ('critic.learning_rate=0.002', 'has one learning rate'),
    ('learning.bach=3', "unknown setting 'bach'"),
])
def test_terms_that_cannot_be_kept_are_refused(change: str, message: str, tmp_path: Path,
                                               capsys: pytest.CaptureFixture) -> None:
    assert train.main(['--algorithm', 'ddpg', '--scenario', 'merge', '--config', 'config/merge.yaml', '--decisions',
                       '400', '--out', str(tmp_path / 'run'), '--set', change]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count('\n') == 1
    assert not (tmp_path / 'run').exists()
