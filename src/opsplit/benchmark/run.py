"""Measure methods on the columns of a benchmark; every work item is seeded and kept on disk."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from opsplit._files import origin, peak_memory_mb
from opsplit.benchmark.baselines import BASELINES
from opsplit.benchmark.marks import evenly, mark
from opsplit.benchmark.methods import make_method, make_search, methods
from opsplit.benchmark.rows import Row, RowTable, Series
from opsplit.benchmark.tasks import COLUMNS, Column, columns, test_window
from opsplit.metrics import nrmse, nrmse_per_channel
from opsplit.model import Model, bundled, load_model, locate
from opsplit.physics import get_physics
from opsplit.progress import Progress

BLOWN_UP = 10.0
"""NRMSE of a forecast that has blown up, although its numbers may still be finite."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table: a method of a family on a column, so many trajectories."""

    physics: str
    column: str
    method: str
    family: str | None
    n: int


def cells(
    physics: str,
    chosen_methods: Iterable[str],
    families: Iterable[str],
    n: int,
    n_unet: int,
    chosen: Iterable[str],
) -> list[Cell]:
    """The cells of a run, cheap ones first."""
    out = []
    for method in chosen_methods:
        for family in [None] if method in BASELINES else families:
            count = n_unet if family == "unet" else n
            out += [
                Cell(physics, name, method, family, count)
                for name in chosen
                if method not in columns(physics)[name].excluded
            ]
    return sorted(out, key=lambda c: (c.family == "unet", c.method in ("uniform", "beam")))


def known_cells(n: int) -> list[Cell]:
    """Every cell that the bundled models make possible, in the order of the tables."""
    held = bundled()
    return [
        Cell(physics, column, method, family, n)
        for physics, named in COLUMNS.items()
        for family in (None, *held.get(physics, []))
        for method in methods()
        if (family is None) == (method in BASELINES)
        for column, facts in named.items()
        if method not in facts.excluded
    ]


class Runner:
    """Measures cells, each model loaded once; trajectories measured before come from the cache.

    Arguments:
        cache: folder of the tables of rows.
        model: a model directory in place of the bundled models.
    """

    def __init__(
        self,
        cache: Path,
        seed: int = 0,
        device: str = "cpu",
        model: str | Path | None = None,
    ) -> None:
        self.cache, self.seed, self.device, self.given = cache, seed, device, model
        self._models: dict[tuple[str, str], Model] = {}
        self._marks: dict[tuple[str, str, str, str], str] = {}

    def model(self, cell: Cell) -> Model | None:
        """The model of a cell, for methods that have one."""
        if cell.family is None:
            return None
        key = (cell.physics, cell.family)
        if key not in self._models:
            folder = locate(self.given or cell.physics, None if self.given else cell.family)
            self._models[key] = load_model(folder, cell.family)
        return self._models[key]

    def series(self, cell: Cell) -> Series:
        """How the rows of a cell are called."""
        column, model = columns(cell.physics)[cell.column], self.model(cell)
        if model is None or cell.family is None:
            return Series(cell.column, cell.method, "", "none", self.seed)
        direct = cell.method == "direct"
        search = (
            None if direct else make_search(cell.method, model, column.settings.get(cell.method))
        )
        key = (cell.physics, cell.family, cell.method, repr(search))
        if key not in self._marks:
            self._marks[key] = mark(model, column, search)
        return Series(cell.column, cell.method, cell.family, self._marks[key], self.seed)

    def record(
        self, cell: Cell, bar: Progress | None = None, only_measured: bool = False
    ) -> dict[str, Any] | None:
        """The record of a cell.

        With `only_measured` nothing is run: the record speaks of what is there, if anything.
        """
        table, series = RowTable(self.cache, cell.physics), self.series(cell)
        kept = table.of(series)
        missing = [] if only_measured else [i for i in range(cell.n) if i not in kept]
        if missing:
            made_by = table.add_origin(_origin(self.seed, self.device))
            for done, i in enumerate(missing):
                words = f"{cell.method} {cell.family or ''} {cell.column}"
                if bar is not None:
                    bar.update(done / len(missing), f"{words} {i + 1}/{cell.n}")
                kept[i] = self.measure(cell, i, made_by)
                table.append(series, kept[i])
        rows = [kept[i] for i in sorted(kept) if i < cell.n]
        if not rows:
            return None
        facts = {**table.origins()[rows[-1].origin], "seed": self.seed}
        return summarise(cell, rows, self.model(cell)) | facts

    def measure(self, cell: Cell, number: int, origin: str = "") -> Row:
        """One trajectory of a cell, measured now."""
        column, model = columns(cell.physics)[cell.column], self.model(cell)
        run = make_method(
            cell.method,
            get_physics(cell.physics),
            model,
            None if model is None else evenly(model.dictionary, column.operators),
            self.device,
            column.settings.get(cell.method),
        )
        observed, future = test_window(column, number, self.seed, self.cache / "windows")
        outcome = run(observed, column.horizon, self.seed + number)
        frames = outcome.frames[None]
        true = {name: float(v[0]) for name, v in observed.coefficients.items()}
        channels = nrmse_per_channel(frames, future.data)[0].tolist()
        return Row(
            number,
            float(nrmse(frames, future.data)),
            outcome.fit_error,
            outcome.evaluations,
            outcome.seconds,
            peak_memory_mb(),
            dict(zip(observed.channels, channels, strict=True)),
            {k: abs(v - true[k]) for k, v in outcome.coefficients.items() if k in true},
            origin,
        )


