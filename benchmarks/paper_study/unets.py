"""Sizes of the dictionary, lengths of the window and trials, for U-Nets on advection-diffusion."""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch
from common import Row, keep, summary

from opsplit import OperatorSplitter, load_model
from opsplit.benchmark.marks import evenly
from opsplit.benchmark.methods import make_search
from opsplit.benchmark.tasks import columns, test_window
from opsplit.errors import no_warnings
from opsplit.metrics import nrmse
from opsplit.search import Uniform

NAME = "advection-diffusion"
SIZES = (16, 32, 64, 256)
LENGTHS = (2, 4, 8, 16)
TRIALS = (1, 4, 16, 64)


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    shared = {"n": args.n, "seed": args.seed}
    for method in ("pursuit", "beam"):
        for size in SIZES:
            keep("unets", args, {"axis": "N", "at": size, "method": method, **shared},
                 lambda m=method, s=size: forecast(args, m, size=s))  # fmt: skip
        for length in LENGTHS:
            # Fewer frames are searched over the smaller dictionary, which costs a quarter.
            keep("unets", args, {"axis": "L", "at": length, "method": method, **shared},
                 lambda m=method, x=length: forecast(args, m, size=64, length=x))  # fmt: skip
    for trials in TRIALS:
        keep("unets", args, {"axis": "trials", "at": trials, "method": "uniform", **shared},
             lambda t=trials: forecast(args, "uniform", trials=t))  # fmt: skip


def forecast(
    args: argparse.Namespace, method: str, size: int = 256, length: int = 16, trials: int = 100
) -> Row:
    """Errors of forecast, fit and coefficients with the last `length` of the observed frames."""
    model, column = load_model(NAME, "unet"), columns(NAME)["A+D"]
    dictionary = evenly(model.dictionary, size)
    errors, fits, gaps, spent = [], [], {"c": 0.0, "D": 0.0}, 0.0
    for number in range(args.n):
        observed, future = test_window(column, number, args.seed)
        search = make_search(method, model)
        if isinstance(search, Uniform):
            search = replace(search, trials=trials, seed=args.seed + number)
        splitter = OperatorSplitter(model, search=search, refinement=1)
        with no_warnings():
            splitter.fit(observed.data[0, -length:], observed.dt, observed.grid.extent, dictionary)
        frames = splitter.predict(steps=column.horizon)
        errors.append(float(nrmse(frames[None], future.data)))
        fits.append(splitter.fit_error_)
        spent += splitter.search_result_.cost.seconds / args.n
        for name in gaps:
            true = float(observed.coefficients[name][0])
            gaps[name] += abs(splitter.coefficients_[name] - true) / args.n
    return {**summary(errors), "fit_error": sum(fits) / len(fits), "coefficient_mae": gaps,
            "seconds": spent}  # fmt: skip
