"""The trainer on a trivial scene: it learns, it is deterministic, it can be stopped anywhere."""

import csv
import json
import os
import signal
import time

import numpy as np
import pytest
import yaml
from toy_world import TrafficLight

from sim_node.seeds import episode_seed
from sim_node.settings import SettingsError, from_mapping, replaced
from wcpg_ros import train
from wcpg_ros.learner import NotFiniteError
from wcpg_ros.model_file import ModelError, ModelFile
from wcpg_ros.policy import Policy
from wcpg_ros.run_directory import RunConfig, RunDirectory, RunError
from wcpg_ros.seeds import TRAINING, VALIDATION, training_start
from wcpg_ros.settings import Recipe, load_recipe, to_mapping
from wcpg_ros.trainer import Trainer

LIGHT = {
    'critic': {'return_scale': 10.0, 'learning_rate': 1e-3},
    'actor': {'learning_rate': 1e-3, 'pre_tanh_penalty': 0.001},
    'alpha': {'relabel': 1.0},
    'exploration': {'random_decisions': 500, 'noise_std': 1.0, 'hold_probability': 0.1},
    'learning': {'batch': 128, 'replay': 20_000, 'updates_per_decision': 0.5},
    'validation': {'interval': 200, 'episodes': 100, 'alphas': [0.1, 1.0]},
}


def recipe(**groups) -> Recipe:
    changed = {name: {**LIGHT.get(name, {}), **groups.get(name, {})} for name in {*LIGHT, *groups}}
    return from_mapping(Recipe, changed, 'recipe')


def quick(**groups) -> Recipe:
    """For tests in which nothing needs to be learnt."""
    groups['learning'] = {'batch': 32, **groups.get('learning', {})}
    return recipe(**groups, validation={'interval': 60, 'episodes': 20})


def begin(path, settings: Recipe, episodes: int, seed: int = 0, world=TrafficLight) -> Trainer:
    config = RunConfig('light', seed, episodes, settings)
    return Trainer(RunDirectory.create(path, config), config, world, repeat=4)


def again(path, world=TrafficLight) -> Trainer:
    return Trainer.resume(*RunDirectory.open(path, RunConfig), world, repeat=4)


@pytest.mark.parametrize('critic', [{}, {'kind': 'quantile', 'quantiles': 16}], ids=['gaussian', 'quantile'])
def test_a_trivial_scene_is_learnt_in_under_a_minute(tmp_path, critic) -> None:
    started = time.process_time()     # not the clock on the wall: other work on the machine must not fail the learner
    begin(tmp_path / 'run', recipe(critic=critic), episodes=1200).run(progress=False)
    assert time.process_time() - started < 60.0
    best = max(log_of(tmp_path / 'run'), key=lambda row: float(row['score']))
    assert float(best['collision@0.1']) <= 0.02
    assert float(best['success@0.1']) >= 0.98
    assert float(best['mean_return@0.1']) >= 20.0   # waiting at the light for 10 s would be 16


def log_of(run) -> list[dict[str, str]]:
    with open(run / 'log.csv') as file:
        return list(csv.DictReader(file))


def interrupted_after(trainer: Trainer, decisions: int) -> Trainer:
    """The trainer, that gets a Ctrl-C once it has made so many decisions."""
    drive = trainer._drive

    def drive_and_interrupt() -> None:
        drive()
        if trainer.decisions >= decisions:
            os.kill(os.getpid(), signal.SIGINT)
    trainer._drive = drive_and_interrupt   # type: ignore[method-assign]
    return trainer


@pytest.mark.parametrize('changes', [
    {}, {'critic': {'kind': 'quantile', 'twin': True}, 'learning': {'n_step': 3, 'final_rate': 0.1}}],
    ids=['gaussian', 'twin quantile, n-step'])
