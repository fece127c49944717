"""U-Nets after as many minutes of one core as the bundled spectral model had: advection-diffusion.

The rows of the spectral model are those of the main table.
"""

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
    for column in columns(NAME).values():
        item = {"family": "unet", "column": column.split, "method": "pursuit",
                "minutes": args.minutes, "n": args.n, "seed": args.seed}  # fmt: skip
        keep("minutes", args, item, lambda c=column: after(args, c.split))


def after(args: argparse.Namespace, column: str) -> Row:
    """Pursuit with U-Nets that were trained for so many minutes of one core."""
    folder = args.runs / f"unet-{args.minutes:g}-minutes"
    if (folder / "metrics.json").exists():
        model = load_model(folder)
    else:
        _, usual = preset_settings("cpu")
        budget = replace(usual.budget, minutes=args.minutes)
        alone = Execution(threads=1, quiet=True, processor_time=True)
        training = replace(usual, budget=budget)
        model = pretrain(NAME, folder, operator="unet", training=training, execution=alone)
    row = measure(model, "pursuit", columns(NAME)[column], args)
    return {**row, "steps": model.metrics["steps"]}
