"""Measured trajectories on disk: a table of rows and a table of origins per equation.

`PHYSICS.csv` has a row for every method, model, seed and trajectory; `PHYSICS.origins.json` says
once which command, commit and hardware measured the rows that name it. Rows are appended whole,
and several processes may append to one file. A line that was cut short is left out.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from opsplit._files import read_json, regular, write_json, write_text
from opsplit.errors import OpsplitError
from opsplit.physics import PHYSICS

ERROR, CHANNEL = "error ", "nrmse "
"""Before the name of a coefficient and of a channel, in the head of the table."""
NAME = 10
ORIGIN = re.compile(f"[0-9a-f]{{{NAME}}}")
"""The name of an origin."""


@dataclass(frozen=True)
class Series:
    """What the trajectories of one cell of a table have in common."""

    column: str
    method: str
    family: str
    """Of the operators; empty for methods without a model."""
    mark: str
    """Of the model and the search; see `opsplit.benchmark.marks`."""
    seed: int


@dataclass(frozen=True)
class Row:
    """One trajectory, measured."""

    trajectory: int
    nrmse: float
    fit_error: float | None
    evaluations: int
    seconds: float
    peak_memory_mb: float | None
    channel_errors: dict[str, float]
    """NRMSE of every channel."""
    coefficient_errors: dict[str, float]
    """Absolute errors."""
    origin: str
    """Which entry of the table of origins."""


_SERIES = [field.name for field in fields(Series)]
_NUMBERS = ["trajectory", "nrmse", "fit_error", "evaluations", "seconds", "peak_memory_mb"]


class RowTable:
    """The rows of one equation in a folder."""

    def __init__(self, folder: Path, physics: str) -> None:
        equation = PHYSICS[physics]
        self.file = folder / f"{physics}.csv"
        self.origins_file = folder / f"{physics}.origins.json"
        self.channels, self.coefficients = equation.channels, tuple(equation.terms)
        # The origin stands last: a line that ends in a whole name was not cut short.
        self.head = [
            *_SERIES,
            *_NUMBERS,
            *(CHANNEL + name for name in self.channels),
            *(ERROR + name for name in self.coefficients),
            "origin",
        ]

    def all(self) -> dict[Series, dict[int, Row]]:
        """Every row by series and trajectory; of two with the same key the later one counts."""
        if not self.file.exists():
            return {}
        facts = regular(self.file)
        return _read(self.file, facts.st_mtime_ns, facts.st_size, tuple(self.head))

    def of(self, series: Series) -> dict[int, Row]:
        """The rows of a series by trajectory."""
        return dict(self.all().get(series, {}))

    def origins(self) -> dict[str, dict[str, Any]]:
        found = read_json(self.origins_file) if self.origins_file.exists() else {}
        if not isinstance(found, dict):
            raise OpsplitError(
                f"{self.origins_file} is not a table of origins; give --cache another folder."
            )
        return found

    def add_origin(self, origin: dict[str, Any]) -> str:
        """The name of an origin, which is kept unless it is there already."""
        name = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:NAME]
        with self._alone():
            held = self.origins()
            if name not in held:
                write_json(self.origins_file, {**held, name: origin})
        return name

    def append(self, series: Series, *rows: Row) -> None:
        """Add rows at the end of the file, whole or not at all."""
        text = "".join(self._line(series, row) for row in rows)
        with self._alone(), open(self.file, "ab+", buffering=0) as stream:
            size = stream.seek(0, os.SEEK_END)
            if size == 0:
                text = _csv(self.head) + text
            else:
                stream.seek(-1, os.SEEK_END)
                # Whatever was cut short stays a line of its own.
                text = text if stream.read(1) == b"\n" else "\n" + text
            stream.write(text.encode())

    def replace(self, rows: Mapping[Series, Mapping[int, Row]]) -> None:
        """Write these rows in place of all that are there."""
        lines = [self._line(series, row) for series, held in rows.items() for row in held.values()]
        with self._alone():
            write_text(self.file, _csv(self.head) + "".join(lines))

    def _line(self, series: Series, row: Row) -> str:
        numbers = [getattr(row, name) for name in _NUMBERS]
        channels = [row.channel_errors.get(name) for name in self.channels]
        errors = [row.coefficient_errors.get(name) for name in self.coefficients]
        cells = [*astuple(series), *numbers, *channels, *errors, row.origin]
        return _csv(["" if cell is None else repr(cell) if isinstance(cell, float) else str(cell)
                     for cell in cells])  # fmt: skip

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Other processes wait, where the system can lock a folder."""
        handle = None
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(ImportError, PermissionError):
                import fcntl

                handle = os.open(self.file.parent, os.O_RDONLY)
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        except OSError as reason:
            words = reason.strerror or reason
            raise OpsplitError(f"Cannot write {self.file}: {words}.") from None
        finally:
            if handle is not None:
                os.close(handle)


def _csv(cells: list[str]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow(cells)
    return stream.getvalue()


@lru_cache(maxsize=8)
def _read(file: Path, time: int, size: int, head: tuple[str, ...]) -> dict[Series, dict[int, Row]]:
    """The rows of a file as it was at that time."""
    lines = list(csv.reader(file.read_text("utf-8", "replace").splitlines()))
    if lines and tuple(lines[0]) != head:
        raise OpsplitError(
            f"{file} does not have the columns of this equation; give --cache another folder."
        )
    found: dict[Series, dict[int, Row]] = {}
    for line in lines[1:]:
        if len(line) != len(head) or not ORIGIN.fullmatch(line[-1]):
            continue
        with contextlib.suppress(ValueError):
            series, row = _parsed(dict(zip(head, line, strict=True)))
            found.setdefault(series, {})[row.trajectory] = row
    return found


def _parsed(cells: dict[str, str]) -> tuple[Series, Row]:
    def number(text: str) -> float | None:
        return float(text) if text else None

    def named(prefix: str) -> dict[str, float]:
        return {k.removeprefix(prefix): float(v) for k, v in cells.items()
                if k.startswith(prefix) and v}  # fmt: skip

    words = {name: cells[name] for name in _SERIES}
    series = Series(**{**words, "seed": int(words["seed"])})  # type: ignore[arg-type]
    return series, Row(
        int(cells["trajectory"]),
        float(cells["nrmse"]),
        number(cells["fit_error"]),
        int(cells["evaluations"]),
        float(cells["seconds"]),
        number(cells["peak_memory_mb"]),
        named(CHANNEL),
        named(ERROR),
        cells["origin"],
    )
