"""What the recipes learn: `python bench/recipes.py --work FOLDER [--update docs/deviations.md]`.

Trains three seeds of each recipe for 5,000 episodes, or goes on with what the folder holds already, and drives 1,000
reporting episodes with every run's best policy at five risk levels, the same traffic for all.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from wcpg_ros import train
from wcpg_ros.controllers import prepare
from wcpg_ros.episodes import drive, summary
from wcpg_ros.model_file import write_atomically

RECIPES = (('left_turn', 'left_turn.yaml'), ('left_turn', 'paper.yaml'), ('merge', 'merge.yaml'))
SEEDS = (0, 1, 2)
TRAINING_EPISODES, EPISODES, REPORT_SEED = 5000, 1000, 0     # see wcpg_ros/seeds.py
ALPHAS = (0.02, 0.1, 0.3, 0.6, 1.0)
BEGIN, END = '<!-- recipes: begin -->', '<!-- recipes: end -->'


def last_row(run: Path) -> dict[str, str]:
    """The end of a run's log so far."""
    with (run / 'log.csv').open() as file:
        return list(csv.DictReader(file))[-1]


def trained(work: Path, scenario: str, config: str) -> Path:
    """The folder of a recipe's finished runs."""
    out = work / f'{scenario}-{config.removesuffix(".yaml")}'
    runs = [out / f'seed{seed}' for seed in SEEDS]
    if all((run / 'log.csv').exists() and int(last_row(run)['episodes']) >= TRAINING_EPISODES for run in runs):
        return out
    begin = ['--scenario', scenario, '--config', f'config/{config}', '--seeds', *map(str, SEEDS),
             '--episodes', str(TRAINING_EPISODES), '--out', str(out)]
    if train.main(['--resume', str(out)] if out.exists() else begin):
        raise SystemExit(f'{out}: not finished; the same command goes on')
    return out


def cell(scenario: str, model: Path, alpha: float) -> str:
    """Collisions, time-outs if there were any, and steps of one policy at one level."""
    facts = summary(drive(*prepare(scenario, 'train', str(model), alpha), EPISODES, REPORT_SEED))
    late = f' + {facts["timeouts"]} late' if facts['timeouts'] else ''
    return f'{facts["collisions"]}{late}, {facts["mean_steps"] or float("nan"):.0f}'


def rows(work: Path) -> Iterator[list[Any]]:
    """The table's lines."""
    for scenario, config in RECIPES:
        out = trained(work, scenario, config)
        for seed in SEEDS:
            run = out / f'seed{seed}'
            last = last_row(run)
            ratio = float(last['predicted_std@0.1']) / float(last['realised_std@0.1'])
            cells = (cell(scenario, run / 'best.safetensors', alpha) for alpha in ALPHAS)
            yield [scenario, f'`{config}`', seed, *cells, f'{ratio:.2f}', f'{float(last["seconds"]) / 60:.1f}']


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work', type=Path, required=True, help='where runs are kept')
    parser.add_argument('--update', type=Path, help='a Markdown file with the marks of this table in it')
    options = parser.parse_args()
    lines = ['| scene | recipe | seed | ' + ' | '.join(f'α = {alpha:g}' for alpha in ALPHAS) + ' | σ ratio | minutes |',
             '|---|---|---:|' + '---:|' * (len(ALPHAS) + 2)]
    for row in rows(options.work):
        lines.append('| ' + ' | '.join(map(str, row)) + ' |')
        print(lines[-1], flush=True)
    if options.update:
        page = options.update.read_text()
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        text = '\n'.join(lines)
        write_atomically(options.update, f'{before}{BEGIN}\n{text}\n{END}{after}'.encode())


if __name__ == '__main__':
    main()
