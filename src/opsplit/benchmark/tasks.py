"""The paper's test columns: which windows are observed and what is to be predicted."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from opsplit.errors import OpsplitError
from opsplit.physics import get_physics
from opsplit.trajectories import Trajectories

OBSERVED = 16


@dataclass(frozen=True)
class Column:
    """One column of a table of the paper."""

    physics: str
    split: str
    horizon: int
    """Frames to predict."""
    last_start: int
    """Windows start uniformly in frames 0..last_start."""
    published: dict[str, float]
    """NRMSE of the paper by method."""


COLUMNS: dict[str, dict[str, Column]] = {
    "advection-diffusion": {
        "A+D": Column(
            "advection-diffusion", "A+D", 34, 50, {"direct": 0.170, "uniform": 0.043, "beam": 0.015}
        ),
        "c": Column(
            "advection-diffusion", "c", 34, 50, {"direct": 0.768, "uniform": 0.113, "beam": 0.052}
        ),
        "D": Column(
            "advection-diffusion", "D", 34, 50, {"direct": 0.159, "uniform": 0.055, "beam": 0.002}
        ),
    }
}


def columns(physics: str) -> dict[str, Column]:
    if physics not in COLUMNS:
        raise OpsplitError(f"No benchmark for {physics!r}; choose from {sorted(COLUMNS)}.")
    return COLUMNS[physics]


def test_windows(column: Column, n: int, seed: int) -> tuple[Trajectories, Trajectories]:
    """`n` fresh trajectories of a column: observed frames and the frames to predict.

    The first trajectories are the same for every `n`, so that a slow method measured on few
    is measured on a part of what a fast one saw.
    """
    physics = get_physics(column.physics)
    parts = [physics.generate(column.split, 1, seed * 100_003 + i) for i in range(n)]
    data = torch.cat([p.data for p in parts])
    coefficients = {
        name: torch.cat([p.coefficients[name] for p in parts]) for name in parts[0].coefficients
    }
    whole = Trajectories(data, parts[0].times, physics.grid, physics.channels, coefficients)
    starts = torch.cat(
        [
            torch.randint(
                column.last_start + 1,
                (1,),
                generator=torch.Generator().manual_seed(seed * 100_003 + i + 50_021),
            )
            for i in range(n)
        ]
    )
    return whole.windows(OBSERVED, starts), whole.windows(column.horizon, starts + OBSERVED)
