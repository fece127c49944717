"""Calibrate a model's intervals on fresh trajectories, and measure what they cover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsplit.benchmark.tasks import columns
from opsplit.benchmark.varied import varied_window
from opsplit.calibration import Calibration, conformal_quantiles
from opsplit.errors import OpsplitError, no_warnings
from opsplit.model import Model
from opsplit.parallel import HERE, Where, run_items
from opsplit.predict.estimator import OperatorSplitter
from opsplit.progress import Progress
from opsplit.search import Strategy, get_search


@dataclass(frozen=True)
class Seen:
    """One trajectory: how large its errors were, in units of what the search expected."""

    column: str
    forecast: Tensor
    """`(time, channel, *space)`"""
    coefficients: dict[str, float]
    """Of the terms that were found; that a term is absent is no estimate."""
    kind: str = ""
    """The kind of its initial field."""


def scores(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    bar: Progress | None = None,
    where: Where = HERE,
) -> list[Seen]:
    """Errors over expected errors on `n` varied trajectories of every test column."""
    items = [(name, i) for name in columns(model.config.physics) for i in range(n)]
    found: dict[tuple[str, int], Seen] = {}
    for outcome in run_items(_seen, items, (model, search, seed), where):
        if outcome.value is None:
            name, i = outcome.item
            raise OpsplitError(f"Trajectory {i} of {name} was not measured. {outcome.reason}")
        found[outcome.item] = outcome.value
        if bar is not None:
            bar.update(len(found) / len(items), f"{len(found)} of {len(items)} trajectories")
    # In a fixed order, so that sums do not depend on which was finished first.
    return [found[item] for item in items]


def _seen(shared: tuple[Model, str | Strategy, int], item: tuple[str, int]) -> Seen:
    """One trajectory of a column, fitted and compared."""
    (model, search, seed), (name, i) = shared, item
    column = columns(model.config.physics)[name]
    observed, future, kind = varied_window(column, i, seed)
    splitter = OperatorSplitter(model, search)
    with no_warnings():
        splitter.fit(observed.data[0], observed.dt, observed.grid.extent)
    found = splitter.forecast(column.horizon, deviation=True)
    assert found.deviation is not None
    scale = found.deviation[(..., *[None] * observed.grid.ndim)]
    error = (found.frames - future.data[0]).abs() / scale
    true = {k: float(v[0]) for k, v in observed.coefficients.items()}
    known = {
        k: abs(v - true[k]) / splitter.coefficient_scale(k)
        for k, v in splitter.coefficients_.items()
        if k in true and v != 0
    }
    return Seen(name, error.nan_to_num(torch.inf), known, kind)


def calibrate(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    origin: dict[str, Any],
    bar: Progress | None = None,
    where: Where = HERE,
) -> Calibration:
    """Factors of all levels from `n` trajectories of every test column."""
    if n < 1:
        raise OpsplitError("A calibration needs at least one trajectory.")
    strategy = get_search(search)
    seen = scores(model, strategy, n, seed, bar, where)
    if not seen:
        raise OpsplitError("A calibration needs at least one trajectory.")
    by_name: dict[str, list[float]] = {}
    for one in seen:
        for name, score in one.coefficients.items():
            by_name.setdefault(name, []).append(score)
    return Calibration(
        strategy.name,
        len(seen),
        conformal_quantiles(torch.stack([s.forecast for s in seen]), len(seen)),
        {k: conformal_quantiles(torch.tensor(v)) for k, v in by_name.items()},
        origin,
    )


def coverage(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    level: float = 0.9,
    bar: Progress | None = None,
    where: Where = HERE,
) -> dict[str, dict[str, float]]:
    """Share of points and coefficients inside the intervals of a level.

    By column, by kind of field, and in all.
    """
    calibration = model.calibration
    if calibration is None:
        raise OpsplitError("The model is not calibrated; run `opsplit calibrate` first.")
    held: dict[str, dict[str, list[float]]] = {}
    for seen in scores(model, search, n, seed, bar, where):
        inside = (seen.forecast <= calibration.forecast_factor(level)).double().mean()
        row = {"forecast": float(inside)}
        for k, score in seen.coefficients.items():
            if k in calibration.coefficients:
                row[k] = float(score <= calibration.coefficient_factor(k, level))
        for group in filter(None, (seen.column, seen.kind, "all")):
            for k, v in row.items():
                held.setdefault(group, {}).setdefault(k, []).append(v)
    return {c: {k: sum(v) / len(v) for k, v in row.items()} for c, row in held.items()}
