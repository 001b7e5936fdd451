"""Learning from bags alone, against what drove them: `python bench/offline.py --work FOLDER [--write docs/offline.md]`.

Per scene it records 300 episodes of each of seven simple controllers, learns from those 2,100 episodes with
config/offline.yaml and, as the control, with the same recipe without its cloning term, three seeds each; chooses alpha
on the validation seeds; and drives 1,000 reporting episodes, the same traffic for everybody. Whatever is in the working
folder already is used again, so it may be stopped and begun again at any time; after a change of a scene or of the
recipe it asks for another folder.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros import record, train
from wcpg_ros.controllers import prepare
from wcpg_ros.episodes import drive, summary
from wcpg_ros.settings import load_recipe, to_mapping

SCENARIOS = ('left_turn', 'merge')
BEHAVIOURS = ('gap:1', 'gap:2', 'gap:4', 'gap:6', 'constant:0', 'constant:2', 'constant:4')
SEEDS = (0, 1, 2)
RECIPES: dict[str, list[str]] = {
    'offline': [],
    'control': ['actor.behaviour_cloning=0.0', 'actor.cloning_filter=false'],
}
BAG_SEED, REPORT_SEED = 9000, 100     # see wcpg_ros/seeds.py
EPISODES = 1000                     # driven for every line of the table
CONFIG = Path('config/offline.yaml')
COLOURS = {'behaviour': '#999999', 'offline': '#009e73', 'control': '#e69f00'}


def made_from(folder: Path, **facts: Any) -> None:
    """Note what a folder's content depends on, or stop if it depends on something else."""
    note, text = folder / 'made_from.json', json.dumps(facts, indent=1, sort_keys=True)
    if note.exists() and note.read_text() != text:
        sys.exit(f'{folder}: made with another scene or recipe; remove it, or choose another --work')
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(text)


def record_bags(folder: Path, scenario: str, episodes: int) -> None:
    """A bag of each behaviour."""
    for number, behaviour in enumerate(BEHAVIOURS):
        bag = folder / behaviour.replace(':', '')
        if (bag / 'metadata.yaml').exists():
            continue
        shutil.rmtree(bag, ignore_errors=True)
        failed = record.main(['--scenario', scenario, '--controller', behaviour, '--episodes', str(episodes), '--seed',
                              str(BAG_SEED + number), '--without-markers', '--out', str(bag)])
        if failed:
            shutil.rmtree(bag, ignore_errors=True)     # interrupted: it is whole, but too short
            sys.exit(failed)


def learn(out: Path, scenario: str, recipe: str, seed: int, bags: Path) -> tuple[Path, float, float]:
    """A run's last policy, the alpha with its best mean return on the validation episodes, and its seconds."""
    if (out / 'config.yaml').exists():
        ended = train.main(['--resume', str(out)])
    else:
        changes = ['--set', *RECIPES[recipe]] if RECIPES[recipe] else []
        ended = train.main(['--from-bag', str(bags), '--config', str(CONFIG), '--scenario', scenario, '--seed',
                            str(seed), '--out', str(out), *changes])
    if ended:
        sys.exit(ended)
    with (out / 'log.csv').open() as file:
        last = list(csv.DictReader(file))[-1]
    returns = {float(name.partition('@')[2]): float(value) for name, value in last.items()
               if name.startswith('mean_return@')}
    return out / 'model.safetensors', max(returns, key=returns.__getitem__), float(last['seconds'])


def driven(scenario: str, controller: str, alpha: float | None = None) -> np.ndarray:
    """The reporting episodes of one controller."""
    return drive(*prepare(scenario, 'train', controller, alpha), EPISODES, REPORT_SEED)


def line(kind: str, name: str, rows: np.ndarray, best: np.ndarray, **facts: Any) -> dict[str, Any]:
    """One line of the table; the difference to the best behaviour is paired."""
    difference = rows['return'].astype(float) - best['return']
    return {'kind': kind, 'name': name, **facts, **summary(rows), 'gain': float(difference.mean()),
            'half_width': 1.96 * float(difference.std(ddof=1)) / math.sqrt(len(difference)),
            'own_half_width': 1.96 * float(rows['return'].std(ddof=1)) / math.sqrt(len(rows))}


def measure(work: Path, scenario: str, episodes: int) -> list[dict[str, Any]]:
    """The table of one scene: behaviours first, then what was learnt from them."""
    scene = json.loads(json.dumps(dataclasses.asdict(load_scenario(scenario)), default=str))
    bags, runs = work / 'bags' / scenario, work / 'runs' / scenario
    made_from(bags, scene=scene, episodes=episodes)
    made_from(runs, scene=scene, episodes=episodes, recipe=to_mapping(load_recipe(CONFIG)))
    record_bags(bags, scenario, episodes)
    behaviours = {behaviour: driven(scenario, behaviour) for behaviour in BEHAVIOURS}
    best = max(behaviours.values(), key=lambda rows: rows['return'].mean())
    table = [line('behaviour', f'`{name}`', rows, best) for name, rows in behaviours.items()]
    for recipe in RECIPES:
        for seed in SEEDS:
            result = runs / f'{recipe}{seed}.json'
            if not result.exists():
                model, alpha, seconds = learn(runs / f'{recipe}{seed}', scenario, recipe, seed, bags)
                rows = driven(scenario, str(model), alpha)
                result.write_text(json.dumps(line(recipe, f'{recipe}, seed {seed}', rows, best, alpha=alpha,
                                                  seconds=seconds)))
            table.append(json.loads(result.read_text()))
            print(scenario, result.read_text(), flush=True)
    return table


