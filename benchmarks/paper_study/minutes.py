"""U-Nets and spectral operators after equal minutes of one core: advection-diffusion."""

from __future__ import annotations

import argparse
from dataclasses import replace

import torch
from common import Row, keep, measure

from opsplit import load_model
from opsplit.benchmark.tasks import columns
from opsplit.pretrain.config import preset_settings
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.run import pretrain

NAME = "advection-diffusion"


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for family in ("spectral", "unet"):
        for column in columns(NAME).values():
            for method in ("direct", "pursuit"):
                item = {"family": family, "column": column.split, "method": method,
                        "minutes": args.minutes, "n": args.n, "seed": args.seed}  # fmt: skip
                keep("minutes", args, item,
                     lambda f=family, c=column, m=method: after(args, f, c.split, m))  # fmt: skip


def after(args: argparse.Namespace, family: str, column: str, method: str) -> Row:
    """A method with a model that was trained for so many minutes of one core."""
    folder = args.runs / f"{family}-{args.minutes:g}-minutes"
    if (folder / "metrics.json").exists():
        model = load_model(folder)
    else:
        _, usual = preset_settings("cpu")
        budget = replace(usual.budget, minutes=args.minutes)
        alone = Execution(threads=1, quiet=True, processor_time=True)
        training = replace(usual, budget=budget)
        model = pretrain(NAME, folder, operator=family, training=training, execution=alone)
    row = measure(model, method, columns(NAME)[column], args)
    return {**row, "steps": model.metrics["steps"]}
