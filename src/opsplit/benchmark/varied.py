"""Trajectories unlike each other: fields of several kinds, other boxes and times, with noise."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from opsplit.benchmark.tasks import OBSERVED, Column, columns, test_window
from opsplit.fourier import low_pass
from opsplit.grid import Grid
from opsplit.physics import get_physics
from opsplit.trajectories import Trajectories

KINDS = ("own", "blobs", "few modes", "fronts", "fractal")
"""Initial fields: those of the equation, Gaussian blobs, at most four modes, smooth fronts, and
all modes with powers that fall by some exponent."""
BOX = 1.5
APART = 7919
"""Between the numbers of columns, in the seeds of everything that is drawn."""
NOISE = 0.01
"""Every third round of kinds has white noise of this share of the deviation."""


def varied_window(column: Column, number: int, seed: int) -> tuple[Trajectories, Trajectories, str]:
    """One trajectory: the observed frames, the frames to predict, and the kind of its field.

    Numbers go through the kinds of fields. Frames of all but the equation's own kind are up to
    twice as near or as far apart, in a box that is up to `BOX` times as small or as large.
    """
    kind = KINDS[number % len(KINDS)]
    noisy = number // len(KINDS) % 3 == 2
    # Columns share no fields and no noise: what one of them shows says nothing of the others.
    fresh = number + APART * list(columns(column.physics)).index(column.split)
    generator = torch.Generator().manual_seed(seed * 100_003 + fresh)
    if kind == KINDS[0]:
        observed, future = test_window(column, fresh, seed)
    else:
        usual = get_physics(column.physics)
        coefficients = usual.sample_coefficients(column.split, 1, generator)
        fields = usual.initial_fields(1, generator, column.split)[0]
        wider, later = (2 * torch.rand(2, generator=generator, dtype=torch.float64) - 1).tolist()
        extent = tuple(length * BOX**wider for length in usual.grid.extent)
        physics = copy(usual)
        object.__setattr__(physics, "grid", replace(usual.grid, extent=extent))
        initial = like_usual(fields, shaped_field(kind, physics.grid, generator))
        times = torch.arange(OBSERVED + column.horizon, dtype=torch.float64)
        times = times * physics.dt * 2**later
        data = physics.solve(initial[None], coefficients, times).float()
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


def like_usual(fields: Tensor, shape: Tensor) -> Tensor:
    """A shape `(*space)` as a state `(channel, *space)` like usual fields of an equation.

    A single channel gets their mean and deviation. Channels of a system go together, from one usual
    state to another one: between two concentrations lie concentrations.
    """
    if len(fields) == 1:
        return fields.mean() + fields.std() * ((shape - shape.mean()) / shape.std())[None]
    points = fields.flatten(1)
    low, high = (points[:, int(i)] for i in (points[0].argmin(), points[0].argmax()))
    share = (shape - shape.min()) / (shape.max() - shape.min())
    return torch.stack([a + (b - a) * share for a, b in zip(low, high, strict=True)])


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
    elif kind == "fractal":
        fall = 1 + 2 * float(draw(1))
        white = torch.randn(grid.shape, generator=generator, dtype=torch.float64)
        modes = torch.fft.fftn(white) / mode_numbers(grid).clamp_min(1.0) ** (fall / 2)
        u = low_pass(torch.fft.ifftn(modes).real, grid, 0.5)
    else:
        for _ in range(1 + int(2 * draw(1))):
            centre, half, steep = draw(1), 0.1 + 0.2 * draw(1), 20 + 30 * float(draw(1))
            axis = at[int(grid.ndim * draw(1))]
            u += torch.tanh(steep * (half - _around(axis - centre).abs()))
        # What the grid does not resolve would be an error of the simulation, not of the fit.
        u = low_pass(u, grid, 0.5)
    return u


def mode_numbers(grid: Grid) -> Tensor:
    """Distance of every mode from the mean, in waves over the box."""
    each = [torch.fft.fftfreq(n, 1 / n, dtype=torch.float64) for n in grid.shape]
    return torch.stack(torch.meshgrid(*each, indexing="ij")).square().sum(0).sqrt()


def _around(x: Tensor) -> Tensor:
    """Distances on a circle of length one."""
    return (x + 0.5).remainder(1.0) - 0.5