def test_a_stopped_and_resumed_run_equals_an_uninterrupted_one(tmp_path, changes) -> None:
    settings = quick(**changes)
    assert begin(tmp_path / 'whole', settings, episodes=150).run(progress=False)
    assert not interrupted_after(begin(tmp_path / 'parts', settings, 150), 700).run(progress=False)
    assert not interrupted_after(again(tmp_path / 'parts'), 1500).run(progress=False)
    assert again(tmp_path / 'parts').run(progress=False)
    for name in ('model.safetensors', 'best.safetensors'):
        assert (tmp_path / 'whole' / name).read_bytes() == (tmp_path / 'parts' / name).read_bytes()
    logs = [log_of(tmp_path / name) for name in ('whole', 'parts')]
    timed = {'seconds', 'updating_share'}
    for whole, parts in zip(*logs, strict=True):
        assert {k: v for k, v in whole.items() if k not in timed} == {k: v for k, v in parts.items() if k not in timed}


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path) -> None:
    assert begin(tmp_path / 'whole', quick(), episodes=150).run(progress=False)
    trainer = begin(tmp_path / 'killed', quick(), episodes=150)
    learn = trainer._learn

    def learn_until_killed() -> None:
        learn()
        if trainer.episodes > 140:
            raise SystemExit
    trainer._learn = learn_until_killed   # type: ignore[method-assign]
    with pytest.raises(SystemExit):
        trainer.run(progress=False)
    assert again(tmp_path / 'killed').run(progress=False)
    whole, killed = ((tmp_path / name / 'model.safetensors').read_bytes() for name in ('whole', 'killed'))
    assert whole == killed


@pytest.mark.parametrize('damage', [lambda best: best.unlink(), lambda best: best.write_bytes(b'junk')])
def test_a_run_resumed_without_its_best_policy_finds_another(tmp_path, damage) -> None:
    trainer = begin(tmp_path / 'run', quick(), episodes=100)
    assert trainer.run(progress=False)
    damage(tmp_path / 'run' / 'best.safetensors')
    assert again(tmp_path / 'run').run(progress=False)
    assert Policy.load(tmp_path / 'run' / 'best.safetensors').info.episodes >= 100


def test_a_log_that_was_removed_begins_anew_with_its_header(tmp_path) -> None:
    assert not interrupted_after(begin(tmp_path / 'run', quick(), 150), 1500).run(progress=False)
    (tmp_path / 'run' / 'log.csv').unlink()
    assert again(tmp_path / 'run').run(progress=False)
    assert int(log_of(tmp_path / 'run')[-1]['episodes']) >= 150


def test_a_run_too_short_to_learn_says_so(tmp_path, capsys) -> None:
    settings = quick(exploration={'random_decisions': 100_000}, dial={'episodes': 10})
    assert begin(tmp_path / 'run', settings, episodes=20).run(progress=False)
    assert 'nothing was learnt' in capsys.readouterr().err
    assert ModelFile.load(tmp_path / 'run' / 'best.safetensors').info.dial == []


def test_same_seed_same_model_other_seed_other_model(tmp_path) -> None:
    files = []
    for name, seed in (('a', 0), ('b', 0), ('c', 1)):
        begin(tmp_path / name, quick(), episodes=100, seed=seed).run(progress=False)
        files.append(ModelFile.load(tmp_path / name / 'model.safetensors').tensors['actor.h3.weight'].tobytes())
    assert files[0] == files[1] != files[2]


def test_the_model_file_drives_as_the_learner_does(tmp_path) -> None:
    trainer = begin(tmp_path / 'run', quick(), episodes=100)
    trainer.run(progress=False)
    policy = Policy.load(tmp_path / 'run' / 'model.safetensors')
    observation = TrafficLight(50).reset(np.arange(50))
    states, alpha = trainer.normaliser.columns(observation, 5.0), np.full(50, 0.3, np.float32)
    np.testing.assert_allclose(policy.act(observation, 0.3), trainer.learner.act(states, alpha), atol=1e-4)
    mean, std = trainer.learner.predict(states, alpha, np.full(50, 1.0, np.float32))
    risk = policy.risk(observation, 1.0, 0.3)
    np.testing.assert_allclose(risk.mean, mean, atol=1e-3)
    np.testing.assert_allclose(risk.std, std, atol=1e-3)
    assert policy.info.gamma == pytest.approx(0.99 ** 4)


class Broken(TrafficLight):
    """Gives a NaN reward from some moment on."""

    def step(self, accelerations, repeat=1):
        result = super().step(accelerations, repeat)
        if self.n == 16 and self._cars['seed'].max() > training_start(0) + 300:
            result.reward[3] = np.nan
        return result


def test_a_nan_stops_with_the_step_and_the_term_and_keeps_the_last_checkpoint(tmp_path) -> None:
    trainer = begin(tmp_path / 'run', recipe(), episodes=1000, world=Broken)
    with pytest.raises(NotFiniteError, match=r'reward .* at episode \d+, decision \d+; the last good'):
        trainer.run(progress=False)
    assert again(tmp_path / 'run').episodes >= 200


