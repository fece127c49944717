"""Navier-Stokes and Gray-Scott at the sizes of the paper, with the bundled spectral models.

The models were trained on smaller grids: their operators are not bound to one.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from common import Row, keep, summary

from opsplit import load_model
from opsplit.benchmark.methods import make_method, splitting
from opsplit.benchmark.tasks import OBSERVED, Column, columns
from opsplit.metrics import nrmse
from opsplit.physics import Physics, get_physics
from opsplit.trajectories import Trajectories

SIZES: dict[tuple[str, str], dict[str, Any]] = {
    ("gray-scott", "GS"): {},
    # The paper's midpoint rule solves the same equation and takes much longer.
    ("navier-stokes", "NS"): {"scheme": "rk4"},
}
SUBSTEPS: dict[str, int | Literal["auto"]] = {"pursuit": "auto", "beam": 2}
"""Of a frame: fast flows cross fifteen of these finer cells from frame to frame."""


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    for (name, split), changes in SIZES.items():
        physics, column = replace(get_physics(name, "paper"), **changes), columns(name)[split]
        for method in ("persistence", *SUBSTEPS):
            for number in range(args.n):
                item = {"column": split, "points": list(physics.grid.shape), "method": method,
                        "substeps": SUBSTEPS.get(method, 0), "trajectory": number,
                        "seed": args.seed}  # fmt: skip
                work = partial(forecast, args, physics, column, method, number)
                keep("sizes", args, item, work)


def forecast(
    args: argparse.Namespace, physics: Physics, column: Column, method: str, number: int
) -> Row:
    """The error of one forecast, and the seconds that the processor worked for it."""
    whole = trajectory(physics, column, number, args.seed, args.runs / "windows")
    observed, future = whole.windows(OBSERVED, 0), whole.windows(column.horizon, OBSERVED)
    if method in SUBSTEPS:
        model, settings = load_model(physics.name, "spectral"), column.settings.get(method)
        act = splitting(model, method, model.dictionary, "cpu", settings, SUBSTEPS[method])
    else:
        act = make_method(method, physics)
    began = time.process_time()
    outcome = act(observed, column.horizon, args.seed + number)
    seconds = time.process_time() - began
    error = float(nrmse(outcome.frames[None], future.data))
    true = {k: float(v[0]) for k, v in observed.coefficients.items()}
    misses = {k: abs(v - true[k]) for k, v in outcome.coefficients.items() if k in true}
    return {**summary([error]), "coefficient_mae": misses, "seconds": seconds}


def trajectory(
    physics: Physics, column: Column, number: int, seed: int, folder: Path
) -> Trajectories:
    """A test trajectory, simulated once."""
    points = "x".join(map(str, physics.grid.shape))
    file = folder / f"{physics.name}-{column.split}-{points}-{seed}-{number}.npz"
    if not file.exists():
        frames = OBSERVED + column.horizon
        made = physics.generate(column.split, 1, seed * 100_003 + number, frames)
        folder.mkdir(parents=True, exist_ok=True)
        made.save(file)
    return Trajectories.load(file)
