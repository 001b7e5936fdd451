"""One sentence of the paper's, held against our figures somewhere; and what all such sentences are told with."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from wcpg_ros.results.context import Cell, Context, paper_tables, percent, table_rows, with_row
from wcpg_ros.results.tables import Column

SHIFTED_ONLY = 'Off the `train` row, '


@dataclass(frozen=True)
class Claim:
    """A measurement with a threshold. `why` is our best explanation, printed where the claim did not come out."""

    claim: str
    where: str
    found: str
    holds: bool
    why: str = ''
    later: bool = False     # its threshold was chosen, or made stricter, after figures had been seen


def cells(context: Context, column: Column, row: str) -> list[Cell]:
    """Of every training seed."""
    return [context.cell(with_row(drive, row)) for drive in column.drives.values()]


def rates_by_seed(context: Context, column: Column, scenario: str, outcome: str = 'collisions'
                  ) -> dict[str, list[float]]:
    """By row, a share for each training seed."""
    return {row: [getattr(cell, outcome) / cell.n for cell in cells(context, column, row)]
            for row in table_rows(scenario)}


def rates(context: Context, column: Column, scenario: str, outcome: str = 'collisions') -> dict[str, float]:
    """By row, the mean over training seeds."""
    return {row: float(np.mean(shares))
            for row, shares in rates_by_seed(context, column, scenario, outcome).items()}


def paper_figures(scenario: str, column: Column, part: int) -> dict[str, int]:
    """The paper's figures for a column in %, by row: 0 collisions, 1 success."""
    assert column.paper is not None
    return {row: found[column.paper][part] for row, found in paper_tables()[scenario].items()}


def span(shares: Collection[float]) -> str:
    """The lowest and the highest, in %."""
    return '–'.join(dict.fromkeys([percent(min(shares)), percent(max(shares))]))


def whole_span(percents: Collection[int]) -> str:
    """The paper's lowest and highest."""
    return '–'.join(dict.fromkeys([str(min(percents)), str(max(percents))]))
