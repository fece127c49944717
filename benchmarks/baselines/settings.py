"""Which baselines are trained on which data, and the few settings that depend on the equation."""

from __future__ import annotations

from pathlib import Path

from opsplit.baselines import TRAINED
from opsplit.baselines.trained import FOLDER

RUNS = FOLDER
DATA = Path("runs/data")
COARSE = ("navier-stokes",)
"""Equations whose own training set takes an hour of one core: theirs is that of `coarse_data`."""
METHODS = tuple(TRAINED)
FLAGS: dict[tuple[str, str], list[str]] = {
    # Codes as long as the paper's.
    ("advection-diffusion", "geps"): ["--model.code", "2"],
    ("advection-diffusion", "disco"): ["--model.encoder.code", "2"],
    # 64 x 64 points: as many tokens as 128 x 128 points have with the usual patch.
    ("gray-scott", "mpp"): ["--model.patch", "8"],
    # 128 x 128 points: as many tokens as 64 x 64 points have with the usual levels.
    ("navier-stokes", "zebra"): ["--model.levels", "4"],
}


def data_of(physics: str) -> Path:
    """Where the training set of an equation with a list of training dynamics lies."""
    return DATA / (f"{physics}.npz" if physics in COARSE else physics)
