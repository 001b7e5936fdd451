"""A part of a Markdown file that a command makes: what stands between the lines of its two marks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sim_node.settings import check
from wcpg_ros.model_file import write_atomically


@dataclass(frozen=True)
class MarkedText:
    """The part of this name in a file. A SettingsError where the file does not have it."""

    path: Path
    name: str

    def __post_init__(self) -> None:
        lines = self.path.read_text().splitlines() if self.path.is_file() else []
        check({self._begin, self._end} <= set(lines), str(self.path),
              f'is no file with the lines {self._begin} and {self._end}')

    @property
    def _begin(self) -> str:
        return f'<!-- {self.name}: begin -->'

    @property
    def _end(self) -> str:
        return f'<!-- {self.name}: end -->'

    def replace(self, text: str) -> None:
        """Put this there, and leave the rest as it is."""
        page = self.path.read_text()
        before, after = page.split(self._begin)[0], page.split(self._end)[1]
        write_atomically(self.path, f'{before}{self._begin}\n{text}\n{self._end}{after}'.encode())
