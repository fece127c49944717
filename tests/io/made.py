"""Random fields and trajectories to be written and read."""

from __future__ import annotations

import numpy as np
import torch

from opsplit.grid import Grid
from opsplit.trajectories import Trajectories

RNG = np.random.default_rng(0)


def field(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def trajectories(n: int = 3, frames: int = 6) -> Trajectories:
    return Trajectories(
        torch.from_numpy(field(n, frames, 2, 8, 6)),
        torch.arange(frames, dtype=torch.float64) * 0.25,
        Grid((8, 6), (2.0, 3.0), ("periodic", "reflect")),
        ("A", "B"),
        {"F": torch.arange(n, dtype=torch.float64)},
    )
