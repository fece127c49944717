"""Calibrate a model's intervals on fresh trajectories, and measure what they cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from opsplit._journal import Journal
from opsplit.benchmark.tasks import columns
from opsplit.benchmark.varied import varied_window
from opsplit.calibration import FORECAST, Calibration
from opsplit.conformal import Question, conformal_quantiles, grown, grown_together
from opsplit.errors import OpsplitError, no_warnings
from opsplit.io.assemble import Flags
from opsplit.model import Model
from opsplit.parallel import HERE, Where, run_items
from opsplit.predict.door import observe
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.many import fit_parts
from opsplit.predict.traits import traits
from opsplit.progress import Progress
from opsplit.search import Strategy, get_search
from opsplit.trajectories import Trajectories

TOGETHER = 8
"""Trajectories of a column that are fitted in shared calls."""
BROKEN = 1e30
"""The score of a point where the forecast is not finite."""
KEPT = 199
"""So many ordered scores stand for those of all points of a forecast."""


@dataclass(frozen=True)
class Seen:
    """One trajectory: how large its errors were, in units of what the search expected."""

    column: str
    forecast: Tensor
    """Of the points, or of evenly many of them in their order."""
    coefficients: dict[str, float]
    """Of the terms that were found; that a term is absent is no estimate."""
    kind: str = ""
    """The kind of its initial field."""
    traits: Mapping[str, float] = field(default_factory=dict)
    """Of the window and its fit (`opsplit.predict.traits`)."""

    @property
    def noisy(self) -> bool:
        """Whether noise was found in its frames."""
        return self.traits.get("noisy", 0.0) > 0

    def row(self) -> dict[str, Any]:
        """As it is stored."""
        return {**vars(self), "forecast": [float(f"{x:.6g}") for x in self.forecast.tolist()]}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Seen:
        """As it was stored."""
        given = {k: row[k] for k in ("column", "coefficients", "kind", "traits")}
        return cls(**given, forecast=torch.tensor(row["forecast"], dtype=torch.float64))


def scores(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    bar: Progress | None = None,
    where: Where = HERE,
    rows: Rows | None = None,
) -> list[Seen]:
    """Errors over expected errors on `n` varied trajectories of every test column.

    What is refused, and fits of which intervals are never shown, such as those that explain little,
    do not count.

    Arguments:
        rows: those that were measured before, which grow.
    """
    items = [
        (name, tuple(range(begin, min(begin + TOGETHER, n))))
        for name in columns(model.config.physics)
        for begin in range(0, n, TOGETHER)
    ]
    held = rows or Rows()
    missing = [item for item in items if not held.have(seed, item)]
    done = len(items) - len(missing)
    for outcome in run_items(_seen, missing, (model, search, seed), where):
        if outcome.value is None:
            name, some = outcome.item
            raise OpsplitError(
                f"Trajectories {some[0]} to {some[-1]} of {name} were not measured. "
                f"{outcome.reason}"
            )
        held.add(seed, outcome.item, outcome.value)
        done += 1
        if bar is not None:
            bar.update(done / len(items), f"{done} of {len(items)} groups")
    # In a fixed order, so that sums do not depend on which was finished first.
    each = (held.seen.get((seed, name, i)) for name, some in items for i in some)
    return [one for one in each if one is not None]


Item = tuple[str, tuple[int, ...]]


class Rows:
    """What was measured of trajectories, in memory and in a file that outlives a run.

    Arguments:
        journal: the open file.
        key: which model and search its rows must be of.
    """

    def __init__(self, journal: Journal | None = None, key: str = "") -> None:
        self.journal, self.key = journal, key
        self.seen: dict[tuple[int, str, int], Seen | None] = {}
        for row in journal.rows() if journal is not None else ():
            if row["key"] == key:
                place = (row["seed"], row["column"], row["number"])
                self.seen[place] = Seen.of(row) if "forecast" in row else None

    def have(self, seed: int, item: Item) -> bool:
        """Whether all trajectories of an item are there."""
        return all((seed, item[0], number) in self.seen for number in item[1])

    def add(self, seed: int, item: Item, found: Sequence[Seen | None]) -> None:
        """Keep what was measured of an item; None where a trajectory does not count."""
        for number, one in zip(item[1], found, strict=True):
            self.seen[seed, item[0], number] = one
        if self.journal is not None:
            places = ({"key": self.key, "seed": seed, "column": item[0], "number": i}
                      for i in item[1])  # fmt: skip
            both = zip(places, found, strict=True)
            self.journal.append(place if one is None else one.row() | place for place, one in both)


def _seen(shared: tuple[Model, str | Strategy, int], item: Item) -> list[Seen | None]:
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
    found: list[Seen | None] = []
    for fit, (observed, future, kind) in zip(fits, drawn, strict=True):
        if isinstance(fit, OpsplitError) or not fit.sure_:
            found.append(None)
        else:
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
    error = error.double().nan_to_num(BROKEN).clamp_max(BROKEN).flatten().sort().values
    few = torch.linspace(0, len(error) - 1, min(KEPT, len(error))).round().long()
    return Seen(name, error[few], known, kind, traits(fit.explanation))


def calibrate(
    model: Model,
    search: str | Strategy,
    n: int,
    seed: int,
    origin: dict[str, Any],
    bar: Progress | None = None,
    where: Where = HERE,
    rows: Rows | None = None,
) -> Calibration:
    """Factors of all levels from `n` trajectories of every test column."""
    if n < 1:
        raise OpsplitError("A calibration needs at least one trajectory.")
    strategy = get_search(search)
    seen = scores(model, strategy, n, seed, bar, where, rows)
    if not seen:
        raise OpsplitError("No trajectory was explained: there is nothing to calibrate.")
    return factors(strategy.name, seen, origin)


def factors(strategy: str, seen: Sequence[Seen], origin: dict[str, Any]) -> Calibration:
    """Factors of the forecast and of every coefficient that was found."""
    names = dict.fromkeys(k for one in seen for k in one.coefficients)
    mine = {k: [one for one in seen if k in one.coefficients] for k in names}
    each = {k: [torch.tensor([s.coefficients[k]]) for s in some] for k, some in mine.items()}
    known = {k: [one.traits for one in some] for k, some in mine.items()}
    points = [one.forecast for one in seen]
    trees = {FORECAST: grown(points, [s.traits for s in seen]), **grown_together(each, known)}
    return Calibration(
        strategy,
        len(seen),
        conformal_quantiles(torch.cat(points), len(seen)),
        {k: conformal_quantiles(torch.cat(some)) for k, some in each.items()},
        origin,
        groups={k: tree for k, tree in trees.items() if isinstance(tree, Question)},
    )


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
    rows: Rows | None = None,
) -> tuple[Shares, Counts]:
    """Share of points and coefficients inside the intervals of a level, and of how many
    trajectories.

    By column, by kind of field, with and without noise, and in all.
    """
    if model.calibration is None:
        raise OpsplitError("The model is not calibrated; run `opsplit calibrate` first.")
    held: dict[str, dict[str, list[float]]] = {}
    for seen in scores(model, search, n, seed, bar, where, rows):
        known = model.calibration.at(seen.traits)
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
