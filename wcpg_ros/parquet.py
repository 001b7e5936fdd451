"""Rows of episodes as Parquet: compact, typed, read by everybody's tools. Outcomes are words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sim_node.settings import SettingsError
from sim_node.state import OUTCOMES


def arrow() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise SettingsError("Parquet needs pyarrow: pip install 'wcpg_ros[results]'") from None
    return pyarrow


def write_parquet(rows: np.ndarray, file: Any, notes: dict[str, str] | None = None) -> None:
    """Write structured rows to a path or an open file; `notes` travel in its metadata."""
    library = arrow()
    columns = {name: library.array(rows[name]) for name in rows.dtype.names or ()}
    columns['outcome'] = library.DictionaryArray.from_arrays(rows['outcome'], OUTCOMES)
    library.parquet.write_table(library.table(columns, metadata=notes), file, compression='zstd')


def is_whole(path: Path, rows: int) -> bool:
    """Whether a file that `write_parquet` wrote is there with so many rows, to its end."""
    library = arrow()
    try:
        return library.parquet.read_metadata(path).num_rows == rows
    except (OSError, library.ArrowException):
        return False


def read_parquet(path: Path) -> np.ndarray:
    """The rows of a file that `write_parquet` wrote."""
    library = arrow()
    try:
        table = library.parquet.read_table(path)
    except (OSError, library.ArrowException) as error:
        raise SettingsError(f'{path}: damaged ({" ".join(str(error).split())}); remove it, and give the same '
                            'command again') from None
    arrays = {name: table[name].combine_chunks() for name in table.column_names}
    words = {word: np.int8(code) for code, word in enumerate(OUTCOMES)}
    columns = {name: np.array([words[word] for word in array.to_pylist()], np.int8) if name == 'outcome'
               else array.to_numpy() for name, array in arrays.items()}
    rows = np.empty(table.num_rows, [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        rows[name] = column
    return rows
