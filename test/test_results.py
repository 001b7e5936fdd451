"""The evidence: from rows of episodes to tables, verdicts and pages."""

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import yaml
from made_runs import make_files
from random_models import random_model

from sim_node.state import COLLISION, SUCCESS, TIMEOUT
from wcpg_ros.controllers import prepare
from wcpg_ros.episodes import EPISODE, drive
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.places import alone_in
from wcpg_ros.results import cvar_matrix, learning_curves, page
from wcpg_ros.results.context import Cell, paper_tables, table_rows
from wcpg_ros.results.critic_check import errors
from wcpg_ros.results.cvar_matrix import judge
from wcpg_ros.results.intervals import Interval
from wcpg_ros.results.manifest import MANIFEST, load_manifest
from wcpg_ros.results.pareto import not_slower, steps_at
from wcpg_ros.results.same_state import BEFORE, right_direction, turned
from wcpg_ros.results.uncertainty import choose, moments

ALPHAS = (0.02, 0.1, 0.3, 0.6, 1.0)


def rows(returns: np.ndarray, steps: np.ndarray | int = 100) -> np.ndarray:
    made = np.zeros(len(returns), EPISODE)
    made['return'], made['steps'] = returns, steps
    made['outcome'] = np.where(returns == -50.0, COLLISION, SUCCESS)
    return made


def gamble(collisions: int, win: float, n: int = 4000) -> np.ndarray:
    """Every so many-th episode is lost, the others pay; lost ones are the same for every policy, and more."""
    return np.where(np.arange(n) % 1000 < collisions, -50.0, win)


def true_dial() -> list[np.ndarray]:
    """Each alpha takes a risk that pays at its own level only: at rate p, going pays (win) against -50."""
    return [rows(gamble(*policy), steps) for policy, steps in (
        ((0, 10.0), 200), ((4, 13.0), 180), ((20, 18.0), 150), ((60, 26.0), 120), ((150, 40.0), 90))]


def test_a_true_dial_is_recognised() -> None:
    """By hand: CVaR 0.02 of the first is 10, of the third (2% lost, so all of the worst 2%) is -50."""
    matrix = judge(true_dial(), ALPHAS)
    assert matrix.values[0, 0] == pytest.approx(10.0)
    assert matrix.values[2, 0] == pytest.approx(-50.0)
    assert matrix.values[4, 4] == pytest.approx(0.15 * -50 + 0.85 * 40)
    assert [column.holds for column in matrix.columns] == [True] * 5
    assert [column.best for column in matrix.columns] == list(ALPHAS)
    assert matrix.mapping()['columns_that_hold'] == 5
    assert [pair.collisions_rise for pair in matrix.neighbours] == [True] * 4
    assert matrix.neighbours[0].quicker.value == pytest.approx(0.1)
    assert matrix.collisions == [0, 16, 80, 240, 600]


def test_a_switch_and_a_dead_dial_are_not_taken_for_one() -> None:
    dead = judge([rows(gamble(3, 12.0))] * 5, ALPHAS)
    assert not any(column.holds for column in dead.columns)
    assert all(pair.quicker.value == 0.0 for pair in dead.neighbours)
    backwards = judge(true_dial()[::-1], ALPHAS)
    assert not any(column.holds for column in (backwards.columns[0], backwards.columns[-1]))
    assert not any(pair.collisions_rise for pair in backwards.neighbours)


