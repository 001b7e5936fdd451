"""Learning from bags alone, against what drove them: `python bench/offline.py --work FOLDER [--write docs/offline.md]`.

Per scene it records 300 episodes of each of seven simple controllers, learns from those 2,100 episodes with
config/offline.yaml and, as the control, with the same recipe but its cloning term, three seeds each; chooses alpha on
the validation seeds; and drives 1,000 reporting episodes, the same traffic for everybody. What exists in the working
directory already is used again, so it may be stopped and begun again at any time.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from wcpg_ros import record, train
from wcpg_ros.controllers import prepare
from wcpg_ros.evaluate import drive, summary

SCENARIOS = ('left_turn', 'merge')
BEHAVIOURS = ('gap:1', 'gap:2', 'gap:4', 'gap:6', 'constant:0', 'constant:2', 'constant:4')
SEEDS = (0, 1, 2)
RECIPES: dict[str, list[str]] = {
    'offline': [],
    'control': ['actor.behaviour_cloning=0.0', 'actor.cloning_filter=false'],
}
ALPHAS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.6, 1.0)
BAG_SEED, VALIDATION_SEED, REPORT_SEED = 9000, 1000, 7     # see wcpg_ros/seeds.py
EPISODES = 1000
CONFIG = Path('config/offline.yaml')


def record_bags(work: Path, scenario: str, episodes: int) -> Path:
    """A directory with a bag of each behaviour."""
    folder = work / 'bags' / scenario
    for number, behaviour in enumerate(BEHAVIOURS):
        bag = folder / behaviour.replace(':', '')
        if not (bag / 'metadata.yaml').exists():
            assert record.main(['--scenario', scenario, '--controller', behaviour, '--episodes', str(episodes),
                                '--seed', str(BAG_SEED + number), '--without-markers', '--out', str(bag)]) == 0
    return folder


def learn(work: Path, scenario: str, recipe: str, seed: int, bags: Path) -> Path:
    """The model of one run: the last policy, not the best of those on the way."""
    out = work / 'runs' / scenario / f'{recipe}{seed}'
    if not (out / 'config.yaml').exists():
        changes = ['--set', *RECIPES[recipe]] if RECIPES[recipe] else []
        train.main(['--from-bag', str(bags), '--config', str(CONFIG), '--scenario', scenario, '--seed', str(seed),
                    '--out', str(out), *changes])
    else:
        train.main(['--resume', str(out)])
    return out / 'model.safetensors'


def returns(scenario: str, controller: str, alpha: float | None, seed: int) -> np.ndarray:
    """The episodes of one controller."""
    return drive(*prepare(scenario, 'train', controller, alpha), EPISODES, seed)


def row(name: str, alpha: float | None, rows: np.ndarray, best: np.ndarray | None) -> dict[str, Any]:
    """One line of the table; the difference to the best behaviour is paired."""
    facts = {'name': name, 'alpha': alpha, **summary(rows)}
    if best is not None:
        difference = rows['return'].astype(float) - best['return']
        facts['difference'] = float(difference.mean())
        facts['half_width'] = 1.96 * float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return facts


def measure(work: Path, scenario: str, episodes: int) -> list[dict[str, Any]]:
    """The table of one scene: behaviours first, then what was learnt from them."""
    bags = record_bags(work, scenario, episodes)
    driven = {behaviour: returns(scenario, behaviour, None, REPORT_SEED) for behaviour in BEHAVIOURS}
    table = [row(behaviour, None, rows, None) for behaviour, rows in driven.items()]
    best = driven[max(table, key=lambda facts: facts['mean_return'])['name']]
    for recipe in RECIPES:
        for seed in SEEDS:
            model = str(learn(work, scenario, recipe, seed, bags))
            alpha = max(ALPHAS, key=lambda level: returns(
                scenario, model, level, VALIDATION_SEED)['return'].mean())
            table.append(row(f'{recipe}, seed {seed}', alpha, returns(scenario, model, alpha, REPORT_SEED), best))
            print(json.dumps({'scenario': scenario, **table[-1]}), flush=True)
    return table


def page(tables: dict[str, list[dict[str, Any]]]) -> str:
    """docs/offline.md."""
    lines = [
        '# Learning from bags alone', '',
        'Made by `python bench/offline.py --work WORK --write docs/offline.md`; nothing here is written by hand.', '',
        'Per scene, 300 recorded episodes of each of seven simple controllers, 2,100 in all, are all that the learner',
        'sees (`train --from-bag … --config config/offline.yaml`). *Control* is the same recipe without its cloning',
        'term. The policy is the last one of its run; its alpha has the best mean return on 1,000 validation episodes.',
        'Figures are of 1,000 other episodes, the same traffic for everybody. *Gain* is the paired difference of mean',
        'returns to the best controller in the data, with a 95% interval.', '']
    for scenario, table in tables.items():
        best = max(facts['mean_return'] for facts in table if 'difference' not in facts)
        lines += [f'## {scenario}', '',
                  '| driver | alpha | collisions | time-outs | steps | mean return | worst 10% | gain |',
                  '|---|---:|---:|---:|---:|---:|---:|---:|']
        for facts in table:
            gain = (f'{facts["difference"]:+.2f} ± {facts["half_width"]:.2f}' if 'difference' in facts
                    else 'best in the data' if facts['mean_return'] == best else '')
            alpha = '' if facts['alpha'] is None else f'{facts["alpha"]:g}'
            lines.append(f'| {facts["name"]} | {alpha} | {facts["collisions"] / 10:.1f}% | '
                         f'{facts["timeouts"] / 10:.1f}% | {facts["mean_steps"]:.0f} | {facts["mean_return"]:.2f} | '
                         f'{facts["cvar_0.1"]:.2f} | {gain} |')
        for recipe in RECIPES:
            mine = [facts for facts in table if facts['name'].startswith(recipe)]
            lines += ['', f'{recipe}: {sum(facts["difference"] > 0 for facts in mine)} of {len(mine)} seeds beat the '
                          'best controller in the data.']
        lines.append('')
    return '\n'.join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work', type=Path, required=True, help='directory for bags and runs')
    parser.add_argument('--write', type=Path, metavar='FILE', help='make the page')
    parser.add_argument('--scenarios', nargs='+', default=SCENARIOS, choices=SCENARIOS)
    parser.add_argument('--episodes', type=int, default=300, help='recorded of each behaviour (default: 300)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    given = parser.parse_args()
    tables = {scenario: measure(given.work, scenario, given.episodes) for scenario in given.scenarios}
    if given.write:
        given.write.write_text(page(tables))
    if given.json:
        print(json.dumps(tables))


if __name__ == '__main__':
    main()
