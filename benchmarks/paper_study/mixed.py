"""Training on mixed physics: advection-diffusion, half or all trajectories coupled.

Tested on c and D in [0.01, 2], with dictionaries of 64 and 256 operators.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

import torch
from common import keep, measure
from trained import NAME, minutes_of, trained

from opsplit.benchmark.marks import evenly
from opsplit.benchmark.tasks import columns

SPLITS = ("mixed-0.5", "mixed-1.0")
SIZES = (64, 256)


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    column = replace(columns(NAME)["A+D"], split="joint", published={})
    for split in SPLITS:
        folder = args.runs / f"{split}-{args.steps}"
        model = trained(folder, args.steps, split=split)
        for size in SIZES:
            for method in ("direct", "beam", "pursuit"):
                item = {"split": split, "operators": size, "method": method, "n": args.n,
                        "steps": args.steps, "seed": args.seed}  # fmt: skip
                few = evenly(model.dictionary, size)
                work = partial(measure, model, method, column, args, few)
                keep("mixed", args, item, lambda w=work, f=folder: w() | minutes_of(f))
