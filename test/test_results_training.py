"""The manifest of the evidence: what is to be trained, what is missing, which seed is shipped."""

import dataclasses
from pathlib import Path

import pytest
import yaml
from random_models import seeded_model

from sim_node.settings import SettingsError
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.model_file import ModelFile
from wcpg_ros.results import training
from wcpg_ros.results.manifest import MANIFEST, Manifest, Run, RunSettings, check_files, load_manifest
from wcpg_ros.settings import to_mapping


def test_every_run_of_the_manifest_can_be_trained() -> None:
    manifest = load_manifest(MANIFEST)
    assert manifest.seeds == (0, 1, 2, 3, 4)
    for run in manifest.all_runs():
        training.config_of(run)
        assert str(run.seed) in run.file.name or run.settings.shipped
    assert len({run.file for run in manifest.all_runs()}) == len(manifest.all_runs())
    d4pg = manifest.runs_of('d4pg', 'merge')[0].recipe()
    assert (d4pg.critic.kind, d4pg.learning.n_step, d4pg.alpha.minimum) == ('categorical', 5, 1.0)
    assert manifest.runs_of('penalty', 'merge')[0].recipe().world.changes['reward.collision'] == -1000.0


@pytest.mark.parametrize(('change', 'message'), [
    ({'seads': [0]}, "unknown setting 'seads'"),
    ({'runs': {'x': {'config': 'c', 'file': 'x', 'episodes': 5, 'decisions': {'merge': 5}}}},
     'x: give episodes or decisions'),
    ({'runs': {'x': {'config': 'c', 'file': 'x', 'decisions': {'merge': 5}}}}, 'decisions: give a number for left'),
    ({'runs': {'x': {'config': 'c', 'file': 'x', 'algorithm': 'ppo', 'episodes': 5}}}, 'x: ppo takes decisions'),
    ({'runs': {'x': {'config': 'c', 'file': 'x', 'algorithm': 'ddpg', 'decisions': {'merge': 5}, 'begins_as': 'x'}}},
     'x: only ppo begins as a shorter run'),
    ({'runs': {'x': {'config': 'c', 'file': 'x', 'algorithm': 'ppo', 'decisions': {'merge': 5}, 'begins_as': 'y'}}},
     "runs.x.begins_as: 'y' is not a run"),
    ({'evaluation': {'seed': 1000}}, r'evaluation.seed: expected within \[0, 999\]'),
])
def test_a_wrong_manifest_is_refused(change: dict, message: str, tmp_path: Path) -> None:
    content = yaml.safe_load(MANIFEST.read_text())
    (tmp_path / 'm.yaml').write_text(yaml.safe_dump({**content, **change}))
    with pytest.raises(SettingsError, match=message):
        load_manifest(tmp_path / 'm.yaml')


def test_training_fills_what_is_missing_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    content = {'scenarios': ['merge'], 'seeds': [0], 'evaluation': {}, 'runs': {
        'wcpg': {'config': 'config/merge.yaml', 'file': str(tmp_path / 'w_{scenario}_{seed}.safetensors'),
                 'episodes': 60, 'changes': {'validation.episodes': 10, 'learning.batch': 32, 'dial.episodes': 20,
                                             'dial.levels': 4, 'dial.critic_updates': 10}},
        'ddpg': {'config': 'config/merge.yaml', 'file': str(tmp_path / 'd_{scenario}_{seed}.safetensors'),
                 'algorithm': 'ddpg', 'decisions': {'merge': 200},
                 'changes': {'validation.episodes': 10, 'learning.batch': 32}}}}
    (tmp_path / 'm.yaml').write_text(yaml.safe_dump(content, sort_keys=False))
    options = ['--manifest', str(tmp_path / 'm.yaml'), '--runs', str(tmp_path / 'runs'), '--backend', 'serial']
    assert training.main([*options, '--only', 'dqn']) == 2
    assert "run 'dqn' is not in" in capsys.readouterr().err
    assert training.main([*options, '--list']) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / f'{k}_merge_0.safetensors') for k in 'wd']
    assert training.main(options) == 0
    for kind in 'wd':
        assert (tmp_path / f'{kind}_merge_0.safetensors').is_file()
        assert (tmp_path / f'{kind}_merge_0.csv').read_text().count('\n') == 2
    capsys.readouterr()
    assert training.main([*options, '--list']) == 0
    assert capsys.readouterr().out == 'nothing is missing\n'


def test_one_ctrl_c_stops_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                   capsys: pytest.CaptureFixture) -> None:
    content = {'scenarios': ['merge'], 'seeds': [0, 1, 2], 'evaluation': {}, 'runs': {
        'wcpg': {'config': 'config/merge.yaml', 'file': str(tmp_path / 'w_{scenario}_{seed}.safetensors')}}}
    (tmp_path / 'm.yaml').write_text(yaml.safe_dump(content))
    begun = []
    monkeypatch.setattr(training, 'train_run', lambda job: bool(begun.append(job.run.seed)))     # not the end
    assert training.main(['--manifest', str(tmp_path / 'm.yaml'), '--runs', str(tmp_path / 'runs'),
                          '--backend', 'serial']) == INTERRUPTED
    assert begun == [0]
    assert 'w_merge_0.safetensors: stopped; the same command goes on' in capsys.readouterr().out


