"""log.csv and TensorBoard: one row of numbers per validation.

| column                              | is                                                                        |
|-------------------------------------|---------------------------------------------------------------------------|
| critic_loss                         | Eq. 8 (or the loss chosen), mean per update since the last row            |
| actor_value                         | Eq. 9 at the actor's actions, in returns: what Eq. 12 climbs              |
| train_collision, train_success      | shares of the training episodes since the last row, exploration included  |
| collision@a, success@a, timeout@a   | shares of validation episodes driven at alpha = a, without exploration    |
| cvar@a                              | Eq. 4 on those episodes' returns, at level a                              |
| predicted_mean@a, realised_mean@a   | Q at the first decision, and the mean discounted return that followed     |
| predicted_std@a, realised_std@a     | sqrt(Y) there, and the spread around Q that followed: equal if calibrated |
| score, best_score                   | mean of CVaR over the alphas, see validation; best.safetensors has most   |
"""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

from tensorboard.summary import Writer

from wcpg_ros.run_directory import RunDirectory
from wcpg_ros.validation import LevelReport


def level_columns(reports: list[LevelReport]) -> dict[str, float]:
    """`collision@0.1` and so on, for every level."""
    return {f'{name}@{report.alpha:g}': value for report in reports
            for name, value in dataclasses.asdict(report).items() if name != 'alpha'}


class TrainingLog:
    """Appends rows; a resumed run first drops those written after its checkpoint."""

    def __init__(self, run: RunDirectory, rows: int) -> None:
        self._path = run.log
        self.rows = rows
        if run.log.exists():
            _truncate(run.log, rows)
        self._writer = Writer(str(run.tensorboard))

    def write(self, row: dict[str, float]) -> None:
        """One row; TensorBoard's clock is the number of episodes driven, or of updates before the first."""
        with open(self._path, 'a', newline='') as file:
            writer = csv.DictWriter(file, list(row))
            if not file.tell():
                writer.writeheader()
            writer.writerow({name: f'{value:.6g}' if isinstance(value, float) else value
                             for name, value in row.items()})
        self.rows += 1
        for name, value in row.items():
            self._writer.add_scalar(name.replace('@', '/alpha_'), value, step=int(row['episodes'] or row['updates']))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def _truncate(path: Path, rows: int) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(''.join(lines[:rows + 1] if rows else []))