def page(tables: dict[str, list[dict[str, Any]]], picture: str) -> str:
    """docs/offline.md."""
    seconds = [facts['seconds'] for table in tables.values() for facts in table if 'seconds' in facts]
    lines = [
        '# Learning from bags alone', '',
        'Made by `python bench/offline.py --work WORK --write docs/offline.md`; nothing here is written by hand.', '',
        'Per scene, 300 recorded episodes of each of seven simple controllers, 2,100 in all, are all that the learner',
        'sees (`train --from-bag … --config config/offline.yaml`). *Control* is the same recipe without its cloning',
        'term. The policy is the last one of its run; its alpha has the best mean return on 1,000 validation episodes.',
        'Figures are of 1,000 other episodes, the same traffic for everybody. *Gain* is the paired difference of mean',
        f'returns to the best controller in the data, with a 95% interval. A run took {min(seconds):.0f} to '
        f'{max(seconds):.0f} s of updates. In the picture, bars are 95% intervals of each mean, and the dashed line is '
        'the best controller in the data.', '', f'![Mean returns]({picture})', '']
    for scenario, table in tables.items():
        lines += [f'## {scenario}', '',
                  '| driver | alpha | collisions | time-outs | steps | mean return | worst 10% | gain |',
                  '|---|---:|---:|---:|---:|---:|---:|---:|']
        best = max((facts for facts in table if facts['kind'] == 'behaviour'), key=lambda facts: facts['mean_return'])
        for facts in table:
            gain = 'best in the data' if facts is best else f'{facts["gain"]:+.2f} ± {facts["half_width"]:.2f}'
            steps = '–' if facts['mean_steps'] is None else f'{facts["mean_steps"]:.0f}'
            shares = [f'{100 * facts[key] / EPISODES:.1f}%' for key in ('collisions', 'timeouts')]
            returns = [f'{facts[key]:.2f}' for key in ('mean_return', 'cvar_0.1')]
            lines.append(f'| {facts["name"]} | {facts.get("alpha", "")} | {" | ".join([*shares, steps, *returns])} | '
                         f'{gain} |')
        lines.append('')
        for recipe in RECIPES:
            mine = [facts for facts in table if facts['kind'] == recipe]
            sure = sum(facts['gain'] > facts['half_width'] for facts in mine)
            gain = sum(facts['gain'] for facts in mine) / len(mine)
            late = max(facts['timeouts'] for facts in mine) / EPISODES
            lines.append(f'- {recipe}: {sum(facts["gain"] > 0 for facts in mine)} of {len(mine)} seeds beat the best '
                         f'controller in the data, {sure} of them beyond the interval; the mean gain is {gain:+.2f}. '
                         f'Up to {100 * late:.0f}% of the episodes of a seed run out of time.')
        lines.append('')
    return '\n'.join(lines)


def draw(tables: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Mean returns with 95% intervals, one panel per scene."""
    import matplotlib
    matplotlib.use('Agg')
    from matplotlib import pyplot as plt
    figure, panels = plt.subplots(1, len(tables), figsize=(4.6 * len(tables), 4.2), squeeze=False,
                                  layout='constrained')
    for axes, (scenario, table) in zip(panels[0], tables.items(), strict=True):
        for place, facts in enumerate(reversed(table)):
            axes.errorbar(facts['mean_return'], place, xerr=facts['own_half_width'], fmt='o',
                          color=COLOURS[facts['kind']])
        best = max(facts['mean_return'] for facts in table if facts['kind'] == 'behaviour')
        axes.axvline(best, color=COLOURS['behaviour'], linewidth=1, linestyle='--')
        axes.set_yticks(range(len(table)), [facts['name'].strip('`') for facts in reversed(table)])
        axes.set(title=load_scenario(scenario).title, xlabel='mean return of 1,000 episodes')
        axes.grid(axis='x', alpha=0.3)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--work', type=Path, required=True, help='directory for bags and runs')
    parser.add_argument('--write', type=Path, metavar='FILE', help='make the page, and its picture beside it')
    parser.add_argument('--scenarios', nargs='+', default=SCENARIOS, choices=SCENARIOS)
    parser.add_argument('--episodes', type=int, default=300, help='recorded of each behaviour (default: 300)')
    parser.add_argument('--json', action='store_true', help='print one JSON object')
    given = parser.parse_args()
    tables = {scenario: measure(given.work, scenario, given.episodes) for scenario in given.scenarios}
    if given.write:
        picture = given.write.parent / 'pictures' / f'{given.write.stem}.png'
        picture.parent.mkdir(parents=True, exist_ok=True)
        draw(tables, picture)
        given.write.write_text(page(tables, str(picture.relative_to(given.write.parent))))
    if given.json:
        print(json.dumps(tables))


if __name__ == '__main__':
    main()
