"""The same arrays in other units, mirrored, negated, with another mean: the same answers."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from kept import Kept, keep, number, read_kept, table

from opsplit import OperatorSplitter
from opsplit.benchmark.tasks import COLUMNS, test_window
from opsplit.errors import no_warnings
from opsplit.metrics import nrmse
from opsplit.model import Model, load_model
from opsplit.predict.units import Freedom
from opsplit.terms import Term
from opsplit.trajectories import Trajectories

ORDER = 10
N = 32
"""Trajectories of every column."""
DECADES = 6.0
"""Factors of units are drawn from 10**-6 to 10**6."""
WITHIN = 1.5
"""Errors may be this many times those in the units of the model."""
SMALL = 1e-3
"""Errors below this share count as equal."""


@dataclass(frozen=True)
class Renaming:
    """The same data in other words: `u -> amplitude u + mean`, `x -> length x`, `t -> time t`."""

    length: float = 1.0
    time: float = 1.0
    amplitude: float = 1.0
    mean: float = 0.0
    mirrored: bool = False

    def data(self, u: torch.Tensor) -> np.ndarray:
        """Frames `(time, channel, *space)` in the new words."""
        turned = u.double().flip(-1) if self.mirrored else u.double()
        return self.amplitude * turned.numpy() + self.mean

    def back(self, frames: np.ndarray) -> torch.Tensor:
        """Frames in the new words as they were before."""
        plain = torch.from_numpy((frames - self.mean) / self.amplitude)
        return plain.flip(-1) if self.mirrored else plain

    def coefficient(self, value: float, term: Term | None) -> float:
        """A coefficient that was found in the new words, as it was before, without its sign."""
        if term is None:
            return abs(value)
        order, degree = term.order or 0, 1 if term.degree is None else term.degree
        factor = self.length**order * abs(self.amplitude) ** (1 - degree) / self.time
        return abs(value) / factor


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--physics", nargs="+", default=[*COLUMNS], choices=[*COLUMNS])
    parser.add_argument("--family", default="spectral", help="of the bundled models")


def cases(model: Model, seed: int) -> dict[str, Renaming]:
    """What is changed: units where all orders are known, amplitude and mean where terms allow."""
    draw = np.random.default_rng(seed)
    length, moment, amplitude = 10 ** draw.uniform(-DECADES, DECADES, 3)
    freedom = Freedom.of(model.dictionary)
    size = float(amplitude) if freedom.amplitude else 1.0
    found = {"as it is": Renaming()}
    if freedom.orders:
        found["units"] = Renaming(float(length), float(moment), size)
    found["mirrored"] = Renaming(mirrored=True)
    if freedom.amplitude:
        found["negated"] = Renaming(amplitude=-1.0)
    if freedom.mean:
        found["mean 300"] = Renaming(mean=300.0)
    return found


def measured(
    model: Model, renaming: Renaming, observed: Trajectories, future: Trajectories
) -> dict[str, Any]:
    """Error of the forecast and of every coefficient, both relative."""
    extent = tuple(renaming.length * x for x in observed.grid.extent)
    began = time.perf_counter()
    with no_warnings():
        splitter = OperatorSplitter(model).fit(
            renaming.data(observed.data[0]), renaming.time * observed.dt, extent
        )
    seconds = time.perf_counter() - began
    frames = renaming.back(np.asarray(splitter.predict(future.data.shape[1])))
    terms = model.dictionary.terms
    errors = {}
    for name, values in observed.coefficients.items():
        true = abs(float(values[0]))
        if name in splitter.coefficients_ and true > 0:
            found = renaming.coefficient(splitter.coefficients_[name], terms.get(name))
            errors[name] = abs(found - true) / true
    return {
        "error": float(nrmse(frames[None], future.data[:1].double())),
        "coefficients": errors,
        "level": splitter.status_,
        "seconds": seconds,
    }


def run(args: argparse.Namespace) -> None:
    before = read_kept(args.out, args.part)
    rows = [r for r in before["rows"] if r["physics"] not in args.physics] if before else []
    earlier = before["command"] if rows and before else ""
    for physics in args.physics:
        model = load_model(physics, args.family)
        for column, told in COLUMNS[physics].items():
            for i in range(args.n):
                observed, future = test_window(told, i, args.seed)
                for case, renaming in cases(model, 1000 * args.seed + i).items():
                    found = measured(model, renaming, observed, future)
                    head = {"physics": physics, "column": column, "number": i, "case": case}
                    rows.append({**head, **asdict(renaming), **found})
                print(f"{physics} {column} {i + 1}/{args.n}", flush=True)
            # What was measured stays, whenever the run is stopped.
            keep(args, rows, earlier, family=args.family)


def section(kept: Kept) -> list[str]:
    body = list(_lines(kept["rows"]))
    return [
        "## The same data in other words",
        f"The four benchmarks, {_counted(kept['rows'])}, {kept['family']} models. "
        "`units`: space, time and amplitude multiplied by random factors from 1e-6 to 1e6 (no "
        "amplitude where a term mixes degrees). "
        "Forecast: mean NRMSE over that in the units of the "
        "model. Coefficients: the same for the mean relative error, the worst coefficient; errors "
        f"below {SMALL:g} count as {SMALL:g}. Aim: at most {WITHIN}. "
        "`same`: share of trajectories whose forecast error is within that factor of the original.",
        table(
            ["equation", "column", "case", "NRMSE", "ratio", "coefficients", "same", "seconds"],
            body,
        ),
        _misses(kept["rows"]),
    ]


def _counted(rows: list[dict[str, Any]]) -> str:
    """`32 trajectories of every column of one equation, 2 of another`."""
    each = {p: len({r["number"] for r in rows if r["physics"] == p})
            for p in dict.fromkeys(r["physics"] for r in rows)}  # fmt: skip
    said = [f"{n} of {p}" for p, n in each.items()]
    return f"trajectories of every column: {', '.join(said)}"


def _lines(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    for physics, column, case, mine, plain in _groups(rows):
        error, ratio, worst = _ratios(mine, plain)
        same = np.mean([_within(a["error"], b["error"]) for a, b in zip(mine, plain, strict=True)])
        yield [
            physics, column, case, number(error), number(ratio), number(worst), f"{same:.0%}",
            number(float(np.mean([r["seconds"] for r in mine])), 2),
        ]  # fmt: skip


def _groups(
    rows: list[dict[str, Any]],
) -> Iterator[tuple[str, str, str, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Rows of every case, beside those of the units of the model."""
    keys = dict.fromkeys((r["physics"], r["column"], r["case"]) for r in rows)
    for physics, column, case in keys:
        held = [r for r in rows if (r["physics"], r["column"]) == (physics, column)]
        mine = [r for r in held if r["case"] == case]
        yield physics, column, case, mine, [r for r in held if r["case"] == "as it is"]


def _within(error: float, plain: float) -> bool:
    return max(error, SMALL) <= WITHIN * max(plain, SMALL)


def _ratios(mine: list[dict[str, Any]], plain: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Mean error, its ratio to that in the units of the model, the worst coefficient's ratio."""

    def mean(held: list[dict[str, Any]], name: str | None) -> float:
        values = [r["error"] if name is None else r["coefficients"].get(name, 0.0) for r in held]
        return float(np.mean(values))

    def ratio(name: str | None) -> float:
        found = max(mean(mine, name), SMALL) / max(mean(plain, name), SMALL)
        return found if math.isfinite(found) else math.inf

    names = list(plain[0]["coefficients"])
    return mean(mine, None), ratio(None), max((ratio(name) for name in names), default=1.0)


def _misses(rows: list[dict[str, Any]]) -> str:
    missed = [
        f"{physics} {column} {case}"
        for physics, column, case, mine, plain in _groups(rows)
        if max(_ratios(mine, plain)[1:]) > WITHIN
    ]
    if not missed:
        return f"All cases are within {WITHIN}."
    return f"Not within {WITHIN}: {', '.join(missed)}."
