"""The known gamble: what each pairing of variance target and loss converges to."""

import pytest

from wcpg_ros import calibration
from wcpg_ros.calibration import learn, truth
from wcpg_ros.settings import CriticSettings


def test_a_file_without_its_marks_is_refused_before_anything_is_learnt(tmp_path, capsys) -> None:
    (tmp_path / 'page.md').write_text('no marks')
    for arguments in (['--update', str(tmp_path / 'page.md')], ['--update', str(tmp_path / 'none.md')],
                      ['--updates', '0']):
        with pytest.raises(SystemExit):
            calibration.main(arguments)
    assert 'expected at least 1, got 0' in capsys.readouterr().err


def test_the_truth_of_the_gamble() -> None:
    """+30 (99%) or -50 (1%): mean 29.2, sigma 80 sqrt(0.01 * 0.99), and the worst 10% hold all of the losses."""
    assert truth().std == pytest.approx(7.96, abs=0.01)
    assert truth().cvar == pytest.approx([-50.0, -10.0, 22.0, 82.0 / 3.0, 29.2])


@pytest.mark.parametrize(('pair', 'sigma'), [
    (('paper', 'wasserstein'), 7.22),      # 0.99 sqrt(30² - 29.2²) + 0.01 sqrt(50² - 29.2²)
    (('td_error', 'wasserstein'), 1.58),   # 0.99 * 0.8 + 0.01 * 79.2, which is why it is refused
    (('td_error', 'likelihood'), 7.96),
])
def test_pairings_converge_to_their_fixed_points(pair: tuple[str, str], sigma: float) -> None:
    row = learn(CriticSettings(learning_rate=3e-3, return_scale=10.0), updates=1500, pair=pair)
    assert row.std == pytest.approx(sigma, abs=0.4)
    assert row.cvar[-1] == pytest.approx(29.2, abs=0.5)


def test_the_table_is_put_between_its_marks(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(calibration, 'rows', lambda updates: iter([]))
    page = tmp_path / 'page.md'
    page.write_text('before\n<!-- calibration: begin -->\nold\n<!-- calibration: end -->\nafter\n')
    calibration.main(['--update', str(page)])
    text = page.read_text()
    assert '| **truth** | 7.96 | -50.0 |' in text
    assert 'old' not in text
    assert text.startswith('before\n')
    assert text.endswith('<!-- calibration: end -->\nafter\n')
