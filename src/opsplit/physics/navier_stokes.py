"""Two-dimensional flow in vorticity form on a periodic square: the paper's fourth benchmark.

w_t + advection (v . grad w) = nu lap w,    v = (-psi_y, psi_x),    -lap psi = w

A dealiased pseudo-spectral method; viscosity exactly by an integrating factor, advection by RK4.
Training sees Euler's equations (nu = 0) and the heat equation (advection = 0) alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from opsplit.grid import Grid
from opsplit.physics.base import Coefficients, Physics

VISCOSITIES = tuple(float(x) for x in torch.logspace(-4, -2, 16, dtype=torch.float64))
COURANT = 0.5
"""Largest share of a cell that the flow may cross in one step."""


@dataclass(frozen=True)
class NavierStokes(Physics):
    """Stored on 128 x 128 points of [0, 2 pi)^2, 50 frames on [0, 4].

    Arguments:
        fine: points per axis of the simulation; frames are truncated spectrally to the grid.
    """

    name = "navier-stokes"
    channels = ("w",)
    terms: ClassVar[dict[str, str]] = {"nu": "lap w", "advection": "-v . grad w"}
    splits: ClassVar[dict[str, str]] = {
        "train": "Euler (advection alone) or heat with one of 16 viscosities, 1e-4 to 1e-2",
        "NS": "unseen composition: both, all viscosities",
    }

    grid: Grid = field(default_factory=lambda: Grid((128, 128), (2 * math.pi, 2 * math.pi)))
    frames: int = 50
    dt: float = 4 / 49
    fine: int = 256

    def sample_coefficients(
        self, split: str, n: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        self.check_split(split)
        number = torch.randint(len(VISCOSITIES), (n,), generator=generator)
        nu = torch.tensor(VISCOSITIES, dtype=torch.float64)[number]
        one, zero = torch.ones(n, dtype=torch.float64), torch.zeros(n, dtype=torch.float64)
        if split == "NS":
            return {"nu": nu, "advection": one}
        flows = torch.rand(n, generator=generator) < 0.5
        return {
            "nu": torch.where(flows, zero, nu),
            "advection": torch.where(flows, one, zero),
        }

    def initial_fields(self, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        """Products of sines of wave number 1 to 5, amplitudes of variance 10 / (n + m)."""
        modes = torch.arange(1, 6, dtype=torch.float64)
        variance = 10 / (modes[:, None] + modes)
        size = torch.randn(n, 5, 5, generator=generator, dtype=torch.float64) * variance.sqrt()
        phase = 2 * math.pi * torch.rand(2, n, 5, 5, generator=generator, dtype=torch.float64)
        waves = []
        for axis in (0, 1):
            points = self.grid.shape[axis]
            angle = 2 * math.pi * torch.arange(points, dtype=torch.float64) / points
            number = modes[:, None, None] if axis == 0 else modes[None, :, None]
            waves.append(torch.sin(number * angle + phase[axis][..., None]))
        return torch.einsum("nab,nabx,naby->nxy", size, *waves)[:, None]

    def solve(self, initial: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        moments = times.to(initial)
        moments = moments.expand(len(initial), -1) if moments.ndim == 1 else moments
        nu, advection = (
            coefficients[name].to(initial)[:, None, None, None] for name in ("nu", "advection")
        )
        flows = bool((advection != 0).any())
        points = self.fine if flows else self.grid.shape[0]
        grid = Grid((points, points), self.grid.extent)
        kx, ky = grid.wavenumbers(initial.dtype, initial.device)
        k2 = kx**2 + ky**2
        inverse = torch.where(k2 > 0, 1 / k2.clamp_min(1e-30), torch.zeros_like(k2))
        limit = 2 / 3 * math.pi / grid.spacing[0]
        keep = ((kx.abs() < limit) & (ky.abs() < limit)).to(initial.dtype)
        spectrum = resample(torch.fft.rfft2(initial), self.grid.shape, grid.shape)

        def velocity(w: Tensor) -> tuple[Tensor, Tensor]:
            psi = w * inverse
            return tuple(torch.fft.irfft2(x, s=grid.shape) for x in (-1j * ky * psi, 1j * kx * psi))

        def rate(w: Tensor) -> Tensor:
            w = w * keep
            u, v = velocity(w)
            slope = [torch.fft.irfft2(1j * k * w, s=grid.shape) for k in (kx, ky)]
            return -advection * keep * torch.fft.rfft2(u * slope[0] + v * slope[1])

        frames, now = [], torch.zeros_like(moments[:, 0])
        for moment in moments.unbind(1):
            gap = moment - now
            steps = 1
            if flows:
                u, v = velocity(spectrum)
                fastest = (advection * (u.abs() + v.abs())).amax((1, 2, 3)).mul(gap).amax()
                steps = max(1, math.ceil(float(fastest) / (COURANT * grid.spacing[0])))
            h = (gap / steps)[:, None, None, None]
            half = torch.exp(-nu * k2 * h / 2)
            full = half * half
            for _ in range(steps if float(gap.max()) > 0 else 0):
                if not flows:
                    spectrum = full * spectrum
                    continue
                k1 = rate(spectrum)
                k2_ = rate(half * (spectrum + h / 2 * k1))
                k3 = rate(half * spectrum + h / 2 * k2_)
                k4 = rate(full * spectrum + h * half * k3)
                spectrum = full * (spectrum + h / 6 * k1) + h / 6 * (2 * half * (k2_ + k3) + k4)
            kept = resample(spectrum, grid.shape, self.grid.shape)
            frames.append(torch.fft.irfft2(kept, s=self.grid.shape))
            now = moment
        return torch.stack(frames, 1)

    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        kx, ky = self.grid.wavenumbers(u.dtype, u.device)
        k2 = kx**2 + ky**2
        spectrum, space = torch.fft.rfft2(u), u.shape[-2:]
        psi = torch.where(k2 > 0, spectrum / k2.clamp_min(1e-30), torch.zeros_like(spectrum))
        along, across = (torch.fft.irfft2(1j * k * psi, s=space) for k in (kx, ky))
        slopes = [torch.fft.irfft2(1j * k * spectrum, s=space) for k in (kx, ky)]
        return {
            "nu": torch.fft.irfft2(-k2 * spectrum, s=space),
            "advection": across * slopes[0] - along * slopes[1],
        }


def resample(spectrum: Tensor, old: tuple[int, ...], new: tuple[int, ...]) -> Tensor:
    """The same field on another grid: modes that both can hold, without the last of either."""
    if tuple(old) == tuple(new):
        return spectrum
    n = min(old[0], new[0]) // 2
    out = spectrum.new_zeros(*spectrum.shape[:-2], new[0], new[1] // 2 + 1)
    out[..., :n, :n] = spectrum[..., :n, :n]
    out[..., 1 - n :, :n] = spectrum[..., 1 - n :, :n]
    return out * (math.prod(new) / math.prod(old))