def test_seeds_for_training_validation_and_reporting_never_meet() -> None:
    assert episode_seed(999, 999_999) < VALIDATION < episode_seed(1001, 0) < TRAINING == training_start(0)
    assert training_start(1) - training_start(0) >= 10_000_000


def test_a_directory_that_is_not_a_run_is_refused(tmp_path) -> None:
    with pytest.raises(RunError, match='not a run directory'):
        RunDirectory.open(tmp_path, RunConfig)
    assert train.main(['--resume', str(tmp_path)]) == 2


def test_an_existing_run_is_not_overwritten(tmp_path) -> None:
    config = RunConfig('light', 0, 10, recipe())
    RunDirectory.create(tmp_path / 'run', config)
    with pytest.raises(RunError, match=r'exists already; continue it with --resume'):
        RunDirectory.create(tmp_path / 'run', config)


def test_a_checkpoint_cut_short_or_of_other_settings_is_refused(tmp_path) -> None:
    """Only the length of a run may be edited."""
    begin(tmp_path / 'run', recipe(), episodes=50).run(progress=False)
    checkpoint = tmp_path / 'run' / 'checkpoint.npz'
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[:len(content) // 2])
    with pytest.raises(RunError, match='cut short or damaged'):
        again(tmp_path / 'run')
    checkpoint.write_bytes(content)
    config = yaml.safe_load((tmp_path / 'run' / 'config.yaml').read_text())
    config['episodes'] = 60
    (tmp_path / 'run' / 'config.yaml').write_text(yaml.safe_dump(config))
    assert again(tmp_path / 'run').run(progress=False)
    config['recipe']['learning']['gamma'] = 0.5
    (tmp_path / 'run' / 'config.yaml').write_text(yaml.safe_dump(config))
    with pytest.raises(RunError, match=r'recipe\.learning\.gamma is not what this run was begun with'):
        again(tmp_path / 'run')


def test_a_recipe_may_say_for_what_and_how_long_it_is(tmp_path, capsys, monkeypatch) -> None:
    recipe_file, out, paper = tmp_path / 'recipe.yaml', tmp_path / 'run', os.path.abspath('config/paper.yaml')
    recipe_file.write_text(yaml.safe_dump({
        'learning': {'batch': 8}, 'exploration': {'random_decisions': 10}, 'validation': {'episodes': 4},
        'world': {'scenario': 'merge', 'episodes': 6, 'scenes': 4}}))
    assert train.main(['--config', str(recipe_file), '--out', str(out)]) == 0
    config = yaml.safe_load((out / 'config.yaml').read_text())
    assert (config['scenario'], config['episodes']) == ('merge', 6)
    monkeypatch.chdir(tmp_path)
    for seeds, place in ((['--seed', '3'], 'merge_recipe_seed3'), (['--seeds', '4'], 'merge_recipe/seed4')):
        assert train.main(['--config', 'recipe.yaml', *seeds]) == 0
        assert (tmp_path / 'runs' / place / 'best.safetensors').is_file()
    with pytest.raises(SystemExit):
        train.main(['--config', paper, '--out', str(tmp_path / 'none')])
    assert '--scenario is needed' in capsys.readouterr().err


def test_sizes_beyond_memory_are_named_and_leave_nothing(tmp_path, capsys) -> None:
    out = tmp_path / 'run'
    assert train.main(['--scenario', 'merge', '--config', 'config/paper.yaml', '--out', str(out),
                       '--set', 'learning.replay=1000000000000']) == 2
    assert 'too much memory for learning.replay' in capsys.readouterr().err
    assert not out.exists()


def test_two_processes_do_not_train_in_one_directory(tmp_path) -> None:
    run = begin(tmp_path / 'run', quick(), episodes=20).run_directory
    with run.locked(), pytest.raises(RunError, match='another process is training in there'), run.locked():
        pass
    with run.locked():
        pass


def test_a_model_of_another_layout_is_refused(tmp_path) -> None:
    begin(tmp_path / 'run', recipe(), episodes=20).run(progress=False)
    path = tmp_path / 'run' / 'model.safetensors'
    data = path.read_bytes()
    assert b'\\"layout_version\\": 1' in data
    path.write_bytes(data.replace(b'\\"layout_version\\": 1', b'\\"layout_version\\": 9'))
    with pytest.raises(ModelError):
        Policy.load(path)


@pytest.mark.parametrize(('text', 'message'), [
    ('crtic: {kind: gaussian}', "unknown setting 'crtic'; choose one of networks, critic"),
    ('critic: {knd: gaussian}', "unknown setting 'knd'; choose one of kind"),
    ('critic: {kind: normal}', "recipe.critic.kind: unknown choice 'normal'; choose one of gaussian, quantile"),
    ('learning: {batch: many}', "recipe.learning.batch: expected int, got 'many'"),
    ('learning: {gamma: 1.5}', r'learning.gamma: expected within \[0, 1\], got 1.5'),
    ('actor: {learning_rate: 1e-4}', r"got '1e-4' \(YAML reads 1e-4 as text: write 1.0e-4\)"),
    ('actor: {risk: braveness}', "actor.risk: unknown risk measure 'braveness'"),
    ('critic: {variance_target: td_error}', 'does not work: Eq. 8 compares roots'),
    ('{critic: {kind: quantile}, actor: {risk: paper}}', 'actor.risk: paper is a formula for Gaussians'),
    ('{alpha: {caps: [13.0, 40.0]}, learning: {n_step: 3}}', 'alpha.caps: what several decisions bring together'),
    ('alpha: {caps: [13.0]}', r'alpha.caps: expected none, or the lowest and the highest, got \[13.0\]'),
    ('alpha: {maximum: 2.0}', 'alpha.maximum: levels above 1 move a cap and are no alphas'),
    ('- a list', 'expected settings'), ('a: [', 'cannot be read as YAML'), ('base: nowhere.yaml', 'cannot be read'),
])
def test_a_wrong_config_is_refused_by_the_key(tmp_path, text: str, message: str) -> None:
    path = tmp_path / 'recipe.yaml'
    path.write_text(text)
    with pytest.raises(SettingsError, match=message) as caught:
        load_recipe(path)
    assert str(path) in str(caught.value)


def test_settings_that_only_work_together_can_be_changed_together() -> None:
    pair = {'critic.variance_target': 'td_error', 'critic.variance_loss': 'likelihood'}
    assert replaced(Recipe(), pair, 'recipe').critic.variance_loss == 'likelihood'
    with pytest.raises(SettingsError, match='does not work'):
        replaced(Recipe(), {'critic.variance_target': 'td_error'}, 'recipe')


def test_a_recipe_changes_its_base_at_any_depth(tmp_path) -> None:
    (tmp_path / 'base.yaml').write_text('world: {scenes: 3, changes: {layout.time: true}}')
    (tmp_path / 'mine.yaml').write_text('base: base.yaml\nworld: {changes: {traffic.platoon: 3}}')
    world = load_recipe(tmp_path / 'mine.yaml').world
    assert (world.scenes, world.changes) == (3, {'layout.time': True, 'traffic.platoon': 3})


def test_paper_printed_changes_only_the_coefficient() -> None:
    paper, printed = (to_mapping(load_recipe(f'config/{name}.yaml')) for name in ('paper', 'paper_printed'))
    assert (paper['actor'].pop('risk'), printed['actor'].pop('risk')) == ('cvar', 'paper')
    assert paper == printed
    assert json.loads(json.dumps(paper)) == paper


def test_command_line_trains_seeds_side_by_side_and_resumes_them(tmp_path, capsys) -> None:
    out = str(tmp_path / 'runs')
    small = ['--set', 'learning.batch=64', 'validation.episodes=5', 'exploration.random_decisions=100']
    begin_runs = ['--scenario', 'left_turn', '--config', 'config/paper.yaml', '--seeds', '0', '1', '--episodes', '20']
    assert train.main([*begin_runs, *small, '--out', out]) == 0
    assert {path.name for path in (tmp_path / 'runs' / 'seed1').iterdir()} == {
        'config.yaml', 'log.csv', 'tensorboard', 'checkpoint.npz', 'model.safetensors', 'best.safetensors'}
    assert train.main(['--resume', out]) == 0
    assert 'seed1: done' in capsys.readouterr().out
    with pytest.raises(SystemExit):
        train.main(['--resume', out, '--episodes', '5'])
