"""How charts look here: Okabe and Ito's colours, told apart by colour-blind readers too, legible at half a page."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, RED, BLACK, GREY = (
    '#0072B2', '#E69F00', '#009E73', '#CC79A7', '#56B4E9', '#F0E442', '#D55E00', '#000000', '#999999')
# A colour and a marker each, so that neither is needed to tell them apart.
BASELINE_STYLES = {'ddpg': (RED, 's'), 'ppo': (PURPLE, 'v'), 'ppo_long': (PURPLE, '^'), 'c51': (GREEN, 'D'),
                   'd4pg': (ORANGE, 'P')}
HALO = withStroke(linewidth=2.5, foreground='white')     # around words that stand on marks
COLLISION_FLOOR = 0.015    # %, where the charts begin; nothing found is drawn there
TICKS = (0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure in inches and its axes [rows, columns]."""
    made = Figure(figsize=(width, height), layout='constrained')
    axes = made.subplots(rows, columns, squeeze=False, **options)
    for each in axes.flat:
        each.spines[['top', 'right']].set_visible(False)
        each.grid(color='#DDDDDD', linewidth=0.6)
        each.set_axisbelow(True)
    return made, axes


def legend_below(made: Figure, axes: Any, columns: int) -> None:
    """One legend for all, where it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    made.legend(unique.values(), unique.keys(), loc='outside lower center', ncols=columns, fontsize=9, frameon=False)


def decisions_axis(axes: Any) -> None:
    """Decisions by powers of ten."""
    axes.set_xscale('log')
    axes.set_xticks([1e4, 3e4, 1e5, 3e5, 1e6, 3e6], labels=['10k', '30k', '100k', '300k', '1M', '3M'])
    axes.minorticks_off()


def collision_axis(axes: Any) -> None:
    """Collisions in %, by powers of ten, with a place for none."""
    axes.set_yscale('log')
    axes.set_ylim(COLLISION_FLOOR * 0.8, 120)
    axes.set_yticks([COLLISION_FLOOR, *TICKS], labels=['none', *(f'{tick:g}' for tick in TICKS)])
    axes.axhspan(COLLISION_FLOOR * 0.8, COLLISION_FLOOR * 1.25, color='#EEEEEE', zorder=0)
    axes.minorticks_off()


def collision_percent(rate: float) -> float:
    """Where a rate is drawn."""
    return max(100 * rate, COLLISION_FLOOR)


def save(made: Figure, path: Any) -> None:
    """As PNG, the same bytes for the same data."""
    made.savefig(path, dpi=130, metadata={'Software': None})
