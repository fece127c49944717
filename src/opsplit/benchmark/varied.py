"""Trajectories unlike each other: fields of several kinds, other frame times, with noise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from opsplit.benchmark.tasks import OBSERVED, Column, test_window
from opsplit.fourier import low_pass
from opsplit.grid import Grid
from opsplit.physics import get_physics
from opsplit.trajectories import Trajectories

KINDS = ("own", "blobs", "few modes", "fronts")
"""Initial fields: those of the equation, Gaussian blobs, at most four modes, smooth fronts."""
NOISE = 0.01
"""Every third round of kinds has white noise of this share of the deviation."""


def varied_window(column: Column, number: int, seed: int) -> tuple[Trajectories, Trajectories, str]:
    """One trajectory: the observed frames, the frames to predict, and the kind of its field.

    Numbers go through the kinds of fields. Frames of all but the equation's own kind are up to
    twice as near or as far apart. Systems have fields of their own kind only: their channels are
    concentrations, which not every field can be.
    """
    physics = get_physics(column.physics)
    kinds = KINDS if len(physics.channels) == 1 else KINDS[:1]
    kind = kinds[number % len(kinds)]
    noisy = number // len(kinds) % 3 == 2
    generator = torch.Generator().manual_seed(seed * 100_003 + number)
    if kind == KINDS[0]:
        observed, future = test_window(column, number, seed)
    else:
        coefficients = physics.sample_coefficients(column.split, 1, generator)
        usual = physics.initial_fields(1, generator, column.split)
        shape = shaped_field(kind, physics.grid, generator)
        initial = usual.mean() + usual.std() * (shape - shape.mean()) / shape.std()
        dt = physics.dt * 2 ** (2 * float(torch.rand(1, generator=generator)) - 1)
        times = torch.arange(OBSERVED + column.horizon, dtype=torch.float64) * dt
        data = physics.solve(initial[None, None], coefficients, times).float()
        whole = Trajectories(data, times, physics.grid, physics.channels, coefficients)
        observed, future = whole.windows(OBSERVED, 0), whole.windows(column.horizon, OBSERVED)
    if noisy:
        size = NOISE * observed.data.std()
        noise = torch.randn(observed.data.shape, generator=generator)
        observed = Trajectories(
            observed.data + size * noise, observed.times, observed.grid, observed.channels,
            observed.coefficients,
        )  # fmt: skip
    return observed, future, kind


def shaped_field(kind: str, grid: Grid, generator: torch.Generator) -> Tensor:
    """A random field `(*space)` of a kind, without a size of its own."""
    at = torch.meshgrid(*(x / length for x, length in zip(grid.axes(), grid.extent, strict=True)),
                        indexing="ij")  # fmt: skip

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    u = torch.zeros(grid.shape, dtype=torch.float64)
    if kind == "blobs":
        for _ in range(1 + int(3 * draw(1))):
            centre, width = draw(grid.ndim), 0.03 + 0.09 * float(draw(1))
            away = torch.stack([_around(x - c) for x, c in zip(at, centre, strict=True)])
            bump = torch.exp(-away.square().sum(0) / (2 * width**2))
            u += bump if float(draw(1)) < 0.7 else -bump
    elif kind == "few modes":
        for _ in range(2 + int(3 * draw(1))):
            k = [int(n) for n in 1 + (4 * draw(grid.ndim)).floor()]
            phase = sum(n * x for n, x in zip(k, at, strict=True)) + draw(1)
            u += (0.3 + draw(1)) * torch.sin(2 * math.pi * phase)
    else:
        for _ in range(1 + int(2 * draw(1))):
            centre, half, steep = draw(1), 0.1 + 0.2 * draw(1), 20 + 30 * float(draw(1))
            axis = at[int(grid.ndim * draw(1))]
            u += torch.tanh(steep * (half - _around(axis - centre).abs()))
        # What the grid does not resolve would be an error of the simulation, not of the fit.
        u = low_pass(u, grid, 0.5)
    return u


def _around(x: Tensor) -> Tensor:
    """Distances on a circle of length one."""
    return (x + 0.5).remainder(1.0) - 0.5