def _origin(seed: int, device: str) -> dict[str, Any]:
    """Command, commit and hardware; the seed stands in every row."""
    return {k: v for k, v in origin(seed, device).items() if k != "seed"}


def summarise(cell: Cell, rows: list[Row], model: Model | None = None) -> dict[str, Any]:
    """The numbers of a cell in the tables."""
    column: Column = columns(cell.physics)[cell.column]
    errors = torch.tensor([row.nrmse for row in rows], dtype=torch.float64)
    # A forecast that blows up is as good as none: forecasting zero scores one.
    blown = ~(errors <= BLOWN_UP)
    errors[blown] = 1.0

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    channels = rows[0].channel_errors
    fits = [row.fit_error for row in rows if row.fit_error is not None]
    trainings = _trainings(model)
    return {
        "physics": cell.physics,
        "column": cell.column,
        "method": cell.method,
        "family": cell.family,
        "nrmse": float(errors.mean()),
        "standard_error": float(errors.std() / len(rows) ** 0.5) if len(rows) > 1 else None,
        "median": float(errors.median()),
        "nrmse_per_channel": {
            name: mean([row.channel_errors[name] for row in rows])
            for name in channels
            if len(channels) > 1
        },
        "largest": float(errors.max()),
        "n": len(rows),
        "diverged": int(blown.sum()),
        "errors": {
            str(row.trajectory): float(f"{e:.5g}")
            for row, e in zip(rows, errors.tolist(), strict=True)
        },
        "published": column.published.get(cell.method),
        "coefficient_mae": {
            k: mean([row.coefficient_errors[k] for row in rows]) for k in rows[0].coefficient_errors
        },
        "fit_error": mean(fits),
        "seconds_per_trajectory": mean([row.seconds for row in rows]),
        "operator_evaluations": mean([float(row.evaluations) for row in rows]),
        "peak_memory_mb": max(row.peak_memory_mb or 0 for row in rows) or None,
        "training_minutes": sum(run.get("minutes", 0) for run in trainings) or None,
        "training_command": "; ".join(run.get("command", "unknown") for run in trainings) or None,
    }


def _trainings(model: Model | None) -> list[dict[str, Any]]:
    """Every training a model went through, the first one first."""
    if model is None or "command" not in model.metrics:
        return []
    return [*model.metrics.get("before", []), model.metrics]
