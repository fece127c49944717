"""One table of rows: Parquet where pyarrow is installed, else CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opsplit._files import atomic, write_text
from opsplit._text import cell, printable


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every name that a row has, in the order of their appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def write_table(folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Write `table.parquet` or `table.csv`; the path of the file."""
    names = columns_of(rows)
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(map(cell, names))
        writer.writerows([cell(row.get(name)) for name in names] for row in rows)
        write_text(folder / "table.csv", stream.getvalue())
        return folder / "table.csv"
    # Names of files may hold bytes that no text has.
    columns = {printable(name): [_shown(row.get(name)) for row in rows] for name in names}
    with atomic(folder / "table.parquet") as partial:
        parquet.write_table(pyarrow.table(columns), partial)
    return folder / "table.parquet"


def _shown(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value
