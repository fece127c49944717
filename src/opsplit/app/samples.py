"""Systems to play with: an equation, coefficients, an initial field and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

import opsplit
from opsplit.model import bundled
from opsplit.physics import PHYSICS

FIELDS = ("random", "one bump", "two bumps", "wave")
"""Initial fields to choose from; systems of several channels start at random."""
BEYOND = 2.0
"""Sliders go this many times as far as the training did."""


@dataclass(frozen=True)
class Knob:
    """A coefficient, and the range in which a model met it in training."""

    name: str
    term: str
    low: float
    high: float


@dataclass(frozen=True)
class Sample:
    """One simulated system, cut into what is observed and what follows."""

    equation: str
    coefficients: dict[str, float]
    field: str
    seed: int
    noise: float
    observed: opsplit.Trajectories
    future: opsplit.Trajectories


def playable() -> list[str]:
    """Equations that can be simulated and that a bundled model knows."""
    return [name for name in PHYSICS if name in bundled()]


@cache
def knobs(name: str) -> tuple[Knob, ...]:
    """The coefficients of an equation that vary, with their trained ranges."""
    dictionary = opsplit.load_model(name).dictionary
    found = []
    for key, values in dictionary.coefficients.items():
        there = values[values != 0]
        if len(there) and there.min() < there.max():
            term = dictionary.terms[key].text if key in dictionary.terms else ""
            found.append(Knob(key, term, float(there.min()), float(there.max())))
    return tuple(found)


@cache
def constants(name: str) -> dict[str, float]:
    """The coefficients of an equation that have one value only."""
    held = opsplit.load_model(name).dictionary.coefficients
    moving = {knob.name for knob in knobs(name)}
    return {k: float(v.max()) for k, v in held.items() if k not in moving}


def simulate(
    name: str,
    coefficients: dict[str, float],
    field: str = "random",
    frames: int = 16,
    steps: int = 16,
    noise: float = 0.0,
    seed: int = 0,
) -> Sample:
    """Simulate a system and cut it into `frames` observed and `steps` later frames.

    Arguments:
        coefficients: values of the knobs.
        field: one of `FIELDS`.
        noise: white noise on the observed frames, as a share of their standard deviation.
    """
    physics = opsplit.get_physics(name).coarse()
    generator = torch.Generator().manual_seed(seed)
    initial = physics.initial_fields(1, generator, "test")
    if field != "random" and len(physics.channels) == 1:
        initial = _shape(field, physics.grid)[None, None]
    whole = {**constants(name), **coefficients}
    known = {k: torch.tensor([float(v)], dtype=torch.float64) for k, v in whole.items()}
    times = torch.arange(frames + steps, dtype=torch.float64) * physics.dt
    data = physics.solve(initial, known, times).float()
    seen = data[:, :frames]
    size = float(seen.std())
    seen = seen + noise * size * torch.randn(seen.shape, generator=generator)

    def part(frames: Tensor, moments: Tensor) -> opsplit.Trajectories:
        return opsplit.Trajectories(frames, moments, physics.grid, physics.channels)

    observed, future = part(seen, times[:frames]), part(data[:, frames:], times[frames:])
    return Sample(name, dict(coefficients), field, seed, noise, observed, future)


def _shape(field: str, grid: opsplit.Grid) -> Tensor:
    """A smooth periodic field with zero mean and unit deviation."""
    angles = [2 * math.pi * torch.arange(n, dtype=torch.float64) / n for n in grid.shape]
    mesh = torch.meshgrid(*angles, indexing="ij")

    def bump(centre: float, width: float) -> Tensor:
        return torch.stack([torch.cos(a - centre) - 1 for a in mesh]).sum(0).div(width).exp()

    if field == "one bump":
        made = bump(math.pi, 0.15)
    elif field == "two bumps":
        made = bump(2.0, 0.08) - 0.6 * bump(4.2, 0.15)
    else:
        made = torch.stack([torch.sin(2 * a) for a in mesh]).sum(0)
    return (made - made.mean()) / made.std()


def terms_given(sample: Sample) -> np.ndarray | None:
    """The forecast of somebody who knows the terms: least squares, then the solver."""
    physics = opsplit.get_physics(sample.equation).coarse()
    window = sample.observed.data[0]
    found = physics.least_squares(window, sample.observed.dt)
    whole = {**constants(sample.equation), **found}
    known = {k: torch.tensor([v], dtype=torch.float64) for k, v in whole.items()}
    count = len(sample.future.times)
    ahead = sample.observed.dt * torch.arange(1, count + 1, dtype=torch.float64)
    frames = physics.solve(window[-1:].double(), known, ahead)[0].float().numpy()
    return frames if np.isfinite(frames).all() else None
