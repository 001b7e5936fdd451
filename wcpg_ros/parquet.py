"""Rows of episodes as Parquet: compact, typed, read by everybody's tools. Outcomes are words."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from sim_node.settings import SettingsError
from sim_node.state import OUTCOMES

_CHECKSUM = 'sha256'     # the note


def arrow() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise SettingsError("Parquet needs pyarrow: pip install 'wcpg_ros[results]'") from None
    return pyarrow


def write_parquet(rows: np.ndarray, file: Any, notes: dict[str, str] | None = None) -> None:
    """Write structured rows to a path or an open file; `notes` travel in its metadata, with a checksum of the rows."""
    library = arrow()
    columns = {name: library.array(rows[name]) for name in rows.dtype.names or ()}
    columns['outcome'] = library.DictionaryArray.from_arrays(rows['outcome'], OUTCOMES)
    library.parquet.write_table(library.table(columns, metadata={**(notes or {}), _CHECKSUM: _checksum(rows)}), file,
                                compression='zstd')


def is_whole(path: Path, rows: int, notes: dict[str, str]) -> bool:
    """Whether a file that `write_parquet` wrote is there with so many rows, to its end, and with these notes."""
    library = arrow()
    try:
        found = library.parquet.read_metadata(path)
    except (OSError, library.ArrowException):
        return False
    told = found.metadata or {}
    return found.num_rows == rows and all(told.get(name.encode()) == note.encode() for name, note in notes.items())


def _checksum(rows: np.ndarray) -> str:
    """Of every column."""
    digest = hashlib.sha256()
    for name in rows.dtype.names or ():
        digest.update(f'{name} {rows.dtype[name]} '.encode() + rows[name].tobytes())
    return digest.hexdigest()


def read_parquet(path: Path) -> np.ndarray:
    """The rows of a file that `write_parquet` wrote."""
    library = arrow()
    try:
        table = library.parquet.read_table(path)
    except (OSError, library.ArrowException) as error:
        raise _damaged(path, ' '.join(str(error).split())) from None
    arrays = {name: table[name].combine_chunks() for name in table.column_names}
    words = {word: np.int8(code) for code, word in enumerate(OUTCOMES)}
    try:
        columns = {name: np.array([words[word] for word in array.to_pylist()], np.int8) if name == 'outcome'
                   else array.to_numpy() for name, array in arrays.items()}
    except (KeyError, library.ArrowException) as error:
        raise _damaged(path, str(error)) from None
    rows = np.empty(table.num_rows, [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        rows[name] = column
    if (table.schema.metadata or {}).get(_CHECKSUM.encode()) != _checksum(rows).encode():
        raise _damaged(path, 'its rows do not match its checksum')
    return rows


def _damaged(path: Path, why: str) -> SettingsError:
    return SettingsError(f'{path}: damaged ({why}); remove it, and give the same command again')
