"""The model cards, with what the tables measured: of the model itself, and over all training seeds of its recipe."""

from __future__ import annotations

from wcpg_ros.model_card import write_model_card
from wcpg_ros.results.context import Context, number_interval, percent, percent_interval, table_rows
from wcpg_ros.results.intervals import clopper_pearson


def write_cards(context: Context) -> None:
    """A card beside every model of ours."""
    for scenario in context.manifest.scenarios:
        for run in context.runs('ours', scenario):
            write_model_card(run.file, evaluation(context, scenario, run.seed), about=(
                f'By `make results`, on episodes of seed {context.evaluation.seed}; 95% intervals (Clopper–Pearson, '
                'bootstrap). The last two columns span the training seeds of this recipe: a model that it trains on '
                'another kind of machine differs as another seed does.'))


def evaluation(context: Context, scenario: str, seed: int) -> list[dict[str, str]]:
    """A line for each row and alpha."""
    found = []
    for row in table_rows(scenario):
        for alpha in context.evaluation.alphas:
            cells = {run.seed: context.cell(context.drive(scenario, run.file, alpha, row))
                     for run in context.runs('ours', scenario)}
            cell = cells[seed]
            rates, steps = [c.collisions / c.n for c in cells.values()], [c.steps.value for c in cells.values()]
            found.append({
                'row': row, 'α': f'{alpha:g}', 'episodes': f'{cell.n}',
                'collisions, %': percent_interval(clopper_pearson(cell.collisions, cell.n)),
                'success, %': percent(cell.successes / cell.n),
                'steps of 0.1 s': number_interval(cell.steps),
                f'collisions, %, of {len(cells)} training seeds': f'{percent(min(rates))}–{percent(max(rates))}',
                'their steps': f'{min(steps):.1f}–{max(steps):.1f}'})
    return found
