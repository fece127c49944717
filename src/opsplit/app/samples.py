"""Systems to play with: an equation, coefficients, an initial field and noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

import opsplit
from opsplit.app.pad import Drawing, drawn_field
from opsplit.model import bundled
from opsplit.physics import PHYSICS
from opsplit.predict.identify import equation as written_equation

DRAWN = "draw your own"
FIELDS = ("random", "one bump", "two bumps", "wave")
"""Initial fields to choose from, beside a drawing."""
USUAL = 4
"""Random fields that show the range of every channel."""
TOGETHER = 3
"""Mechanisms that act together until somebody moves a slider."""
BEYOND = 2.0
"""Sliders go this many times as far as the training did."""


@dataclass(frozen=True)
class Knob:
    """A coefficient, and the range in which a model met it in training."""

    name: str
    term: str
    low: float
    high: float
    acts: bool = True
    """Whether it acts before somebody moves its slider."""

    @property
    def start(self) -> float:
        return float(f"{self.low + 0.6 * (self.high - self.low):.2g}") if self.acts else 0.0

    @property
    def ends(self) -> tuple[float, float]:
        """How far the slider goes: beyond training, to both sides if both signs were met."""
        most = float(f"{BEYOND * self.high:.2g}")
        return (-most if self.low < 0 else 0.0), most


@dataclass(frozen=True)
class Sample:
    """One simulated system, cut into what is observed and what follows."""

    equation: str
    coefficients: dict[str, float]
    field: str | Drawing
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
    found: list[Knob] = []
    for key, values in dictionary.coefficients.items():
        there = values[values != 0]
        if len(there) and there.min() < there.max():
            term = dictionary.terms[key].text if key in dictionary.terms else ""
            acts = len(found) < TOGETHER
            found.append(Knob(key, term, float(there.min()), float(there.max()), acts))
    return tuple(found)


@cache
def constants(name: str) -> dict[str, float]:
    """The coefficients of an equation that have one value only."""
    held = opsplit.load_model(name).dictionary.coefficients
    moving = {knob.name for knob in knobs(name)}
    return {k: float(v.max()) for k, v in held.items() if k not in moving}


def equation(name: str, coefficients: dict[str, float]) -> opsplit.Equation:
    """The equation that is simulated, with all its numbers."""
    model = opsplit.load_model(name)
    terms = {key: term.text for key, term in model.dictionary.terms.items()}
    written = written_equation({**coefficients, **constants(name)}, terms)
    return written.renamed({key: key for key in opsplit.get_physics(name).channels})


def simulate(
    name: str,
    coefficients: dict[str, float],
    field: str | Drawing = "random",
    frames: int = 16,
    steps: int = 16,
    noise: float = 0.0,
    seed: int = 0,
) -> Sample:
    """Simulate a system and cut it into `frames` observed and `steps` later frames.

    Arguments:
        coefficients: values of the knobs.
        field: one of `FIELDS`, or the values of a drawing.
        noise: white noise on the observed frames, as a share of their standard deviation.
    """
    physics = opsplit.get_physics(name).coarse()
    generator = torch.Generator().manual_seed(seed)
    grid = physics.grid
    usual = physics.initial_fields(USUAL, generator, "test")
    if field == "random":
        initial = _liveliest(usual)
    else:
        pattern = _shape(field, grid) if isinstance(field, str) else drawn_field(field, grid)
        initial = _in_channels(pattern, usual)
    whole = {**constants(name), **coefficients}
    known = {k: torch.tensor([float(v)], dtype=torch.float64) for k, v in whole.items()}
    times = torch.arange(frames + steps, dtype=torch.float64) * physics.dt
    data = physics.solve(initial, known, times).float()
    seen = data[:, :frames]
    size = float(seen.std())
    seen = seen + noise * size * torch.randn(seen.shape, generator=generator)

    def part(frames: Tensor, moments: Tensor) -> opsplit.Trajectories:
        return opsplit.Trajectories(frames, moments, grid, physics.channels)

    observed, future = part(seen, times[:frames]), part(data[:, frames:], times[frames:])
    return Sample(name, dict(coefficients), field, seed, noise, observed, future)


def _liveliest(fields: Tensor) -> Tensor:
    """The field of which the calmest channel varies most: some patterns have died out already."""
    spread = fields.flatten(2).std(2)
    best = (spread / spread.amax(0)).amin(1).argmax()
    return fields[best : best + 1]


def _shape(field: str, grid: opsplit.Grid) -> Tensor:
    """A smooth periodic field."""
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
    return made


def _in_channels(pattern: Tensor, usual: Tensor) -> Tensor:
    """A pattern as the initial fields of all channels, like the `usual` ones.

    One channel gets zero mean and unit deviation. Several get their usual range, and those that
    usually fall where the last one rises do so here.
    """
    if usual.shape[1] == 1:
        return ((pattern - pattern.mean()) / pattern.std())[None, None]
    share = (pattern - pattern.min()) / (pattern.max() - pattern.min())
    flat = usual.transpose(0, 1).flatten(1)
    sense = torch.corrcoef(flat)[-1].reshape(-1, *[1] * pattern.ndim)
    low, high = (end.reshape(sense.shape) for end in (flat.amin(1), flat.amax(1)))
    return (low + (high - low) * torch.where(sense < 0, 1 - share, share))[None]


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
