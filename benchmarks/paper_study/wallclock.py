"""Adaptation by gradient beside searches: error and seconds per trajectory, one core, one run.

GEPS is that of `opsplit pretrain advection-diffusion --method geps`; it adapts its codes by 100,
500 and 2000 steps. All methods take the windows one by one.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from common import Row, keep, measure, summary

from opsplit import load_model
from opsplit.benchmark.tasks import Column, columns, test_window
from opsplit.metrics import nrmse

NAME = "advection-diffusion"
STEPS = (100, 500, 2000)
FOLDER = Path("runs/baselines") / NAME / "geps"


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    if not FOLDER.exists():
        print(f"GEPS is not trained: run `opsplit pretrain {NAME} --method geps`, then this again.")
    for column in columns(NAME).values():
        item = {"column": column.split, "n": args.n, "seed": args.seed}
        for family in ("spectral", "unet"):
            for method in ("beam", "pursuit"):
                keep("wallclock", args, item | {"method": method, "family": family},
                     lambda m=method, f=family, c=column: measure(
                         load_model(NAME, f), m, c, args))  # fmt: skip
        for steps in STEPS if FOLDER.exists() else ():
            keep("wallclock", args, item | {"method": "geps", "steps": steps},
                 lambda s=steps, c=column: adapted(c, s, args))  # fmt: skip


def adapted(column: Column, steps: int, args: argparse.Namespace) -> Row:
    """GEPS with so many gradient steps per window."""
    from opsplit.baselines.trained import load_trained

    made, errors = load_trained(FOLDER, adaptation_steps=steps), []
    seconds = 0.0
    for number in range(args.n):
        observed, future = test_window(column, number, args.seed)
        began = time.process_time()
        frames = made.forecast(observed, column.horizon, args.seed + number)
        seconds += (time.process_time() - began) / args.n
        errors.append(float(nrmse(frames, future.data)))
    minutes = made.facts.get("core_minutes", made.facts.get("minutes"))
    return {**summary(errors), "seconds": seconds, "core_minutes": minutes}
