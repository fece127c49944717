"""Training without in-context pairs (advection-diffusion) and without a codebook (Navier-Stokes).

The operators are spectral; both trainings of a pair have the same steps, batches and seed. The
flow is simulated and learned on 64 x 64 points.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from common import keep, measure
from trained import NAME, minutes_of, stamped, trained

from opsplit import Model, Trajectories, load_model
from opsplit.benchmark.tasks import Column, columns
from opsplit.grid import Grid
from opsplit.physics import NavierStokes
from opsplit.pretrain.config import preset_settings
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.run import pretrain

FLOW = NavierStokes(grid=Grid((64, 64), (2 * math.pi, 2 * math.pi)), fine=64)


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    chosen = args.column.split(",")
    for recipe in ("in-context", "plain"):
        for name in (c for c in chosen if c in columns(NAME)):
            folder = args.runs / f"{recipe}-{args.steps}"
            model = trained(folder, args.steps, recipe)
            measured(args, columns(NAME)[name], recipe, folder, model)
    if "NS" in chosen:
        for recipe in ("codebook", "in-context"):
            folder = args.runs / f"flow-{recipe}-{args.steps}"
            column = columns("navier-stokes")["NS"]
            measured(args, column, recipe, folder, flow_model(folder, args, recipe))


def measured(
    args: argparse.Namespace, column: Column, recipe: str, folder: Path, model: Model
) -> None:
    for method in ("beam", "pursuit"):
        item = {"column": column.split, "recipe": recipe, "method": method, "n": args.n,
                "steps": args.steps, "seed": args.seed}  # fmt: skip
        work = partial(measure, model, method, column, args)
        keep("recipe", args, item, lambda w=work: w() | minutes_of(folder))


def flow_model(folder: Path, args: argparse.Namespace, recipe: str) -> Model:
    """Euler and heat trajectories, learned with a code per environment or from contexts alone."""
    if (folder / "metrics.json").exists():
        return load_model(folder)
    file = args.runs / "flow.npz"
    if not file.exists():
        parts = [
            FLOW.generate_environment(i, 8 if i == 0 else 1, seed=100 + i)
            for i in range(len(FLOW.environments()["nu"]))
        ]
        mu = {k: torch.cat([p.coefficients[k] for p in parts]) for k in parts[0].coefficients}
        data = torch.cat([p.data for p in parts])
        file.parent.mkdir(parents=True, exist_ok=True)
        Trajectories(data, parts[0].times, FLOW.grid, FLOW.channels, mu).save(file)
    _, usual = preset_settings("cpu", stored=True)
    batches = replace(usual.batches, environments=4, states=8)
    budget = replace(usual.budget, steps=args.steps, minutes=None, validate_every=args.steps)
    training = replace(usual, recipe=recipe, budget=budget, batches=batches)
    began = time.process_time()
    model = pretrain(file, folder, operator="spectral", training=training, name="navier-stokes",
                     execution=Execution(threads=1, quiet=True))  # fmt: skip
    stamped(folder, began)
    return model
