"""Rows that are on disk the moment they are known, so that a run can go on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from opsplit._files import write_text
from opsplit.errors import OpsplitError

Row = Mapping[str, Any]


class Journal:
    """A file of JSON lines, one row after the other, in a folder that the run owns.

    Usage: `with Journal(path) as journal: journal.append([row])`. A line that was cut short is
    removed.

    Arguments:
        path: the file.
        again: begin anew.
        keep: whether a row that is there stays (default: all do).
    """

    def __init__(
        self, path: Path, again: bool = False, keep: Callable[[Row], bool] | None = None
    ) -> None:
        self.path, self.keep = path, keep
        if again:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._sort_out()
            self._stream = open(self.path, "a+b")
            self._cut()
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
        """All rows that are there."""
        with open(self.path, encoding="utf-8", errors="replace") as stream:
            for line in stream:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    yield row

    def _sort_out(self) -> None:
        """Put a file without the rows that do not stay in the place of this one."""
        if self.keep is not None and self.path.exists():
            every = list(self.rows())
            kept = [row for row in every if self.keep(row)]
            if len(kept) < len(every):
                write_text(self.path, _lines(kept))

    def _cut(self) -> None:
        """Cut off the line that was not written to its end."""
        self._stream.seek(0)
        whole = 0
        for line in self._stream:
            whole += len(line) if line.endswith(b"\n") else 0
        self._stream.truncate(whole)


def _lines(rows: Iterable[Row]) -> str:
    return "".join(json.dumps(dict(row), default=str) + "\n" for row in rows)
