"""Small fits to report on."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from opsplit.errors import no_warnings
from opsplit.grid import Grid
from opsplit.physics import GrayScott
from opsplit.predict.estimator import OperatorSplitter
from opsplit.search import Beam
from opsplit.trajectories import Trajectories

STEPS = 8


@pytest.fixture(scope="session")
def line(observe: Callable[..., tuple[Tensor, Grid, float]]) -> tuple[OperatorSplitter, Tensor]:
    """A fit of advection-diffusion, and the eight frames that follow `(time, 1, x)`."""
    u, grid, dt = observe(c=0.5, D=0.3, frames=8 + STEPS, points=64)
    return OperatorSplitter("advection-diffusion").fit(u[:8], dt, grid.extent), u[8:]


@pytest.fixture(scope="session")
def plane() -> tuple[OperatorSplitter, Tensor]:
    """A hasty fit of Gray-Scott, and the eight frames that follow `(time, 2, x, y)`."""
    physics = GrayScott(Grid((32, 32), (1.0, 1.0)))
    initial = physics.initial_fields(1, torch.Generator().manual_seed(0), "GS")
    mu = {"F": 0.03, "k": 0.06, "reaction": 1.0, "diffusion": 1.0}
    known = {k: torch.tensor([v], dtype=torch.float64) for k, v in mu.items()}
    u = physics.solve(initial, known, torch.arange(6.0 + STEPS, dtype=torch.float64))[0]
    search = Beam(width=1, max_parts=1)
    with no_warnings():
        return OperatorSplitter("gray-scott", search).fit(u[:6], 1.0, (1.0, 1.0)), u[6:]


@pytest.fixture(scope="session")
def on_grid(line: tuple[OperatorSplitter, Tensor]) -> Callable[..., OperatorSplitter]:
    """The same fit, as if these frames `(time, channel, *space)` had been observed."""

    def pretend(frames: Tensor) -> OperatorSplitter:
        splitter = copy.copy(line[0])
        shape = tuple(frames.shape[2:])
        names = tuple(f"u{i}" for i in range(frames.shape[1]))
        times = torch.arange(len(frames), dtype=torch.float64)
        grid = Grid(shape, (1.0,) * len(shape))
        splitter.observed_ = Trajectories(frames[None], times, grid, names)
        return splitter

    return pretend
