"""Two species that diffuse and react on a periodic square or cube: the paper's third benchmark.

A_t = D_A lap A - delta A B^2 + F (1 - A)
B_t = D_B lap B + delta A B^2 - (F + k) B

Training sees two mechanisms alone: *diffusion with killing* (delta = F = 0) and *reaction with
feeding* (no diffusion, k = 0). The coefficients `diffusion` and `reaction` (delta) are 0 or 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from opsplit.fourier import field_of, spectrum_of, squared_wavenumber
from opsplit.grid import Grid
from opsplit.integrators import integrating_factor_rk4
from opsplit.physics.base import Coefficients, Physics
from opsplit.terms import Term

DIFFUSIVITY = (2e-5, 1e-5)
FEEDS = tuple(round(0.005 * i, 3) for i in range(1, 21))
KILLS = tuple(round(0.051 + 0.001 * i, 3) for i in range(20))
SUBSTEP = 0.25
"""Longest Strang step; its error after 40 time units is about 1e-4."""


@dataclass(frozen=True)
class GrayScott(Physics):
    """128 x 128 points on [-1, 1)^2, 50 frames one time unit apart.

    Fields start from clusters of Gaussians and first live through the full dynamics for up to
    100 time units, before training and test trajectories alike.
    """

    name = "gray-scott"
    title = "Gray-Scott"
    remark = "a quarter of the paper's square at its spacing"
    channels = ("A", "B")
    terms: ClassVar[dict[str, Term]] = {
        "F": Term("(1 - A, -B)", order=0),
        "k": Term("(0, -B)", order=0, degree=1),
        "reaction": Term("(-A B^2, A B^2)", order=0, degree=3),
        "diffusion": Term("(2e-5 lap A, 1e-5 lap B)", order=2, degree=1),
    }
    splits: ClassVar[dict[str, str]] = {
        "train": "diffusion with killing, 20 values of k, or reaction with feeding, 20 values of F",
        "GS": "unseen composition: reaction and diffusion, all pairs of F and k",
    }

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"per_environment": 512},
        # A quarter of the square with the same spacing and as many Gaussians per area.
        "cpu": {"per_environment": 8, "grid": Grid((64, 64), (1.0, 1.0))},
    }

    trained: ClassVar[dict[str, int]] = {"code": 2, "steps": 100_000}

    grid: Grid = field(default_factory=lambda: Grid((128, 128), (2.0, 2.0)))
    frames: int = 50
    dt: float = 1.0
    per_environment: int = 8

    def environments(self) -> dict[str, Tensor]:
        """Diffusion with every k, then reaction with every F."""
        none = torch.zeros(20, dtype=torch.float64)
        feed = torch.cat([none, torch.tensor(FEEDS, dtype=torch.float64)])
        kill = torch.cat([torch.tensor(KILLS, dtype=torch.float64), none])
        reaction = torch.cat([none, none + 1])
        return {"F": feed, "k": kill, "reaction": reaction, "diffusion": 1 - reaction}

    def sample_coefficients(
        self, split: str, n: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        self.check_split(split)

        def choose(values: tuple[float, ...]) -> Tensor:
            return torch.tensor(values, dtype=torch.float64)[
                torch.randint(len(values), (n,), generator=generator)
            ]

        feed, kill = choose(FEEDS), choose(KILLS)
        one, zero = torch.ones(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
        if split == "GS":
            return {"F": feed, "k": kill, "reaction": one, "diffusion": one}
        reacts = torch.rand(n, generator=generator) < 0.5
        return {
            "F": torch.where(reacts, feed, zero),
            "k": torch.where(reacts, zero, kill),
            "reaction": torch.where(reacts, one, zero),
            "diffusion": torch.where(reacts, zero, one),
        }

    def initial_fields(self, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        """Clusters of Gaussians after a random time of the full dynamics."""
        fields = torch.stack(
            [torch.stack([self._clusters(generator) for _ in range(2)]) for _ in range(n)]
        )
        fields[:, 0] = 1 - fields[:, 0]
        fields = _to_unit_range(fields)
        full = self.sample_coefficients("GS", n, generator)
        time = 100 * torch.rand(n, 1, generator=generator, dtype=torch.float64)
        return self.solve(fields, full, time)[:, 0]

    def _clusters(self, generator: torch.Generator) -> Tensor:
        """A sum of periodic Gaussians, 10 to 100 on the whole square."""
        share = math.prod(self.grid.extent) / 2**self.grid.ndim
        count = math.ceil(share * int(torch.randint(10, 101, (1,), generator=generator)))
        draws = torch.rand(2 + self.grid.ndim, count, generator=generator, dtype=torch.float64)
        height, sharpness = 1 + 2 * draws[0], 150 + 150 * draws[1]
        axes = []
        for axis in range(self.grid.ndim):
            length, points = self.grid.extent[axis], self.grid.shape[axis]
            x = length * torch.arange(points, dtype=torch.float64) / points
            gap = (x - length * draws[2 + axis][:, None]).abs()
            gap = torch.minimum(gap, length - gap)
            axes.append(torch.exp(-sharpness[:, None] * gap**2))
        names = "xyz"[: self.grid.ndim]
        return torch.einsum(f"g,{','.join(f'g{a}' for a in names)}->{names}", height, *axes)

    def solve(self, initial: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        """Strang splitting: diffusion with killing exactly, reaction with feeding by RK4."""
        moments = times.to(initial)
        moments = moments.expand(len(initial), -1) if moments.ndim == 1 else moments
        feed, kill, reaction, diffusion = (
            coefficients[name].to(initial).reshape(-1, *[1] * (1 + self.grid.ndim))
            for name in ("F", "k", "reaction", "diffusion")
        )
        rate = self._damping(initial) * diffusion
        rate = rate + torch.cat([torch.zeros_like(kill), kill], 1)
        mixed = bool((reaction != 0).any())
        u, frames, now = initial, [], torch.zeros_like(moments[:, 0])

        def linear(v: Tensor, h: Tensor) -> Tensor:
            return field_of(spectrum_of(v, self.grid.ndim) * torch.exp(-rate * h), self.grid.shape)

        def react(v: Tensor) -> Tensor:
            a, b = v[:, :1], v[:, 1:]
            turned = reaction * a * b * b
            return torch.cat([feed * (1 - a) - turned, turned - feed * b], 1)

        for moment in moments.unbind(1):
            gap = moment - now
            steps = math.ceil(float(gap.max()) / SUBSTEP - 1e-9) if mixed else 1
            h = (gap / max(1, steps)).reshape(-1, *[1] * (1 + self.grid.ndim))
            for _ in range(steps):
                u = linear(u, h / 2 if mixed else h)
                if mixed:
                    u = integrating_factor_rk4(_unchanged, react, u, h, 1)
                    u = linear(u, h / 2)
            frames.append(u)
            now = moment
        return torch.stack(frames, 1)

    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        a, b = u[:, :1], u[:, 1:]
        turned = a * b * b
        modes = -self._damping(u) * spectrum_of(u, self.grid.ndim)
        return {
            "F": torch.cat([1 - a, -b], 1),
            "k": torch.cat([0 * a, -b], 1),
            "reaction": torch.cat([-turned, turned], 1),
            "diffusion": field_of(modes, self.grid.shape),
        }

    def _damping(self, like: Tensor) -> Tensor:
        """How fast diffusion damps every mode of either species, `(species, *modes)`."""
        square = squared_wavenumber(self.grid, like.dtype, like.device)
        return torch.tensor(DIFFUSIVITY).to(like).reshape(2, *[1] * self.grid.ndim) * square


def _unchanged(u: Tensor, share: float) -> Tensor:
    """Reaction and feeding have no linear part to be taken exactly."""
    return u


def _to_unit_range(fields: Tensor) -> Tensor:
    """Every field stretched to [0, 1]."""
    space = tuple(range(2, fields.ndim))
    low, high = fields.amin(space, keepdim=True), fields.amax(space, keepdim=True)
    return (fields - low) / (high - low).clamp_min(1e-12)
