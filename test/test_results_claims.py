"""What the page says of the paper's claims: with the paper's own figures every one of them must come out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim_node.state import COLLISION, SUCCESS, TIMEOUT
from wcpg_ros.episode_store import Drive, EpisodeStore
from wcpg_ros.results import ablations, claims, claims_of_parts, learning_curves
from wcpg_ros.results.context import Cell, Context, paper_tables
from wcpg_ros.results.intervals import Interval
from wcpg_ros.results.manifest import load_manifest

Told = Callable[[Drive], tuple[int, int]]     # collisions and successes, of 100


class ToldContext(Context):
    """Nothing is driven: the cells are told."""

    def __init__(self, told: Told, folder: Path) -> None:
        super().__init__(load_manifest(), EpisodeStore(folder), folder / 'results.md')
        self._told = told

    def cell(self, drive: Drive) -> Cell:
        collisions, successes = self._told(drive)
        nothing = Interval(0.0, 0.0, 0.0)
        return Cell(100, collisions, successes, 100 - collisions - successes, nothing, nothing, nothing)

    def rows(self, drive: Drive) -> np.ndarray:
        """σ grows with alpha, and along an episode rises and falls."""
        names = ('sigma', 'predicted_std', 'sigma_peak', 'sigma_last', 'return')
        found = np.zeros(100, [*((name, float) for name in names), ('outcome', int), ('steps', int)])
        found['sigma'] = found['predicted_std'] = drive.alpha
        found['sigma_peak'] = 2.0 * found['sigma']
        collisions, successes = (0, 100) if drive.watch else self._told(drive)     # watched at alphas of no table, too
        found['outcome'] = np.repeat([COLLISION, SUCCESS, TIMEOUT],
                                     [collisions, successes, 100 - collisions - successes])
        return found


def the_papers(drive: Drive) -> tuple[int, int]:
    """What the paper found: its tables, and its words about penalties and greedy choices."""
    name = Path(drive.controller).stem
    if drive.controller.startswith('greedy:') and drive.alpha != 1.0:     # there it is the control
        return 30, 70
    if name.startswith('penalty'):
        return 1, 40
    names = paper_tables()['columns']
    if drive.alpha is None:
        place = names.index(name.split('_')[0].upper())
    else:
        place = [float(each) if each[0].isdigit() else None for each in names].index(drive.alpha)
    collided, finished = paper_tables()[drive.scenario][drive.row][place]
    return collided, finished


@pytest.fixture(autouse=True)
def _what_is_not_driven(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the paper has it: training converges, one network does for all α, the printed coefficient changes lanes."""
    monkeypatch.setattr(learning_curves, 'convergence', lambda runs: (17.0, 17.0))
    monkeypatch.setattr(claims_of_parts, 'switch_alpha', lambda measure, reading: 0.3)
    monkeypatch.setattr(ablations, 'loners', lambda context, scenario: [])


def failed(told: Told, folder: Path) -> list[str]:
    return [claim.claim for claim in claims.all_claims(ToldContext(told, folder)) if not claim.holds]


def test_the_papers_own_figures_bear_out_every_claim(tmp_path: Path) -> None:
    assert failed(the_papers, tmp_path) == []
    text = '\n'.join(claims.lines(ToldContext(the_papers, tmp_path)))
    refuted, partly, held = text.split('## ')[1:]
    assert 'Nothing that we checked.' in refuted
    assert 'Nothing that we checked.' in partly
    assert held.count('- **') == len({claim.claim for claim in claims.all_claims(ToldContext(the_papers, tmp_path))})


@pytest.mark.parametrize(('changed', 'figures', 'said'), [
    (lambda drive: drive.alpha == 0.3, (2, 98), 'α ≤ 0.3 collides in at most 1%'),
    (lambda drive: drive.alpha == 1.0, (0, 100), 'The risk-neutral end collides more often'),
    (lambda drive: drive.alpha == 1.0, (40, 60), 'α = 1 collides as often as in the paper'),
    (lambda drive: drive.alpha == 0.02 and drive.scenario == 'left_turn', (0, 90), 'α = 0.02 completes the maneuver'),
    (lambda drive: drive.alpha == 0.02 and drive.scenario == 'merge', (0, 99), 'α = 0.02 hardly ever completes'),
    (lambda drive: 'd4pg' in drive.controller, (20, 80), 'Baselines get worse off the `train` row'),
    (lambda drive: 'd4pg' in drive.controller and drive.row != 'train', (0, 100), 'less often than every baseline'),
    (lambda drive: 'ddpg' in drive.controller and drive.row == 'train', (20, 80), 'Baselines collide on the'),
    (lambda drive: 'penalty' in drive.controller, (1, 99), 'With a penalty of −1000'),
    (lambda drive: 'greedy' in drive.controller, (0, 100), 'Choosing actions greedily'),
    (lambda drive: 'greedy' in drive.controller, (30, 70), 'Choosing actions greedily'),     # the control too
    (lambda drive: drive.alpha == 0.6, (5, 95), 'α = 0.6 collides in at most 3%'),
    (lambda drive: drive.alpha == 0.02 and drive.row == 'train', (0, 50), 'completes the maneuver as often as in the'),
    (lambda drive: drive.alpha == 0.1 and drive.scenario == 'merge', (0, 99), 'α = 0.1 hardly ever completes'),
    (lambda drive: drive.alpha == 0.3 and drive.scenario == 'merge', (0, 99), 'α = 0.3 completes the maneuver about'),
    (lambda drive: 'c51' in drive.controller and drive.row.startswith('+0/'), (2, 98), 'worse in denser traffic'),
    (lambda drive: 'printed' in drive.controller, (5, 95), 'With CVaR as printed in Eq. 9'),
    (lambda drive: 'merge_3' in drive.controller and drive.alpha == 0.02 and drive.row == '+0/2%', (30, 70),
     'with every training seed'),
])
def test_other_figures_refute_the_claim_they_speak_of(changed: Callable[[Drive], bool], figures: tuple[int, int],
                                                      said: str, tmp_path: Path) -> None:
    refuted = failed(lambda drive: figures if changed(drive) else the_papers(drive), tmp_path)
    assert any(said in claim for claim in refuted)


def item(context: Context, words: str) -> list[str]:
    """The lines of one sentence."""
    item, = (item for item in '\n'.join(claims.lines(context)).split('- **') if words in item)
    return item.splitlines()


def test_a_sentence_stands_once_with_all_that_was_found(tmp_path: Path) -> None:
    context = ToldContext(lambda drive: (20, 80) if 'd4pg' in drive.controller else the_papers(drive), tmp_path)
    worse = item(context, 'Baselines get worse off')
    refuted = [line for line in worse if line.startswith('  - no: ')]
    assert len(refuted) == 2
    assert all('D4PG: 20.0% on `train`, 20.0% on `+' in line for line in refuted)
    assert sum(line.startswith('  - yes: ') and 'D4PG' not in line for line in worse) == 6
    assert sum(line.startswith('  - Why: ') for line in worse) == 1


def test_training_seeds_without_a_dial_are_named(tmp_path: Path) -> None:
    def told(drive: Drive) -> tuple[int, int]:
        return (27, 73) if 'paper/merge_1.' in drive.controller else the_papers(drive)
    refuted, = (line for line in item(ToldContext(told, tmp_path), 'α ≤ 0.3') if line.startswith('  - no: '))
    assert refuted.startswith("  - no: Highway merge, the paper's values: at most 27.0%")
    assert refuted.endswith('(training seed 1: one policy at every α, with 27.0% on `train`)')
