"""Nonlinear advection, diffusion and dispersion on a periodic line: the paper's second benchmark.

u_t + alpha (u^2)_x = beta u_xx - gamma u_xxx

The flux by fifth-order WENO with Godunov's Riemann solver, for fields that form shocks; the
linear terms exactly, by an integrating factor in Fourier space.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from opsplit.fourier import wavenumbers
from opsplit.grid import Grid
from opsplit.integrators import integrating_factor_rk4
from opsplit.physics.base import Coefficients, Physics
from opsplit.terms import Term
from opsplit.weno import face_values

VALUES = 128
"""Training values of every coefficient."""
COURANT = 0.4
"""Largest share of a cell that a wave may cross in one step."""


@dataclass(frozen=True)
class Combined(Physics):
    """256 points on [0, 16), 250 frames on [0, 4]; coefficients as in the paper's text.

    Arguments:
        histories: share of training trajectories that begin with a field of other dynamics.
    """

    name = "combined"
    title = "the combined equation"
    channels = ("u",)
    terms: ClassVar[dict[str, Term]] = {
        "alpha": Term("-(u^2)_x", order=1, degree=2, signed=True),
        "beta": Term("u_xx", order=2, degree=1),
        "gamma": Term("-u_xxx", order=3, degree=1, signed=True),
    }
    splits: ClassVar[dict[str, str]] = {
        "train": "one mechanism: alpha in [0, 1], beta in [0, 0.4] or gamma in [0, 1]",
        "NA+D": "unseen composition: nonlinear advection and diffusion",
        "NA+Disp": "unseen composition: nonlinear advection and dispersion",
        "D+Disp": "unseen composition: diffusion and dispersion",
        "all3": "unseen composition of all three",
        "alpha": "unseen range: nonlinear advection with alpha in [1, 2]",
        "gamma": "unseen range: dispersion with gamma in [1, 2]",
    }
    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "alpha": (0.0, 1.0),
        "beta": (0.0, 0.4),
        "gamma": (0.0, 1.0),
    }
    active: ClassVar[dict[str, tuple[str, ...]]] = {
        "NA+D": ("alpha", "beta"),
        "NA+Disp": ("alpha", "gamma"),
        "D+Disp": ("beta", "gamma"),
        "all3": ("alpha", "beta", "gamma"),
    }

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {"per_environment": 64},
        "cpu": {"per_environment": 8, "histories": 0.5},
    }

    trained: ClassVar[dict[str, int]] = {"code": 3, "steps": 300_000}

    grid: Grid = field(default_factory=lambda: Grid((256,), (16.0,)))
    frames: int = 250
    dt: float = 4 / 249
    per_environment: int = 8
    histories: float = 0.0

    def environments(self) -> dict[str, Tensor]:
        """128 values of each coefficient, the others zero."""
        values = torch.arange(1, VALUES + 1, dtype=torch.float64) / VALUES
        table = torch.zeros(len(self.ranges), len(self.ranges), VALUES, dtype=torch.float64)
        for i, (low, high) in enumerate(self.ranges.values()):
            table[i, i] = low + (high - low) * values
        return dict(zip(self.ranges, table.flatten(1), strict=True))

    def training_fields(self, coefficients: Coefficients, generator: torch.Generator) -> Tensor:
        """Sines, of which some have gone through two other single mechanisms before.

        A part of a composition meets the fronts and wave trains that the other parts make.
        """
        n = len(coefficients["alpha"])
        fields = self.initial_fields(n, generator, "train")
        chosen = torch.rand(n, generator=generator) < self.histories
        for _ in range(2):
            before = self.sample_coefficients("train", n, generator)
            spans = torch.rand(n, 1, generator=generator, dtype=torch.float64)
            fields = torch.where(
                chosen[:, None, None], self.solve(fields, before, spans)[:, 0], fields
            )
        return fields

    def sample_coefficients(
        self, split: str, n: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        self.check_split(split)
        drawn = {
            name: low + (high - low) * torch.rand(n, generator=generator, dtype=torch.float64)
            for name, (low, high) in self.ranges.items()
        }
        zero = torch.zeros(n, dtype=torch.float64)
        if split in ("alpha", "gamma"):
            return {name: 1 + v if name == split else zero for name, v in drawn.items()}
        if split == "train":
            which = torch.randint(3, (n,), generator=generator)
            return {k: torch.where(which == i, v, zero) for i, (k, v) in enumerate(drawn.items())}
        return {k: v if k in self.active[split] else zero for k, v in drawn.items()}

    def initial_fields(self, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        """Five sines of wave number 1 to 5, amplitudes in [-1/2, 1/2], any phase."""
        amplitude, phase = torch.rand(2, n, 5, 1, generator=generator, dtype=torch.float64)
        number = torch.randint(1, 6, (n, 5, 1), generator=generator)
        (points,) = self.grid.shape
        x = 2 * math.pi * torch.arange(points, dtype=torch.float64) / points
        waves = (amplitude - 0.5) * torch.sin(number * x + 2 * math.pi * phase)
        return waves.sum(1)[:, None]

    def solve(self, initial: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        moments = times.to(initial)
        moments = moments.expand(len(initial), -1) if moments.ndim == 1 else moments
        alpha = coefficients["alpha"].to(initial)
        bent = alpha != 0
        out = initial.new_empty(*moments.shape, *initial.shape[1:])
        for chosen, solver in ((~bent, self._solve_linear), (bent, self._solve_bent)):
            if bool(chosen.any()):
                mine = {k: v.to(initial)[chosen] for k, v in coefficients.items()}
                out[chosen] = solver(initial[chosen], mine, moments[chosen])
        return out

    def retrace(
        self, frames: Tensor, coefficients: Coefficients, dt: float
    ) -> tuple[Tensor, Tensor]:
        """Allows for the profile of a shock, which depends on the length of the steps."""
        error, allowed = super().retrace(frames, coefficients, dt)
        if not bool((coefficients["alpha"] != 0).any()):
            return error, allowed
        same = {name: value.expand(len(frames) - 1) for name, value in coefficients.items()}
        moments = torch.arange(1, 9, dtype=frames.dtype) * (dt / 8)
        usual, short = (self.solve(frames[:-1], same, t)[:, -1] for t in (moments[-1:], moments))
        change = frames.diff(dim=0).flatten(1).norm(dim=1).clamp_min(1e-30)
        effect = float(((usual - short).flatten(1).norm(dim=1) / change).max())
        return error, allowed + min(0.05, 10 * effect)

    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        (k,) = wavenumbers(self.grid, u.dtype, u.device)
        n = self.grid.shape[0]
        spectrum, square = torch.fft.rfft(u), torch.fft.rfft(u * u)
        return {
            "alpha": torch.fft.irfft(-1j * k * square, n=n),
            "beta": torch.fft.irfft(-(k**2) * spectrum, n=n),
            "gamma": torch.fft.irfft(1j * k**3 * spectrum, n=n),
        }

    def _symbol(self, coefficients: Coefficients, like: Tensor) -> Tensor:
        """`-beta k^2 + i gamma k^3`, `(n, 1, modes)`."""
        (k,) = wavenumbers(self.grid, like.dtype, like.device)
        beta, gamma = (coefficients[name][:, None, None] for name in ("beta", "gamma"))
        return torch.complex(-beta * k**2, gamma * k**3)

    def _solve_linear(self, u: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        symbol = self._symbol(coefficients, u)
        growth = torch.exp(symbol[:, None] * times[:, :, None, None])
        return torch.fft.irfft(torch.fft.rfft(u)[:, None] * growth, n=u.shape[-1])

    def _solve_bent(self, u: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        """Integrating-factor RK4; every trajectory steps by its own length, in equal numbers."""
        n, alpha = u.shape[-1], coefficients["alpha"][:, None, None]
        symbol, spacing = self._symbol(coefficients, u), self.grid.spacing[0]
        linear = bool((symbol.abs() > 0).any())

        def carry(factors: dict[float, Tensor], v: Tensor, share: float) -> Tensor:
            return torch.fft.irfft(torch.fft.rfft(v) * factors[share], n=n) if linear else v

        def rate(v: Tensor) -> Tensor:
            return -alpha * godunov_difference(v, spacing)

        frames, now = [], torch.zeros_like(times[:, 0])
        for moment in times.unbind(1):
            gap = moment - now
            # Waves of u^2 run at 2 alpha u; dispersion may steepen them, hence a fresh look.
            fastest = float((2 * alpha * u.abs()).amax((1, 2)).mul(gap).amax())
            steps = max(1, math.ceil(fastest / (COURANT * spacing)))
            h = (gap / steps)[:, None, None]
            if float(gap.max()) > 0:
                shares = {x: torch.exp(symbol * (h * x)) for x in (0.5, 1.0)}
                u = integrating_factor_rk4(partial(carry, shares), rate, u, h, steps)
            frames.append(u)
            now = moment
        return torch.stack(frames, 1)


def godunov_difference(u: Tensor, spacing: float) -> Tensor:
    """`(u^2)_x` of cell averages on a periodic line, conservative."""
    left, right = face_values(u)
    low, high = left * left, right * right
    rising = torch.where((left < 0) & (right > 0), torch.zeros_like(low), torch.minimum(low, high))
    flux = torch.where(left <= right, rising, torch.maximum(low, high))
    return (flux - flux.roll(1, -1)) / spacing
