"""Rows that are on disk the moment they are known, so that a run can go on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from opsplit.errors import OpsplitError

Row = Mapping[str, Any]


class Journal:
    """A file of JSON lines: the settings of a run, then one row after the other.

    Usage: `with Journal(path, settings) as journal: journal.append([row])`. A line that was cut
    short is removed. The rows of a run with other settings are refused.

    Arguments:
        path: the file.
        settings: everything that decides the rows.
        again: begin anew.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], again: bool = False) -> None:
        self.path, self.settings = path, dict(settings)
        if again:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Journal:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._check()
            self._stream = open(self.path, "a", encoding="utf-8")
        except OSError as reason:
            raise OpsplitError(f"Cannot write {self.path}: {reason.strerror}.") from None
        if self._stream.tell() == 0:
            self.append([{"settings": self.settings}])
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
        text = "".join(json.dumps(dict(row), default=str) + "\n" for row in rows)
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as reason:
            raise OpsplitError(
                f"Cannot write {self.path}: {reason.strerror}. What is there is kept."
            ) from None

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows that are there."""
        with open(self.path, encoding="utf-8", errors="replace") as stream:
            next(stream, "")
            for line in stream:
                try:
                    row = json.loads(line)
                except ValueError:
                    continue
                if isinstance(row, dict):
                    yield row

    def _check(self) -> None:
        """Refuse the rows of another run; cut off what was not written to its end."""
        if not self.path.exists():
            return
        with open(self.path, "rb+") as stream:
            size = stream.seek(0, os.SEEK_END)
            tail = min(size, 2**20)
            stream.seek(size - tail)
            whole = size - tail + stream.read().rfind(b"\n") + 1
            stream.truncate(whole)
            stream.seek(0)
            first = stream.readline()
        if not first:
            return
        try:
            held = json.loads(first)["settings"]
        except (ValueError, KeyError, TypeError):
            raise OpsplitError(
                f"{self.path} was not written by opsplit; give --out another folder."
            ) from None
        mine = json.loads(json.dumps(self.settings, default=str))
        other = [f"{k} {held.get(k)}, not {v}" for k, v in mine.items() if held.get(k) != v]
        if other:
            raise OpsplitError(
                f"{self.path.parent} holds the rows of a run with other settings "
                f"({'; '.join(other)[:300]}); choose another --out, or --force to begin anew."
            )
