"""A picture of what bags hold: how episodes ended, how long they took, what they paid, at which risk levels."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

from wcpg_ros.bag_reader import Summary

matplotlib.use('Agg')
from matplotlib import pyplot as plt

COLOURS = {'success': '#009e73', 'collision': '#d55e00', 'timeout': '#e69f00', 'no_command': '#cc79a7',
           'cut': '#999999', 'unknown': '#555555'}


def plot(summary: Summary, path: Path) -> None:
    """Draw a summary into a file."""
    rows = summary.episodes
    figure, ((ends, durations), (returns, alphas)) = plt.subplots(2, 2, figsize=(9.0, 6.0), layout='constrained')
    figure.suptitle(f'{len(rows)} episodes, {summary.transitions} transitions, '
                    f'{sum(row.gaps for row in rows)} decisions lost')
    present = [outcome for outcome in COLOURS if outcome in summary.outcomes]
    colours = [COLOURS[outcome] for outcome in present]
    bars = ends.bar(present, [summary.outcomes[outcome] for outcome in present], color=colours)
    ends.bar_label(bars)
    ends.margins(y=0.12)
    ends.set(title='How they ended', ylabel='episodes')
    for axes, attribute, label in ((durations, 'seconds', 'duration, s'), (returns, 'episode_return', 'return')):
        if rows:
            groups = [[getattr(row, attribute) for row in rows if row.outcome == outcome] for outcome in present]
            axes.hist(groups, bins=30, stacked=True, color=colours, label=present)
        axes.set(xlabel=label, ylabel='episodes')
    durations.set_title('How long they took')
    returns.set_title('What they paid')
    known = [row for row in rows if row.alpha is not None]
    alphas.set(title='Risk level and return', xlabel='alpha', ylabel='return', xlim=(0, 1))
    for outcome in present:
        points = np.array([(row.alpha, row.episode_return) for row in known if row.outcome == outcome])
        if len(points):
            alphas.scatter(*points.T, s=8, color=COLOURS[outcome], label=outcome)
    if not known:
        alphas.text(0.5, 0.5, 'no alpha recorded', ha='center', va='center', transform=alphas.transAxes)
    figure.savefig(path, dpi=120)
    plt.close(figure)
