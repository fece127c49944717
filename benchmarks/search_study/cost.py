"""What the searches spend on the same windows, in one run, one thread.

Paper settings for beam search: width 4, at most 5 parts, threshold 5 %, 256 operators. Seconds
are those that the processor worked. Every time is the median of three repeats, in turns, but for
the beam search without shortcuts, which takes long and runs once; everything else ran once before
to warm up.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from common import COLUMNS, Item, Row, objective, run_items, windows
from torch import Tensor

from opsplit import Beam, Pursuit
from opsplit.search import Objective, Strategy

REPEATS = 3
SLOW = "beam, no shortcuts"
Way = Callable[[list[Objective]], list[float]]
"""Searches all windows and returns their fitting errors."""


def one_by_one(strategy: Strategy) -> Way:
    return lambda made: [strategy.run(one).pick.fit_error for one in made]


def in_a_batch(strategy: Strategy) -> Way:
    return lambda made: [r.pick.fit_error for r in strategy.run_all(made[0])]


def single_operators(made: list[Objective]) -> list[float]:
    everyone = torch.arange(len(made[0].dictionary))[:, None]
    best = []
    for one in made:
        one.meter.restart()
        best.append(float(one.score(everyone).min()))
    return best


WAYS: dict[str, Way] = {
    SLOW: one_by_one(Beam(reuse=False, screen=False)),
    "beam": one_by_one(Beam()),
    "pursuit": one_by_one(Pursuit()),
    "pursuit, one batch": in_a_batch(Pursuit()),
    "single operators only": single_operators,
}


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)

    def items() -> Iterator[Item]:
        for column in COLUMNS:
            yield (
                {"column": column},
                lambda c=column: measure(windows(c, args.n, args.seed)[0].data),
            )

    run_items("cost", args, items())


def measure(frames: Tensor) -> Row:
    apart = [objective(frames[[i]]) for i in range(len(frames))]
    together = [objective(frames)]
    for name, way in WAYS.items():
        if name != SLOW:
            way(together if "batch" in name else apart[:1])
    n = len(frames)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    found: dict[str, list[float]] = {}
    spent: dict[str, Row] = {}
    for repeat in range(REPEATS):
        for name, way in WAYS.items():
            if repeat and name == SLOW:
                continue
            made = together if "batch" in name else apart
            began = time.process_time()
            found[name] = way(made)
            seconds[name].append((time.process_time() - began) / n)
            evaluations = sum(one.meter.evaluations for one in made) / n
            spent[name] = {
                "evaluations": evaluations,
                "flops": evaluations * made[0].operators.flops(),
            }
    exact, ours = found[SLOW], found["pursuit"]
    return {
        "ways": {
            name: {
                **spent[name],
                "seconds": statistics.median(seconds[name]),
                "all_seconds": seconds[name],
                "fit_error": sum(found[name]) / n,
            }
            for name in WAYS
        },
        "fits_as_well": sum(a <= b for a, b in zip(ours, exact, strict=True)) / n,
    }
