"""Calibrate a model's intervals on fresh trajectories, and measure what they cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsplit.benchmark.tasks import columns
from opsplit.benchmark.varied import varied_window
from opsplit.calibration import FORECAST, Calibration, conformal_quantiles
from opsplit.errors import OpsplitError, no_warnings
from opsplit.io.assemble import Flags
from opsplit.model import Model
from opsplit.parallel import HERE, Where, run_items
from opsplit.predict.door import observe
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.many import fit_parts
from opsplit.progress import Progress
from opsplit.search import Strategy, get_search
from opsplit.trajectories import Trajectories

TOGETHER = 16
"""Trajectories of a column that are fitted in shared calls."""


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
    noisy: bool = False
    """Whether noise was found in its frames."""


def scores(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    bar: Progress | None = None,
    where: Where = HERE,
) -> list[Seen]:
    """Errors over expected errors on `n` varied trajectories of every test column.

    Fits of which intervals are never shown, such as those that explain little, do not count.
    """
    items = [
        (name, tuple(range(begin, min(begin + TOGETHER, n))))
        for name in columns(model.config.physics)
        for begin in range(0, n, TOGETHER)
    ]
    found: dict[tuple[str, tuple[int, ...]], list[Seen]] = {}
    for outcome in run_items(_seen, items, (model, search, seed), where):
        if outcome.value is None:
            name, some = outcome.item
            raise OpsplitError(
                f"Trajectories {some[0]} to {some[-1]} of {name} were not measured. "
                f"{outcome.reason}"
            )
        found[outcome.item] = outcome.value
        if bar is not None:
            bar.update(len(found) / len(items), f"{len(found)} of {len(items)} groups")
    # In a fixed order, so that sums do not depend on which was finished first.
    return [one for item in items for one in found[item]]


def _seen(
    shared: tuple[Model, str | Strategy, int], item: tuple[str, tuple[int, ...]]
) -> list[Seen]:
    """Some trajectories of a column, fitted together and compared."""
    (model, search, seed), (name, numbers) = shared, item
    column = columns(model.config.physics)[name]
    drawn = [varied_window(column, i, seed) for i in numbers]
    like = OperatorSplitter(model, search)
    parts = [
        observe(seen.data[0], model.config, Flags(dt=seen.dt, extent=seen.grid.extent))
        for seen, _, _ in drawn
    ]
    with no_warnings():
        fits = fit_parts(parts, model, like)
    found = []
    for fit, (observed, future, kind) in zip(fits, drawn, strict=True):
        if isinstance(fit, OpsplitError):
            raise fit
        if fit.sure_:
            found.append(_compared(fit, name, observed, future, kind))
    return found


def _compared(
    fit: OperatorSplitter, name: str, observed: Trajectories, future: Trajectories, kind: str
) -> Seen:
    """A fit beside the truth."""
    made = fit.forecast(future.data.shape[1], deviation=True)
    assert made.deviation is not None
    scale = made.deviation[(..., *[None] * observed.grid.ndim)]
    error = (made.frames - future.data[0]).abs() / scale
    true = {k: float(v[0]) for k, v in observed.coefficients.items()}
    known = {
        k: abs(v - true[k]) / fit.coefficient_scale(k)
        for k, v in fit.coefficients_.items()
        if k in true and v != 0
    }
    return Seen(name, error.nan_to_num(torch.inf), known, kind, fit.noise_ > 0)


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
    seen = list(scores(model, strategy, n, seed, bar, where))
    if not seen:
        raise OpsplitError("No trajectory was explained: there is nothing to calibrate.")
    # How far spreads are from errors differs: what noise makes is known better than the rest.
    clean = factors([one for one in seen if not one.noisy] or seen)
    noisy = [one for one in seen if one.noisy]
    return Calibration(
        strategy.name, len(seen), clean.pop(FORECAST), clean, origin,
        noisy=factors(noisy) if noisy else {},
    )  # fmt: skip


def factors(seen: Sequence[Seen]) -> dict[str, tuple[float, ...]]:
    """Factors of all levels, of the forecast and of every coefficient that was found."""
    by_name: dict[str, list[float]] = {}
    for one in seen:
        for name, score in one.coefficients.items():
            by_name.setdefault(name, []).append(score)
    found = {FORECAST: conformal_quantiles(torch.stack([s.forecast for s in seen]), len(seen))}
    return found | {k: conformal_quantiles(torch.tensor(v)) for k, v in by_name.items()}


Shares = dict[str, dict[str, float]]
Counts = dict[str, dict[str, int]]


def coverage(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    level: float = 0.9,
    bar: Progress | None = None,
    where: Where = HERE,
) -> tuple[Shares, Counts]:
    """Share of points and coefficients inside the intervals of a level, and of how many
    trajectories.

    By column, by kind of field, with and without noise, and in all.
    """
    if model.calibration is None:
        raise OpsplitError("The model is not calibrated; run `opsplit calibrate` first.")
    held: dict[str, dict[str, list[float]]] = {}
    for seen in scores(model, search, n, seed, bar, where):
        known = model.calibration.having(seen.noisy)
        inside = (seen.forecast <= known.forecast_factor(level)).double().mean()
        row = {FORECAST: float(inside)}
        for k, score in seen.coefficients.items():
            if k in known.coefficients:
                row[k] = float(score <= known.coefficient_factor(k, level))
        noise = "noise" if seen.noisy else "no noise"
        for group in filter(None, (seen.column, seen.kind, noise, "all")):
            for k, v in row.items():
                held.setdefault(group, {}).setdefault(k, []).append(v)
    shares = {c: {k: sum(v) / len(v) for k, v in row.items()} for c, row in held.items()}
    return shares, {c: {k: len(v) for k, v in row.items()} for c, row in held.items()}