def test_a_long_run_goes_on_where_the_short_one_ended(tmp_path: Path) -> None:
    terms = {'config': 'config/merge.yaml', 'algorithm': 'ppo',
             'changes': {'validation.episodes': 10, 'world.scenes': 2, 'learning.updates_per_decision': 1.0}}
    runs = {name: {**terms, 'file': str(tmp_path / f'{name}_{{scenario}}_{{seed}}.safetensors'),
                   'decisions': {'merge': decisions}}
            for name, decisions in (('short', 256), ('long', 512), ('alone', 512))}
    runs['long']['begins_as'] = 'short'
    content = {'scenarios': ['merge'], 'seeds': [0], 'evaluation': {}, 'runs': runs}
    (tmp_path / 'm.yaml').write_text(yaml.safe_dump(content, sort_keys=False))
    run = load_manifest(tmp_path / 'm.yaml').runs_of('long', 'merge')[0]
    directory = training.directory_of(run, tmp_path / 'runs')
    cut_short = directory.with_name(f'{directory.name}.making')
    cut_short.mkdir(parents=True)
    (cut_short / 'checkpoint.npz').write_bytes(b'half of')
    assert training.main(['--manifest', str(tmp_path / 'm.yaml'), '--runs', str(tmp_path / 'runs'),
                          '--backend', 'serial']) == 0
    assert not cut_short.exists()
    decisions = {name: [int(line.split(',')[0]) for line in (tmp_path / f'{name}_merge_0.csv').read_text().split()[1:]]
                 for name in runs}
    assert decisions == {'short': [256], 'long': [256, 512], 'alone': [512]}
    long, alone = (next((tmp_path / 'runs').glob(f'{name}_*')) / 'model.safetensors' for name in ('long', 'alone'))
    assert long.read_bytes() == alone.read_bytes()


def test_the_median_seed_is_shipped_and_none_is_lost(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    content = {'scenarios': ['merge'], 'seeds': [0, 1, 2], 'evaluation': {}, 'runs': {'ours': {
        'config': 'config/merge.yaml', 'file': str(tmp_path / 'seeds' / '{scenario}_{seed}.safetensors'),
        'shipped': str(tmp_path / '{scenario}.safetensors')}}}
    (tmp_path / 'm.yaml').write_text(yaml.safe_dump(content))
    (tmp_path / 'seeds').mkdir()
    scores = {0: 15.0, 1: 14.2, 2: 14.6}
    for seed, place in enumerate(('merge', 'seeds/merge_1', 'seeds/merge_2')):     # 0 was shipped before
        seeded_model(seed, seed).save(tmp_path / f'{place}.safetensors')
        (tmp_path / f'{place}.csv').write_text(f'score,best_score\n1,1\n2,{scores[seed]}\n')
    for said in ('now of seed 2, the median of 3', ''):     # the second time there is nothing to do
        assert training.main(['--manifest', str(tmp_path / 'm.yaml'), '--runs', str(tmp_path / 'runs')]) == 0
        assert said in capsys.readouterr().out if said else not capsys.readouterr().out
        for seed, place in enumerate(('seeds/merge_0', 'seeds/merge_1', 'merge')):
            assert ModelFile.load(tmp_path / f'{place}.safetensors').info.seed == seed
            assert (tmp_path / f'{place}.csv').read_text().endswith(f'{scores[seed]}\n')
        assert len(list(tmp_path.rglob('*.safetensors'))) == 3


def test_a_file_fits_its_recipe_but_for_what_was_not_there_yet(tmp_path: Path) -> None:
    settings = RunSettings(config='config/paper.yaml', file=str(tmp_path / '{scenario}_{seed}.safetensors'))
    run, model = Run('wcpg', 'merge', 0, settings), seeded_model(0, 0)
    alpha = to_mapping(run.recipe())['alpha']
    older = {name: value for name, value in alpha.items() if name != 'caps'}     # of which there are none by default
    for its, fits in ((alpha, True), (older, True), ({**alpha, 'caps': [5.0, 6.0]}, False),
                      ({**alpha, 'hat': 5.0}, False)):
        recipe = {**to_mapping(run.recipe()), 'alpha': its}
        ModelFile(dataclasses.replace(model.info, recipe=recipe), model.tensors).save(run.file)
        assert run.fits() is fits, its


def test_all_missing_files_are_counted() -> None:
    manifest = load_manifest(MANIFEST)
    nowhere = dataclasses.replace(manifest.runs['ddpg'], file='/nowhere/{scenario}_{seed}')
    changed = Manifest(('merge',), (0, 1), manifest.evaluation, {'ddpg': nowhere})
    with pytest.raises(SettingsError, match=r'/nowhere/merge_0 and 1 more: not trained yet; .* --only ddpg'):
        check_files(changed.all_runs())
