"""Look into recorded drives, and give them to other libraries.

    bag inspect bags/run1 [--json] [--plot run1.png]
    bag export bags/big --to npz --out big.npz
    bag export bags/big --to minari --out left_turn/mixed-v0
    bag reindex bags/killed

A bag of another car or simulator needs to hold states and commands: --map /vehicles=/traffic names its topics,
--scenario says where it drove, --vehicle-size 4.6 1.9 how long and wide everybody is where no markers say it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sim_node.scenario import load_scenario
from wcpg_ros.bag_export import export_minari, export_npz
from wcpg_ros.bag_reader import BagReader, ReadOptions, Summary
from wcpg_ros.bag_repair import reindex
from wcpg_ros.bag_rules import BagError, add_rules_arguments, rules_of
from wcpg_ros.evaluate import parse_changes
from wcpg_ros.interrupts import INTERRUPTED
from wcpg_ros.json_text import json_text
from wcpg_ros.places import make_writable


def summary_mapping(summary: Summary) -> dict[str, Any]:
    """The summary as `--json` prints it."""
    seconds = [row.seconds for row in summary.episodes]
    returns = [row.episode_return for row in summary.episodes]
    alphas = [row.alpha for row in summary.episodes if row.alpha is not None]
    return {
        'bags': summary.bags, 'files': summary.files, 'unfinished_files': summary.unfinished,
        'seconds': round(summary.seconds, 3),
        'topics': {name: {'type': topic.type, 'count': topic.count} for name, topic in sorted(summary.topics.items())},
        'episodes': len(summary.episodes), 'outcomes': summary.outcomes, 'transitions': summary.transitions,
        'lost_decisions': sum(row.gaps for row in summary.episodes),
        'episode_seconds': _spread(seconds), 'returns': _spread(returns), 'alphas': _spread(alphas),
        'oddities': summary.oddities(), 'problems': summary.problems,
    }


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    return {'min': round(min(values), 4), 'mean': round(float(np.mean(values)), 4), 'max': round(max(values), 4)}


def show(summary: Summary) -> None:
    """The summary in words."""
    facts = summary_mapping(summary)
    unfinished = f', {facts["unfinished_files"]} of them unfinished' if facts['unfinished_files'] else ''
    print(f'{_number(facts["bags"], "bag")}, {_number(facts["files"], "file")}{unfinished}, {facts["seconds"]:.1f} s')
    for name, topic in facts['topics'].items():
        print(f'  {name:<28} {topic["type"]:<40} {topic["count"]:>9}')
    outcomes = ', '.join(f'{count} {outcome}' for outcome, count in facts['outcomes'].items())
    print(f'{_number(facts["episodes"], "episode")}: {outcomes or "none"}')
    print(f'{_number(facts["transitions"], "transition")}, {facts["lost_decisions"]} lost')
    for label, key, unit in (('episodes last', 'episode_seconds', ' s'), ('returns', 'returns', ''),
                             ('alpha', 'alphas', '')):
        if facts[key]:
            spread = facts[key]
            print(f'  {label:<14} {spread["min"]:g} to {spread["max"]:g}{unit}, mean {spread["mean"]:g}')
    for what, count in facts['oddities'].items():
        print(f'  {what}: {count}')
    for problem in facts['problems']:
        print(f'problem: {problem}')


def _number(count: int, what: str) -> str:
    return f'{count} {what}{"" if count == 1 else "s"}'


def options_of(given: argparse.Namespace) -> ReadOptions:
    """How the command line asks to read."""
    changes = parse_changes(given.changes)
    if given.scenario:
        load_scenario(given.scenario, given.row, changes)     # fails before anything is read
    return ReadOptions(given.scenario, given.row, changes, rules_of(given))


def inspect(given: argparse.Namespace) -> int:
    """Read all, say what is there."""
    plot = _plotter(given.plot) if given.plot else None
    reader = BagReader(given.bags, options_of(given))
    stopped = False
    try:
        for _ in reader.episodes(progress=sys.stderr.isatty()):
            pass
    except KeyboardInterrupt:
        stopped = True
        print('bag: stopped; what follows was read so far', file=sys.stderr)
    if given.json:
        print(json_text(summary_mapping(reader.summary)))
    else:
        show(reader.summary)
    if plot:
        plot(reader.summary, given.plot)
    return INTERRUPTED if stopped else 1 if reader.summary.problems else 0


def _plotter(path: Path) -> Callable[[Summary, Path], None]:
    """What draws; what is wrong with the place is said before all is read."""
    make_writable(path.parent)
    try:
        from wcpg_ros.bag_plot import plot
    except ModuleNotFoundError as missing:
        raise BagError(f"{missing}; it comes with: pip install 'wcpg_ros[pictures]'") from None
    return plot


def export(given: argparse.Namespace) -> int:
    """Read all, write it in another form; what could not be read is said, the rest is written."""
    options = options_of(given)
    reader = BagReader(given.bags, options)
    episodes = reader.episodes(progress=sys.stderr.isatty())
    try:
        if given.to == 'npz':
            count = export_npz(episodes, Path(given.out))
        else:
            count = export_minari(episodes, given.out, options.changes)
    finally:
        for problem in reader.summary.problems:
            print(f'bag: {problem}', file=sys.stderr)
    print(f'{given.out}: {_number(count, "transition")} of {_number(len(reader.summary.episodes), "episode")}')
    return 1 if reader.summary.problems else 0


def mend(given: argparse.Namespace) -> int:
    """Finish or mend a bag, for tools that ask for a whole one."""
    print(*reindex(given.bag, progress=sys.stderr.isatty()), sep='\n')
    return 0


def main(args: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog='bag', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar='COMMAND')
    reading = argparse.ArgumentParser(add_help=False)
    reading.add_argument('bags', type=Path, nargs='+', metavar='BAG', help='bags, their files, or directories of bags')
    reading.add_argument('--scenario', help='where it drove, if the bag does not say it')
    reading.add_argument('--row', default='train', help='row of the extrapolation table, likewise')
    reading.add_argument('--set', nargs='+', action='extend', default=[], metavar='NAME=VALUE', dest='changes',
                         help='change a setting of the scene, for instance layout.time=true')
    add_rules_arguments(reading)
    looking = commands.add_parser('inspect', parents=[reading], help='what is in there')
    looking.add_argument('--json', action='store_true', help='print one JSON object')
    looking.add_argument('--plot', type=Path, metavar='FILE', help='also draw it')
    looking.set_defaults(run=inspect)
    giving = commands.add_parser('export', parents=[reading], help='for other libraries')
    giving.add_argument('--to', choices=('minari', 'npz'), required=True)
    giving.add_argument('--out', required=True, help='the file, or the name of the Minari dataset')
    giving.set_defaults(run=export)
    mending = commands.add_parser('reindex', help='finish a bag whose recorder was killed, or mend a damaged one')
    mending.add_argument('bag', type=Path, metavar='BAG')
    mending.set_defaults(run=mend)
    given = parser.parse_args(args)
    try:
        return given.run(given)
    except KeyboardInterrupt:
        print('bag: stopped; nothing was written', file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError) as error:
        print(f'bag: {error}', file=sys.stderr)
        return 2


if __name__ == '__main__':
    sys.exit(main())