def test_the_matrix_command_refuses_what_it_cannot_judge(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / 'm.safetensors'
    random_model(1, scenario='merge').save(path)
    common = ['--scenario', 'merge', '--model', str(path), '--keep', str(tmp_path / 'store'), '--episodes', '40',
              '--backend', 'serial']
    assert cvar_matrix.main([*common, '--alphas', '0.1', '1']) == 2
    assert 'at least three' in capsys.readouterr().err
    assert cvar_matrix.main([*common, '--row', 'no']) == 2
    assert not (tmp_path / 'store').exists()
    assert cvar_matrix.main([*common, '--json']) == 0
    assert '"columns_that_hold": ' in capsys.readouterr().out


def test_calibration_errors_by_hand() -> None:
    """Two kinds of episode, told apart by the critic: 10 or 20 come, 12 or 22 are said. The spread is 10."""
    came = np.tile([10.0, 20.0], 500)
    made = np.zeros(1000, [(name, np.float32) for name in ('discounted', 'predicted_mean', 'predicted_cvar', 'drawn')])
    made['discounted'], made['predicted_mean'], made['predicted_cvar'] = came, came + 2.0, 15.0
    made['drawn'] = came[::-1]
    mean, cvar = errors(made, 0.1)
    assert (mean.predicted, mean.realised) == pytest.approx((17.0, 15.0))
    assert mean.error == pytest.approx(0.2)
    assert mean.constant == pytest.approx(0.5)
    assert not mean.believable
    assert (cvar.predicted, cvar.realised) == pytest.approx((10.0, 10.0))     # said of no episode, but of all
    made['predicted_mean'] = came + 0.5
    assert errors(made, 0.1)[0].believable


def test_a_critic_that_knows_the_few_who_may_go_at_once_beats_a_constant() -> None:
    """15% are sure of 20, the others get 10; in a bin of 20% the worst would all be of the others."""
    came = np.where(np.arange(1000) < 150, 20.0, 10.0)
    made = np.zeros(1000, [(name, np.float32) for name in ('discounted', 'predicted_mean', 'predicted_cvar', 'drawn')])
    for name in made.dtype.names or ():
        made[name] = came
    error = errors(made, 0.02)[1]
    assert error.error == 0.0
    assert error.constant == pytest.approx(0.1)     # of the spread, 10: one bin of ten is off by all of it
    assert error.believable


def test_the_episode_shown_is_the_success_whose_sigma_rises_most_and_falls_again() -> None:
    made = np.zeros(4, [('episode', np.int64), ('outcome', np.int8), ('sigma_peak', np.float32),
                        ('predicted_std', np.float32), ('sigma_last', np.float32)])
    made['episode'], made['outcome'] = [4, 5, 6, 7], [SUCCESS, SUCCESS, COLLISION, SUCCESS]
    made['sigma_peak'], made['predicted_std'] = [9.0, 12.0, 30.0, 25.0], [1.0, 8.0, 1.0, 1.0]
    made['sigma_last'] = [2.0, 0.0, 1.0, 24.0]
    assert choose(made) == 4


@pytest.mark.parametrize('sigma', [[1.0] * 6, [1, 2, 3, 9, 4, 3, 2, 1, 1, 1], list(range(40)), list(range(40))[::-1]])
def test_six_different_moments_with_the_first_the_peak_and_the_last(sigma: list[float]) -> None:
    shown = moments(sigma)
    assert shown == sorted(set(shown))
    assert len(shown) == 6
    assert {0, len(sigma) - 1, int(np.argmax(sigma))} <= set(shown)


def cell(rate: float, steps: float) -> Cell:
    return Cell(1000, round(1000 * rate), 1000 - round(1000 * rate), 0, Interval(rate, rate, rate),
                Interval(steps, steps, steps), Interval(0.0, 0.0, 0.0))


def test_a_rule_is_met_where_it_collides_as_often() -> None:
    family = [cell(0.10, 60.0), cell(0.02, 100.0), cell(0.0, 160.0), cell(0.0, 200.0)]
    assert steps_at(0.06, family) == pytest.approx(80.0)
    assert steps_at(0.01, family) == pytest.approx(130.0)
    assert steps_at(0.0, family) == pytest.approx(160.0)     # the quickest of those that never do
    assert steps_at(0.2, family) == pytest.approx(60.0)     # the quickest is not as bad, and as quick
    assert steps_at(0.0, family[:2]) is None
    assert steps_at(0.15, [*family, cell(0.12, 90.0)]) == pytest.approx(60.0)     # who is worse in both does not count


def test_a_row_counts_where_the_rule_can_be_compared_and_is_nowhere_quicker() -> None:
    assert not_slower('gap', {0.02: None, 0.1: -0.2, 1.0: 0.0})
    assert not not_slower('gap', {0.02: 0.01, 1.0: -0.3})
    assert not_slower('predict', {0.02: 0.05, 0.3: 0.0})
    assert not not_slower('predict', {0.02: 0.0, 0.3: 0.01})
    assert not not_slower('gap', {0.02: None, 1.0: None})


def test_actions_that_do_not_differ_have_no_direction() -> None:
    alike = np.zeros((5, 10))
    assert right_direction(alike) == (0.0, 0.0)
    alike[-1, :6], alike[-1, 6:8] = 1.0, -1.0
    assert right_direction(alike) == (0.6, 0.2)


def test_turning_the_dial_changes_what_follows_and_nothing_before() -> None:
    model, seed, n = 'models/left_turn.safetensors', 7, 200
    scenario, controller = prepare('left_turn', 'train', model, BEFORE)
    plain = drive(scenario, controller, n, seed)
    same = turned('left_turn', model, BEFORE, seed, n)
    assert 0.9 * n < len(same) <= n
    for name in ('outcome', 'steps'):
        np.testing.assert_array_equal(same[name], plain[name][same['episode']])
    careful, bold = (turned('left_turn', model, alpha, seed, n) for alpha in (0.02, 1.0))
    np.testing.assert_array_equal(careful['episode'], bold['episode'])
    assert careful['steps'].mean() > 1.5 * bold['steps'].mean()


def test_the_papers_tables_are_whole() -> None:
    tables = paper_tables()
    for scenario in ('left_turn', 'merge'):
        assert len(table_rows(scenario)) == 7
        for cells in tables[scenario].values():
            assert len(cells) == len(tables['columns']) == 9
            assert all(0 <= collided <= 100 and collided + finished <= 100 for collided, finished in cells)
    assert tables['left_turn']['+15/5%'][tables['columns'].index('PPO')] == [49, 51]
    assert tables['merge']['+0/2%'][0] == [1, 7]


@pytest.fixture(scope='module')
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A manifest whose models nobody trained."""
    folder = tmp_path_factory.mktemp('results')
    content = yaml.safe_load(MANIFEST.read_text())
    content |= {'scenarios': ['merge'], 'seeds': [0, 1]}
    content['evaluation'] |= {'episodes': 12, 'matrix_episodes': 12, 'curve_episodes': 12, 'gaps': [2.0, 4.0],
                              'margins': [0.5], 'curve_alphas': [0.02, 1.0]}
    for name, run in content['runs'].items():
        run['file'] = str(folder / f'{name}_{{scenario}}_{{seed}}.safetensors')
        if run.pop('shipped', ''):
            run['shipped'] = str(folder / 'shipped_{scenario}.safetensors')
    (folder / 'm.yaml').write_text(yaml.safe_dump(content))
    manifest = load_manifest(folder / 'm.yaml')
    for k, run in enumerate(manifest.all_runs()):
        make_files(run, k)
    (folder / 'ours_merge_1.safetensors').rename(folder / 'shipped_merge.safetensors')
    (folder / 'ours_merge_1.csv').rename(folder / 'shipped_merge.csv')
    return folder


def make_page(folder: Path, *options: str) -> int:
    return page.main(['--manifest', str(folder / 'm.yaml'), '--out', str(folder / 'page' / 'results.md'), '--keep',
                      str(folder / 'store'), '--backend', 'serial', *options])


def test_the_page_is_whole_and_a_second_one_is_the_same(small: Path) -> None:
    (readme := small / 'README.md').write_text('before\n<!-- results: begin -->\nold\n<!-- results: end -->\nafter\n')
    assert make_page(small, '--update', str(readme)) == 0
    assert readme.read_text().startswith('before\n<!-- results: begin -->\n|  | α = 0.02 | α = 0.1 |')
    assert 'collisions, % | ' in readme.read_text()
    assert readme.read_text().endswith('another policy for every α.\n<!-- results: end -->\nafter\n')
    text = (small / 'page' / 'results.md').read_text()
    for heading in ('What did not reproduce', 'What did', 'Extrapolation', 'The bars', 'The dial',
                    'Safety against time', 'Testing performance over α', 'The critic, checked', 'Ablations',
                    'Fast-slow lanes', 'Learning'):
        assert f'## {heading}\n' in text
    assert text.index('What did not reproduce') < text.index('## Extrapolation')
    for picture in ('pareto_merge.png', 'pareto_merge_rows.png', 'testing.png', 'calibration.png', 'learning.png',
                    'fast_slow_variance.png'):
        assert f'(pictures/{picture})' in text
        assert (small / 'page' / 'pictures' / picture).stat().st_size > 10_000
    assert '*1, 7*' in text     # the paper's α = 0.02 on +0/2%
    details = (small / 'page' / 'results_cells.md').read_text()
    assert all(f'**α = {alpha:g} against the others**' in details for alpha in ALPHAS)
    with (small / 'page' / 'results_cells.csv').open(newline='') as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 7 * (2 * (2 * 5 + 5) + 1)     # rows, seeds × (blocks × alphas + baselines), the rule
    for each in cells:
        assert each['n'] == '12'
        assert sum(int(each[name]) for name in ('collisions', 'successes', 'timeouts')) == 12
    for card in ('ours_merge_0.md', 'shipped_merge.md'):
        assert (small / card).read_text().count('\n| +') == 6 * 5     # shifted rows, alphas
    driven = sorted(path.stat().st_mtime_ns for path in (small / 'store').iterdir())
    assert make_page(small) == 0
    assert (small / 'page' / 'results.md').read_text() == text
    assert sorted(path.stat().st_mtime_ns for path in (small / 'store').iterdir()) == driven


def test_a_ctrl_c_while_it_is_drawn_leaves_the_old_page_and_its_pictures(small: Path,
                                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_page(small) == 0
    before = {path: path.stat().st_mtime_ns for path in (small / 'page').rglob('*')}

    def interrupted(context: object) -> list[str]:
        assert list((small / 'page').glob('.*/pictures/*.png'))     # others have been drawn
        raise KeyboardInterrupt
    monkeypatch.setattr(learning_curves, 'lines', interrupted)
    assert make_page(small) == INTERRUPTED
    assert {path: path.stat().st_mtime_ns for path in (small / 'page').rglob('*')} == before


def test_two_pages_are_not_made_in_one_place_at_once(small: Path, capsys: pytest.CaptureFixture) -> None:
    (small / 'page').mkdir(exist_ok=True)
    with alone_in(small / 'page'):
        assert make_page(small) == 2
    assert 'page: another command is at work in there; wait for it' in capsys.readouterr().err


def test_the_page_needs_the_alphas_of_the_papers_tables(small: Path, capsys: pytest.CaptureFixture) -> None:
    content = yaml.safe_load((small / 'm.yaml').read_text())
    content['evaluation']['alphas'] = [0.1, 0.3, 0.9]
    (small / 'others.yaml').write_text(yaml.safe_dump(content))
    assert make_page(small, '--manifest', str(small / 'others.yaml')) == 2
    assert "evaluation.alphas: the page needs those of the paper's tables, [0.02, 0.1," in capsys.readouterr().err


def test_a_shipped_model_that_is_lost_is_named(small: Path, capsys: pytest.CaptureFixture) -> None:
    shipped = small / 'shipped_merge.safetensors'
    shipped.rename(small / 'elsewhere')
    try:
        assert make_page(small) == 2
    finally:
        (small / 'elsewhere').rename(shipped)
    assert capsys.readouterr().err.startswith(f'results: {shipped}: the model that is shipped is not there')


def test_the_shipped_model_stands_for_its_seed(small: Path) -> None:
    first, second = load_manifest(small / 'm.yaml').runs_of('ours', 'merge')
    assert first.file.name == 'ours_merge_0.safetensors'
    assert second.file.name == 'shipped_merge.safetensors'


def test_the_small_version_is_of_the_shipped_seed(small: Path, capsys: pytest.CaptureFixture) -> None:
    few = load_manifest(small / 'm.yaml').quick()
    assert [run.seed for run in few.runs_of('ours', 'merge')] == [1]
    assert [run.seed for run in few.runs_of('ddpg', 'merge')] == [0]
    assert make_page(small, '--quick', '--out', str(small / 'quick' / 'results.md')) == 0, capsys.readouterr().err
    assert 'This is the small version' in (small / 'quick' / 'results.md').read_text()


def test_a_model_of_another_recipe_is_noticed(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = load_manifest(small / 'm.yaml').runs_of('d4pg', 'merge')[1]
    kept = run.file.read_bytes()
    make_files(run, 5, recipe={})
    try:
        assert make_page(small, '--keep', str(tmp_path / 'store')) == 2
    finally:
        run.file.write_bytes(kept)
    assert f'{run.file}: trained by another recipe than that of the manifest' in capsys.readouterr().err


def test_what_is_missing_is_said_before_anything_is_driven(small: Path, tmp_path: Path,
                                                          capsys: pytest.CaptureFixture) -> None:
    manifest = load_manifest(small / 'm.yaml')
    gone = manifest.runs_of('c51', 'merge')[0].file
    gone.rename(tmp_path / 'kept')
    try:
        assert make_page(small, '--keep', str(tmp_path / 'store')) == 2
    finally:
        (tmp_path / 'kept').rename(gone)
    error = capsys.readouterr().err
    assert f'{gone}: not trained yet; train with `python -m wcpg_ros.results.training --only c51`' in error
    assert error.count('\n') == 1
    assert not list((tmp_path / 'store').glob('*'))
    assert make_page(small, '--backend', 'clouds') == 2
    (tmp_path / 'page.md').write_text('no marks')
    assert make_page(small, '--update', str(tmp_path / 'page.md')) == 2
    assert 'is no file with the lines <!-- results: begin --> and' in capsys.readouterr().err
    (tmp_path / 'file').touch()
    assert make_page(small, '--out', str(tmp_path / 'file' / 'x.md')) == 2
    assert 'cannot be written to' in capsys.readouterr().err


def test_learning_curves_are_of_the_ends_of_what_was_trained(tmp_path: Path) -> None:
    run = load_manifest().runs_of('ours', 'merge')[0]
    settings = dataclasses.replace(run.settings, shipped='', file=str(tmp_path / '{scenario}_{seed}.x'))
    run = dataclasses.replace(run, settings=settings)
    assert learning_curves.read(run, learning_curves.LOWEST) == ([], [], [])
    run.log.write_text('decisions,mean_return@0.5,collision@0.5,mean_return@1e-3,collision@1e-3,mean_return@1,'
                       'collision@1\n100,20,0.02,5,0.001,24,0.04\n200,21,0.01,6,0,25,0.03\n')
    assert learning_curves.read(run, learning_curves.LOWEST) == ([100, 200], [5, 6], [0.1, 0])
    assert learning_curves.read(run, learning_curves.HIGHEST) == ([100, 200], [24, 25], [4, 3])


def test_who_has_converged_gains_nothing_in_the_last_quarter() -> None:
    assert learning_curves.quarters([100, 200, 300, 400], [1, 2, 5, 7]) == (5, 7)
    third, last = learning_curves.quarters([100], [3])
    assert np.isnan(third)
    assert last == 3


def test_timeouts_are_neither_success_nor_collision() -> None:
    made = rows(np.array([10.0, -50.0, 0.0]))
    made['outcome'][2] = TIMEOUT
    matrix = judge([made] * 5, ALPHAS)
    assert matrix.collisions == [1] * 5
    assert matrix.steps == [100.0] * 5
