"""Rows that are on disk the moment they are known, so that a run can go on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from opsplit._files import regular, write_text
from opsplit._text import to_json
from opsplit.errors import OpsplitError

Row = Mapping[str, Any]


class Journal:
    """A file of JSON lines, one row after the other, in a folder that the run owns.

    Usage: `with Journal(path) as journal: journal.append([row])`. The rows that stay begin a new
    file in the place of the old one: a line that was cut short is gone, and a link that stood there
    is not followed.

    Arguments:
        path: the file.
        again: begin anew.
        keep: whether a row that is there stays (default: all do).
    """

    def __init__(
        self, path: Path, again: bool = False, keep: Callable[[Row], bool] | None = None
    ) -> None:
        self.path, self.again, self.keep = path, again, keep

    def __enter__(self) -> Journal:
        try:
            there = self.rows() if self.path.exists() and not self.again else iter(())
            kept = [row for row in there if self.keep is None or self.keep(row)]
            write_text(self.path, _lines(kept))
            self._stream = open(self.path, "ab")
        except OSError as reason:
            raise OpsplitError(f"Cannot write {self.path}: {reason.strerror}.") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()

    def append(self, rows: Iterable[Row]) -> None:
        """Write rows, each as one line."""
        try:
            self._stream.write(_lines(rows).encode())
            self._stream.flush()
        except OSError as reason:
            raise OpsplitError(
                f"Cannot write {self.path}: {reason.strerror}. What is there is kept."
            ) from None

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows that are there and whole."""
        regular(self.path)
        with open(self.path, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                try:
                    row = json.loads(line) if line.endswith("\n") else None
                except (ValueError, RecursionError):
                    continue
                if isinstance(row, dict):
                    yield row


def _lines(rows: Iterable[Row]) -> str:
    return "".join(to_json(dict(row)) + "\n" for row in rows)
