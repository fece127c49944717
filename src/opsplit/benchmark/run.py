"""Measure methods on the columns of a benchmark; every work item is seeded and kept on disk."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from opsplit._memory import peak_memory_mb
from opsplit._origin import origin
from opsplit.baselines import TRAINED
from opsplit.baselines.trained import FOLDER
from opsplit.benchmark.baselines import Outcome
from opsplit.benchmark.marks import evenly, mark
from opsplit.benchmark.methods import has_family, make_method, make_search, methods
from opsplit.benchmark.rows import Row, RowTable, Series
from opsplit.benchmark.tasks import COLUMNS, Column, columns, join, test_window
from opsplit.benchmark.trained import BATCH, TrainedModels
from opsplit.errors import OpsplitError
from opsplit.metrics import nrmse, nrmse_per_channel
from opsplit.model import Model, bundled, load_model, locate
from opsplit.parallel import Where, run_items
from opsplit.physics import get_physics
from opsplit.progress import Progress
from opsplit.trajectories import Trajectories

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
        for family in families if has_family(method) else [None]:
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
        if (family is not None) == has_family(method)
        for column, facts in named.items()
        if method not in facts.excluded
    ]


class Runner:
    """Measures cells, each model loaded once; trajectories measured before come from the cache.

    Arguments:
        cache: folder of the tables of rows.
        model: a model directory in place of the bundled models.
        baselines: folder of the trained baselines.
    """

    def __init__(
        self,
        cache: Path,
        seed: int = 0,
        device: str = "cpu",
        model: str | Path | None = None,
        baselines: Path = FOLDER,
    ) -> None:
        self.cache, self.seed, self.device, self.given = cache, seed, device, model
        self.baselines, self.trained = baselines, TrainedModels(cache, baselines)
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

    def series(self, cell: Cell, only_measured: bool = False) -> Series:
        """How the rows of a cell are called."""
        column, model = columns(cell.physics)[cell.column], self.model(cell)
        if cell.method in TRAINED:
            mark_of = self.trained.mark(cell.physics, cell.method, only_measured)
            return Series(cell.column, cell.method, "", mark_of, self.seed)
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

    def fill(
        self, cells: Iterable[Cell], where: Where | None = None, bar: Progress | None = None
    ) -> None:
        """Measure every trajectory that is missing; rows are kept as they come."""
        todo = [(cell, few) for cell in cells for few in self._missing(cell)]
        # Seconds of one item at a time are those of the whole machine.
        where = where or Where(threads=None)
        # Workers load the models that they need themselves.
        shared = self if where.here else self._fresh()
        reasons = []
        for done, outcome in enumerate(run_items(_measured, todo, shared, where), 1):
            cell, few = outcome.item
            words = f"{cell.method} {cell.family or ''} {cell.column} {few[-1] + 1}/{cell.n}"
            if outcome.value is None:
                reasons.append(f"{words}: {outcome.reason}")
                continue
            table = RowTable(self.cache, cell.physics)
            made_by = table.add_origin(_origin(self.seed, self.device))
            rows = [replace(row, origin=made_by) for row in outcome.value]
            table.append(self.series(cell), *rows)
            if cell.method in TRAINED:
                self.trained.remember(cell.physics, cell.method)
            if bar is not None:
                bar.update(done / len(todo), words)
        if reasons:
            raise OpsplitError(
                f"{len(reasons)} of {len(todo)} items were not measured; the others are kept. "
                f"{reasons[0]}"
            )

    def _fresh(self) -> Runner:
        return Runner(self.cache, self.seed, self.device, self.given, self.baselines)

    def _missing(self, cell: Cell) -> list[tuple[int, ...]]:
        """Trajectories to measure, those of trained baselines in batches."""
        by_weights = cell.method in TRAINED
        if by_weights and not self.trained.there(cell.physics, cell.method):
            return []
        kept = RowTable(self.cache, cell.physics).of(self.series(cell))
        left = [i for i in range(cell.n) if i not in kept]
        size = BATCH if by_weights else 1
        return [tuple(left[begin : begin + size]) for begin in range(0, len(left), size)]

    def record(self, cell: Cell, only_measured: bool = False) -> dict[str, Any] | None:
        """The record of a cell.

        With `only_measured` nothing is run: the record speaks of what is there, if anything.
        """
        if not only_measured:
            self.fill([cell])
        table = RowTable(self.cache, cell.physics)
        kept = table.of(self.series(cell, only_measured))
        rows = [kept[i] for i in sorted(kept) if i < cell.n]
        if not rows:
            return None
        facts = {**table.origins()[rows[-1].origin], "seed": self.seed}
        trainings = _trainings(self.model(cell))
        if cell.method in TRAINED:
            trainings = [self.trained.training(cell.physics, cell.method, only_measured)]
        return summarise(cell, rows, trainings) | facts

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
        return _row(number, outcome, observed, future, origin)

    def measure_together(self, cell: Cell, numbers: list[int], origin: str = "") -> list[Row]:
        """Trajectories of a trained baseline, forecast in one batch."""
        column, made = columns(cell.physics)[cell.column], []
        model = self.trained.load(cell.physics, cell.method)
        windows = self.cache / "windows"
        pairs = [test_window(column, number, self.seed, windows) for number in numbers]
        began = time.perf_counter()
        frames = model.forecast(join([o for o, _ in pairs]), column.horizon, self.seed)
        seconds = (time.perf_counter() - began) / len(numbers)
        for number, one, (observed, future) in zip(numbers, frames, pairs, strict=True):
            outcome = Outcome(one, {}, None, 0, seconds)
            made.append(_row(number, outcome, observed, future, origin))
        return made


def _row(
    number: int, outcome: Outcome, observed: Trajectories, future: Trajectories, origin: str
) -> Row:
    """One trajectory, measured."""
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


def _measured(runner: Runner, item: tuple[Cell, tuple[int, ...]]) -> list[Row]:
    """Trajectories of a cell, in a worker."""
    cell, numbers = item
    if cell.method in TRAINED:
        return runner.measure_together(cell, list(numbers))
    return [runner.measure(cell, number) for number in numbers]


def _origin(seed: int, device: str) -> dict[str, Any]:
    """Command, commit and hardware; the seed stands in every row."""
    return {k: v for k, v in origin(seed, device).items() if k != "seed"}


def summarise(
    cell: Cell, rows: list[Row], trainings: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """The numbers of a cell in the tables; `trainings` made its model."""
    column: Column = columns(cell.physics)[cell.column]
    errors = torch.tensor([row.nrmse for row in rows], dtype=torch.float64)
    # A forecast that blows up is as good as none: forecasting zero scores one.
    blown = ~(errors <= BLOWN_UP)
    errors[blown] = 1.0

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    channels = rows[0].channel_errors
    fits = [row.fit_error for row in rows if row.fit_error is not None]
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
