"""Linear transport and diffusion on a periodic line, solved exactly in Fourier space.

u_t + c u_x = D u_xx          (perturbed: u_t + c u_x + eps u u_x = D u_xx)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from opsplit.fourier import lower_modes, wavenumbers
from opsplit.grid import Grid
from opsplit.integrators import integrating_factor_rk4
from opsplit.physics.base import Coefficients, Physics
from opsplit.terms import Term


@dataclass(frozen=True)
class AdvectionDiffusion(Physics):
    """The paper's first benchmark: 256 points on [0, 16), 100 frames on [0, 10]."""

    name = "advection-diffusion"
    title = "advection-diffusion"
    homogeneous = True
    channels = ("u",)
    terms: ClassVar[dict[str, Term]] = {
        "c": Term("-u_x", order=1, degree=1, signed=True),
        "D": Term("u_xx", order=2, degree=1),
        "epsilon": Term("-u u_x", order=1, degree=2, signed=True),
    }
    splits: ClassVar[dict[str, str]] = {
        "train": "pure advection, c in [0.01, 1], or pure diffusion, D in [0.001, 1]",
        "mixed-0.5": "half advection with diffusion, the other half pure, training ranges",
        "mixed-1.0": "advection with diffusion always, training ranges",
        "A+D": "unseen composition: c and D in [0.01, 1]",
        "c": "unseen range: pure advection, c in [1, 3]",
        "D": "unseen range: pure diffusion, D in [1, 3]",
        "joint": "both unseen: c and D in [0.01, 2]",
        "perturbed": "c = 0.5, D = 0.3 and a Burgers term, epsilon in [0, 1]",
        "warm-up": "what a state may have gone through before it is observed: c and D in [0, 3]",
    }

    grid: Grid = field(default_factory=lambda: Grid((256,), (16.0,)))
    frames: int = 100
    dt: float = 10 / 99

    def sample_coefficients(
        self, split: str, n: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        self.check_split(split)

        def uniform(low: float, high: float) -> Tensor:
            u = torch.rand(n, generator=generator, dtype=torch.float64)
            return low + (high - low) * u

        zero = torch.zeros(n, dtype=torch.float64)
        if split in ("train", "mixed-0.5", "mixed-1.0"):
            c, d, coin, mixed = uniform(0.01, 1), uniform(0.001, 1), uniform(0, 1), uniform(0, 1)
            both = mixed < {"train": 0.0, "mixed-0.5": 0.5, "mixed-1.0": 1.0}[split]
            advects = coin < 0.5
            return {
                "c": torch.where(advects | both, c, zero),
                "D": torch.where(~advects | both, d, zero),
            }
        if split == "c":
            return {"c": uniform(1, 3), "D": zero}
        if split == "D":
            return {"c": zero, "D": uniform(1, 3)}
        if split == "perturbed":
            return {"c": zero + 0.5, "D": zero + 0.3, "epsilon": uniform(0, 1)}
        low, high = {"A+D": (0.01, 1.0), "joint": (0.01, 2.0), "warm-up": (0.0, 3.0)}[split]
        return {"c": uniform(low, high), "D": uniform(low, high)}

    def initial_fields(self, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        """Fractal fields `sum_k a_k k^-p sin(k theta + phi_k)`, zero mean, unit variance.

        The power `p` is uniform in [1, 4] for training and 3 elsewhere. The 256 modes of the
        paper alias on fewer than 512 points, and so they do here.
        """
        if split.startswith(("train", "mixed")):
            power = 1 + 3 * torch.rand(n, generator=generator, dtype=torch.float64)
        else:
            power = torch.full((n,), 3.0, dtype=torch.float64)
        return fractal_fields(power, self.grid, generator)

    def solve(self, initial: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        epsilon = coefficients.get("epsilon")
        if epsilon is not None and bool((epsilon != 0).any()):
            return self._solve_perturbed(initial, coefficients, times)
        (k,) = wavenumbers(self.grid, initial.dtype, initial.device)
        c, d = (self._column(coefficients[name], initial) for name in ("c", "D"))
        symbol = torch.complex(-d * k**2, -c * k)
        moments = times.to(initial)[..., None]
        growth = torch.exp(symbol[:, None] * (moments if times.ndim == 2 else moments[None]))
        spectrum = torch.fft.rfft(initial)[:, None]
        return torch.fft.irfft(spectrum * growth[:, :, None], n=self.grid.shape[0])

    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        (k,) = wavenumbers(self.grid, u.dtype, u.device)
        spectrum = torch.fft.rfft(u)
        n = self.grid.shape[0]
        return {
            "c": torch.fft.irfft(-1j * k * spectrum, n=n),
            "D": torch.fft.irfft(-(k**2) * spectrum, n=n),
        }

    def _solve_perturbed(
        self, initial: Tensor, coefficients: Coefficients, times: Tensor
    ) -> Tensor:
        """Integrating-factor RK4 with 2/3 dealiasing; exact in time for epsilon = 0."""
        (n,) = self.grid.shape
        (k,) = wavenumbers(self.grid, initial.dtype, initial.device)
        c, d, eps = (self._column(coefficients[x], initial) for x in ("c", "D", "epsilon"))
        keep = lower_modes(self.grid, 2 / 3, initial.device)
        linear = torch.complex(-d * k**2, -c * k)
        nonlinear = -0.5j * k * keep * eps

        def burgers(spectrum: Tensor) -> Tensor:
            u = torch.fft.irfft(spectrum * keep, n=n)
            return nonlinear[:, None] * torch.fft.rfft(u * u)

        fastest = float((eps.abs() * initial.abs().amax((1, 2), keepdim=True)[:, 0]).amax())
        limit = 0.4 * self.grid.spacing[0] / max(fastest, 1e-12)
        spectrum, frames = torch.fft.rfft(initial), []
        moments = times.to(initial).expand(len(initial), -1)
        gaps = moments.diff(dim=1, prepend=torch.zeros_like(moments[:, :1]))
        for gap in gaps.unbind(1):
            steps = math.ceil(float(gap.max()) / limit)
            h = gap[:, None, None] / max(1, steps)
            shares = {x: torch.exp(linear[:, None] * h * x) for x in (0.5, 1.0)}
            spectrum = integrating_factor_rk4(partial(_grown, shares), burgers, spectrum, h, steps)
            frames.append(torch.fft.irfft(spectrum, n=n))
        return torch.stack(frames, 1)

    @staticmethod
    def _column(values: Tensor, like: Tensor) -> Tensor:
        return values.to(like)[:, None]


def _grown(factors: dict[float, Tensor], spectrum: Tensor, share: float) -> Tensor:
    """A share of a step of the linear terms."""
    return factors[share] * spectrum


def fractal_fields(
    power: Tensor, grid: Grid, generator: torch.Generator, degree: int = 256
) -> Tensor:
    """Fields `(n, 1, x)` with a power-law spectrum `k^-power` and random phases."""
    n, points = power.numel(), grid.shape[0]
    amplitude = torch.randn(n, degree, generator=generator, dtype=torch.float64)
    phase = 2 * math.pi * torch.rand(n, degree, generator=generator, dtype=torch.float64)
    sign = 1 - 2 * torch.randint(2, (n, 1), generator=generator)
    k = torch.arange(1, degree + 1, dtype=torch.float64)
    weight = sign * amplitude * k ** -power[:, None]
    # sin(k theta + phi) = Im(e^{i phi} e^{i k theta}): mode k falls on FFT bin k mod n.
    spectrum = torch.zeros(n, points, dtype=torch.complex128)
    spectrum.index_add_(1, k.long() % points, torch.polar(weight, phase))
    u = torch.fft.ifft(spectrum, norm="forward").imag
    u = u - u.mean(1, keepdim=True)
    return (u / u.std(1, correction=0, keepdim=True).clamp_min(1e-8))[:, None]
