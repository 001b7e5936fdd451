"""The manifest of the evidence: what is to be trained, what is missing, which seed is shipped."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml
from made_runs import make_files

from sim_node.settings import SettingsError
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.model_file import ModelFile
from wcpg_ros.results import training
from wcpg_ros.results.manifest import MANIFEST, Manifest, Run, RunSettings, check_files, load_manifest
from wcpg_ros.results.shipping import median_run
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


def of_a_run(**settings: Any) -> dict[str, Any]:
    return {'runs': {'x': {'config': 'c', 'file': '{scenario}_{seed}', **settings}}}


@pytest.mark.parametrize(('change', 'message'), [
    ({'seads': [0]}, "unknown setting 'seads'"),
    (of_a_run(episodes=5, decisions={'merge': 5}), 'give episodes or decisions'),
    (of_a_run(decisions={'merge': 5}), 'decisions: give a number for left'),
    (of_a_run(algorithm='ppo', episodes=5), 'ppo takes decisions'),
    (of_a_run(algorithm='ddpg', decisions={'merge': 5}, begins_as='x'), 'only ppo begins as a shorter run'),
    (of_a_run(algorithm='ppo', decisions={'left_turn': 5, 'merge': 5}, begins_as='y'),
     "runs.x.begins_as: 'y' is not a run"),
    (of_a_run(file='{scenario}'), 'expected a path with {scenario} and {seed}, which keep runs apart'),
    (of_a_run(file='{scenario}_{seed}_{sed}'), 'expected a path with {scenario} and {seed}'),
    (of_a_run(file='{scenario}_{seed}_{'), "_{: Single '{' encountered"),
    (of_a_run(shipped='{scenario}_{seed}'), 'expected a path with {scenario}, which'),
    (of_a_run(seeds=[7]), r'runs.x.seeds: none of \(7,\) is in'),
    ({'evaluation': {'seed': 1000}}, r'evaluation.seed: expected within \[0, 999\]'),
    ({'evaluation': {'alphas': [0.1, 0.2]}}, 'alphas: give at least three'),
    ({'evaluation': {'gaps': [2.0, 1.0]}}, 'gaps: expected rising ones'),
    ({'evaluation': {'margins': []}}, 'margins: expected rising ones'),
    ({'scenarios': []}, 'scenarios: expected some'),
    ({'seeds': []}, 'seeds: expected some'),
    ({'seeds': [0, 0]}, 'seeds: expected some, each once'),
    ({'seeds': [-1]}, 'seed: expected a whole number from 0'),
    ({'seeds': [5_000_000_000]}, 'seed: expected a whole number from 0'),
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
    for run in load_manifest(tmp_path / 'm.yaml').runs_of('ours', 'merge'):
        make_files(run, log=f'episodes,best_score\n1,1\n60000,{scores[run.seed]}\n')
    for kind in ('csv', 'safetensors'):     # 0 was shipped before
        (tmp_path / 'seeds' / f'merge_0.{kind}').rename(tmp_path / f'merge.{kind}')
    for said in ('now of seed 2, the median of 3', ''):     # the second time there is nothing to do
        assert training.main(['--manifest', str(tmp_path / 'm.yaml'), '--runs', str(tmp_path / 'runs')]) == 0
        assert said in capsys.readouterr().out if said else not capsys.readouterr().out
        for seed, place in enumerate(('seeds/merge_0', 'seeds/merge_1', 'merge')):
            assert ModelFile.load(tmp_path / f'{place}.safetensors').info.seed == seed
            assert (tmp_path / f'{place}.csv').read_text().endswith(f'{scores[seed]}\n')
        assert len(list(tmp_path.rglob('*.safetensors'))) == 3


def test_the_shipped_models_are_of_the_median_seeds_and_all_files_of_their_runs() -> None:
    manifest = load_manifest()
    for scenario in manifest.scenarios:
        runs = manifest.runs_of('ours', scenario)
        assert median_run(runs).file == Path(f'models/{scenario}.safetensors')
    assert [run.objection() for run in manifest.all_runs() if run.trained and run.objection()] == []


def a_run(folder: Path) -> Run:
    settings = RunSettings(config='config/paper.yaml', file=str(folder / '{scenario}_{seed}.safetensors'), episodes=60)
    return Run('wcpg', 'merge', 0, settings)


def test_a_file_fits_its_recipe_but_for_what_was_not_there_yet(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    alpha = to_mapping(run.recipe())['alpha']
    older = {name: value for name, value in alpha.items() if name != 'caps'}     # of which there are none by default
    for its, fits in ((alpha, True), (older, True), ({**alpha, 'caps': [5.0, 6.0]}, False),
                      ({**alpha, 'hat': 5.0}, False)):
        make_files(run, recipe={**to_mapping(run.recipe()), 'alpha': its})
        assert run.objection() == ('' if fits else f'{run.file}: trained by another recipe than that of the manifest')


def test_a_file_of_another_run_is_not_taken_for_it(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    make_files(run)
    assert not run.objection()
    for change, said in (({'seed': 1}, 'made by wcpg for merge with seed 1'),
                         ({'scenario': 'left_turn'}, 'made by wcpg for left_turn with seed 0')):
        make_files(run, **change)
        assert said in run.objection()
    baseline = dataclasses.replace(run.settings, algorithm='ppo', episodes=0, decisions={'merge': 50})
    make_files(dataclasses.replace(run, settings=baseline))
    assert 'made by ppo for merge' in run.objection()
    run.file.write_bytes(run.file.read_bytes()[:-9])
    assert 'cut short or corrupted' in run.objection()


@pytest.mark.parametrize(('log', 'said'), [
    ('episodes,best_score\n30,1\n', 'ends at 30 of 60 episodes'), ('', 'no learning curve, cut short or damaged'),
    ('episodes,best_score\n30,1\nsix', 'no learning curve, cut short or damaged')])
def test_a_run_that_was_cut_short_is_not_taken_for_a_whole_one(log: str, said: str, tmp_path: Path) -> None:
    run = a_run(tmp_path)
    make_files(run)
    run.log.write_text(log)
    assert said in run.objection()


def test_training_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = a_run(tmp_path)
    content = {'scenarios': ['merge'], 'seeds': [0], 'evaluation': {},
               'runs': {'wcpg': {**to_mapping(run.settings), 'shipped': str(tmp_path / '{scenario}.safetensors')}}}
    (tmp_path / 'm.yaml').write_text(yaml.safe_dump(content))
    options = ['--manifest', str(tmp_path / 'm.yaml'), '--runs', str(tmp_path / 'runs')]

    make_files(run, seed=3)
    shipped = run.file.rename(tmp_path / 'merge.safetensors')
    before = shipped.read_bytes()
    assert training.main(options) == 2
    assert 'of a seed that the manifest does not have; move it away' in capsys.readouterr().err
    assert shipped.read_bytes() == before

    shipped.write_bytes(before[:-9])
    assert training.main([*options, '--list']) == 2
    assert 'cut short or corrupted' in capsys.readouterr().err
    shipped.unlink()

    make_files(run, log='episodes,best_score\n30,1\n')
    assert training.main([*options, '--list']) == 0
    assert 'ends at 30 of 60 episodes' in capsys.readouterr().out
    assert training.main(options) == 2
    assert 'ends at 30 of 60 episodes\nmove it away' in capsys.readouterr().err


def test_all_missing_files_are_counted() -> None:
    manifest = load_manifest(MANIFEST)
    nowhere = dataclasses.replace(manifest.runs['ddpg'], file='/nowhere/{scenario}_{seed}')
    changed = Manifest(('merge',), (0, 1), manifest.evaluation, {'ddpg': nowhere})
    with pytest.raises(SettingsError, match=r'/nowhere/merge_0 and 1 more: not trained yet; .* --only ddpg'):
        check_files(changed.all_runs())


@pytest.mark.parametrize(('scene', 'message'), [({'reward.collisionz': -1000.0}, r"runs\.x\.scene: .*collisionz"),
                                                ({'reward.collision': float('nan')}, r'runs\.x\.scene: .*collision')])
def test_a_wrong_scene_of_a_run_is_named(scene: dict, message: str, tmp_path: Path) -> None:
    runs = {'x': {'config': 'config/merge.yaml', 'file': '{scenario}_{seed}', 'scene': scene}}
    (tmp_path / 'm.yaml').write_text(yaml.safe_dump({'scenarios': ['merge'], 'seeds': [0], 'evaluation': {},
                                                     'runs': runs}))
    with pytest.raises(SettingsError, match=message):
        load_manifest(tmp_path / 'm.yaml').runs_of('x', 'merge')[0].recipe()


def test_a_learning_curve_damaged_in_the_middle_is_named(tmp_path: Path) -> None:
    runs = {'x': {'config': 'config/merge.yaml', 'file': str(tmp_path / '{scenario}_{seed}.safetensors')}}
    (tmp_path / 'm.yaml').write_text(yaml.safe_dump({'scenarios': ['merge'], 'seeds': [0], 'evaluation': {},
                                                     'runs': runs}))
    run, = load_manifest(tmp_path / 'm.yaml').all_runs()
    make_files(run)
    assert not run.objection()
    lines = run.log.read_text().splitlines()
    run.log.write_text('\n'.join([lines[0], lines[1].replace(',', ';', 1), lines[1]]))
    assert run.objection() == f'{run.log}: no learning curve, cut short or damaged'
