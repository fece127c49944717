"""The paper's scaling figures: errors against uniform trials, and fitting error against FLOPs.

The sets of 1000 uniform trials are drawn once per trajectory; T trials are the first T of them.
As in the paper's Algorithm 2 the best single operator is where uniform search starts, and its
cost counts; `without` is the best of the drawn sets alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from common import COLUMNS, Item, Row, errors, forecast, objective, run_items, search, unit, windows

from opsplit import Beam, Pursuit, Uniform
from opsplit.search import Composition, Objective, Strategy

TRIALS = (1, 3, 10, 30, 100, 300, 1000)
SEARCHES: dict[str, Strategy] = {
    **{f"beam, width {w}": Beam(width=w) for w in (1, 2, 4, 8)},
    **{f"beam, at most {m} parts": Beam(max_parts=m) for m in (1, 2, 3, 4)},
    **{f"pursuit, {s} survivors": Pursuit(survivors=s) for s in (1, 2, 6, 12, 24)},
    **{f"pursuit, at most {m} parts": Pursuit(max_parts=m) for m in (1, 2, 3, 4)},
}


def run(args: argparse.Namespace) -> None:
    def items() -> Iterator[Item]:
        for column in COLUMNS:
            for name, strategy in SEARCHES.items():
                item = {"column": column, "search": name}
                yield item, lambda c=column, s=strategy: searched(args, c, s)
            yield {"column": column, "search": "uniform"}, lambda c=column: uniform(args, c)

    run_items("scaling", args, items())


def searched(args: argparse.Namespace, column: str, strategy: Strategy) -> Row:
    observed, _ = windows(column, args.n, args.seed)
    _, results = search(strategy, observed.data)
    cost, n = results[0].cost, args.n
    return {
        "fit_error": sum(r.pick.fit_error for r in results) / n,
        "evaluations": cost.evaluations / n,
        "flops": cost.flops / n,
        "settings": repr(strategy),
    }


def uniform(args: argparse.Namespace, column: str) -> Row:
    """One entry per number of trials, means over trajectories."""
    observed, future = windows(column, args.n, args.seed)
    made = objective(observed.data)
    operators = len(made.dictionary)
    tried = [tries(made, w, Uniform(trials=TRIALS[-1], seed=args.seed + w)) for w in range(args.n)]
    per_flop = made.operators.flops()
    curve = []
    for trials in TRIALS:
        bests = [min(t[: operators + trials]) for t in tried]
        alone = [min(t[operators : operators + trials]) for t in tried]
        picks = [Composition.of(made.dictionary, one[2], one[0]) for one in bests]
        found = {k: torch.tensor([p.coefficients[k] for p in picks]) for k in observed.coefficients}
        predicted = forecast(made, picks, future.shape[1]) * unit(observed.data)
        spent = sum(one[3] for t in tried for one in t[: operators + trials]) / args.n
        curve.append(
            {
                "trials": trials,
                "fit_error": sum(p.fit_error for p in picks) / args.n,
                "fit_error_without": sum(one[0] for one in alone) / args.n,
                **errors(predicted, future, found, observed.coefficients),
                "evaluations": spent,
                "flops": spent * per_flop,
            }
        )
    return {"curve": curve}


def tries(
    made: Objective, window: int, strategy: Uniform
) -> list[tuple[float, int, tuple[int, ...], int]]:
    """Error, place, set and evaluations of all single operators and then of all drawn sets."""
    n = len(made.dictionary)
    sets = [(i,) for i in range(n)] + strategy.draw(n)
    found: dict[int, tuple[float, int]] = {}
    for size in sorted({len(s) for s in sets}):
        mine = [i for i, s in enumerate(sets) if len(s) == size]
        before = made.meter.evaluations
        home = torch.full((len(mine),), window)
        values = made.score(torch.tensor([sets[i] for i in mine]), which=home).tolist()
        each = (made.meter.evaluations - before) // len(mine)
        found |= {i: (v, each) for i, v in zip(mine, values, strict=True)}
    return [(found[i][0], i, s, found[i][1]) for i, s in enumerate(sets)]
