"""Calibrate a model's intervals on fresh trajectories, and measure what they cover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsplit.benchmark.tasks import columns, test_windows
from opsplit.calibration import Calibration, coefficient_scale, conformal_quantiles
from opsplit.errors import OpsplitError, no_warnings
from opsplit.model import Model
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


def scores(
    model: Model, search: str | Strategy, n: int, seed: int, bar: Progress | None = None
) -> Iterator[Seen]:
    """Errors over expected errors on `n` trajectories of every test column."""
    table = columns(model.config.physics)
    for number, (name, column) in enumerate(table.items()):
        observed, future = test_windows(column, n, seed)
        for i in range(n):
            if bar is not None:
                bar.update((number * n + i) / (len(table) * n), f"{name} {i + 1}/{n}")
            one = observed[[i]]
            splitter = OperatorSplitter(model, search)
            with no_warnings():
                splitter.fit(one.data[0], one.dt, one.grid.extent)
            found = splitter.forecast(column.horizon, deviation=True)
            assert found.deviation is not None
            scale = found.deviation[(..., *[None] * one.grid.ndim)]
            error = (found.frames - future.data[i]).abs() / scale
            spread = splitter.search_result_.spread
            yield Seen(
                name,
                error.nan_to_num(torch.inf),
                {
                    k: abs(v - float(one.coefficients[k][0]))
                    / coefficient_scale(v, spread.get(k, 0.0))
                    for k, v in splitter.coefficients_.items()
                    if k in one.coefficients
                },
            )


def calibrate(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    origin: dict[str, Any],
    bar: Progress | None = None,
) -> Calibration:
    """Factors of all levels from `n` trajectories of every test column."""
    if n < 1:
        raise OpsplitError("A calibration needs at least one trajectory.")
    strategy = get_search(search)
    seen = list(scores(model, strategy, n, seed, bar))
    if not seen:
        raise OpsplitError("A calibration needs at least one trajectory.")
    names = seen[0].coefficients
    return Calibration(
        strategy.name,
        len(seen),
        conformal_quantiles(torch.stack([s.forecast for s in seen]), len(seen)),
        {k: conformal_quantiles(torch.tensor([s.coefficients[k] for s in seen])) for k in names},
        origin,
    )


def coverage(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    level: float = 0.9,
    bar: Progress | None = None,
) -> dict[str, dict[str, float]]:
    """Share of points and coefficients inside the intervals of a level, by column and in all."""
    calibration = model.calibration
    if calibration is None:
        raise OpsplitError("The model is not calibrated; run `opsplit calibrate` first.")
    held: dict[str, dict[str, list[float]]] = {}
    for seen in scores(model, search, n, seed, bar):
        inside = (seen.forecast <= calibration.forecast_factor(level)).double().mean()
        row = {"forecast": float(inside)}
        for k, score in seen.coefficients.items():
            row[k] = float(score <= calibration.coefficient_factor(k, level))
        for column in (seen.column, "all"):
            for k, v in row.items():
                held.setdefault(column, {}).setdefault(k, []).append(v)
    return {c: {k: sum(v) / len(v) for k, v in row.items()} for c, row in held.items()}
