"""The paper's method as published: plain U-Nets of a DISCO training, direct, uniform and beam.

The model is that of `python benchmarks/baselines train --method disco --minutes N`: the paper's
recipe, a smaller encoder and as many steps as the minutes hold.
"""

from __future__ import annotations

import argparse
import time
from functools import partial

import torch
from common import Row, keep, summary

from opsplit.baselines.disco import Direct
from opsplit.baselines.trained import FOLDER, load_trained
from opsplit.benchmark.marks import evenly
from opsplit.benchmark.methods import make_method
from opsplit.benchmark.tasks import COLUMNS, Column, columns, test_window
from opsplit.metrics import nrmse
from opsplit.model import Model
from opsplit.physics import get_physics

METHODS = ("direct", "uniform", "beam", "pursuit")


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for name in args.physics.split(",") if args.physics else COLUMNS:
        folder = FOLDER / name / "disco"
        if not (folder / "metrics.json").exists():
            print(f"{name}: no training in {folder}; see `python benchmarks/baselines train`.")
            continue
        trained = load_trained(folder)
        assert isinstance(trained, Direct)
        training = {k: trained.facts[k] for k in ("minutes", "steps", "command")}
        for method in METHODS:
            chosen = args.column.split(",") if args.column else columns(name)
            for column in (c for split, c in columns(name).items() if split in chosen):
                for number in range(args.n):
                    item = {"physics": name, "column": column.split, "method": method,
                            "mark": trained.fingerprint(), "trajectory": number,
                            "seed": args.seed}  # fmt: skip
                    work = partial(forecast, args, trained.model, column, method, number)
                    keep("faithful", args, item, lambda w=work, t=training: {**w(), "training": t})


def forecast(
    args: argparse.Namespace, model: Model, column: Column, method: str, number: int
) -> Row:
    """The error of one forecast, and the seconds that the processor worked for it."""
    observed, future = test_window(column, number, args.seed, args.runs / "windows")
    dictionary = evenly(model.dictionary, column.operators)
    settings = column.settings.get(method)
    act = make_method(method, get_physics(column.physics), model, dictionary, settings=settings)
    began = time.process_time()
    outcome = act(observed, column.horizon, args.seed + number)
    seconds = time.process_time() - began
    return {**summary([float(nrmse(outcome.frames[None], future.data))]), "seconds": seconds}
