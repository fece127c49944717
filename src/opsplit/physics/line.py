"""Mechanisms that scalar equations are made of, on a periodic line, one at a time or together.

u_t = r u - c u_x + D u_xx - delta u_xxx - kappa u_xxxx
      - a u u_x - b u^2 u_x + s u^2 + q u^3 + h u_x^2

Every coefficient but `kappa` may have either sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from opsplit.fourier import wavenumbers
from opsplit.grid import Grid
from opsplit.integrators import integrating_factor_rk4
from opsplit.physics.base import Coefficients, Physics
from opsplit.terms import Term

ROUNDING = 1e-6
"""Growing modes below this share of the largest are rounding and are left out."""
FINE = 2
"""Products are formed on a grid that is finer by this factor, where none of degree 3 aliases."""
MODES = 6
"""Initial fields hold so many."""


@dataclass(frozen=True)
class Line(Physics):
    """256 points on [0, 16), 20 frames 0.04 apart, 8 trajectories of each of 19 dynamics."""

    name = "line"
    title = "mechanisms on a line"
    channels = ("u",)
    terms: ClassVar[dict[str, Term]] = {
        "r": Term("u", order=0, degree=1, signed=True),
        "c": Term("-u_x", order=1, degree=1, signed=True),
        "D": Term("u_xx", order=2, degree=1, signed=True),
        "delta": Term("-u_xxx", order=3, degree=1, signed=True),
        "kappa": Term("-u_xxxx", order=4, degree=1),
        "a": Term("-u u_x", order=1, degree=2, signed=True),
        "b": Term("-u^2 u_x", order=1, degree=3, signed=True),
        "s": Term("u^2", order=0, degree=2, signed=True),
        "q": Term("u^3", order=0, degree=3, signed=True),
        "h": Term("u_x^2", order=2, degree=2, signed=True),
    }
    splits: ClassVar[dict[str, str]] = {
        "train": "one mechanism at a time, both signs",
        "mix": "unseen composition: diffusion or an instability, and up to three others",
    }
    sizes: ClassVar[dict[str, float]] = {
        "r": 1.0, "c": 1.0, "D": 1.0, "delta": 1.0, "kappa": 1.0,
        "a": 0.4, "b": 0.25, "s": 0.5, "q": 0.25, "h": 0.15,
    }  # fmt: skip
    """The coefficient of every training dynamics; its sign is the other half of the list."""

    grid: Grid = field(default_factory=lambda: Grid((256,), (16.0,)))
    frames: int = 20
    dt: float = 0.04
    per_environment: int = 8
    substeps: int = 8

    def environments(self) -> dict[str, Tensor]:
        """One dynamics per mechanism and sign."""
        signs = {k: (1.0, -1.0) if self.terms[k].signed else (1.0,) for k in self.sizes}
        pairs = [(k, sign * self.sizes[k]) for k, both in signs.items() for sign in both]
        rows = torch.zeros(len(pairs), len(self.sizes), dtype=torch.float64)
        names = list(self.sizes)
        for i, (name, value) in enumerate(pairs):
            rows[i, names.index(name)] = value
        return dict(zip(names, rows.unbind(1), strict=True))

    def sample_coefficients(
        self, split: str, n: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        self.check_split(split)
        draw = partial(torch.rand, n, generator=generator, dtype=torch.float64)
        if split == "train":
            known = self.environments()
            which = torch.randint(len(known["r"]), (n,), generator=generator)
            return {k: v[which] for k, v in known.items()}
        out = {k: torch.zeros(n, dtype=torch.float64) for k in self.sizes}
        # Negative diffusion needs a hyperdiffusion that stops it.
        unstable, strength = draw() < 0.25, 0.05 + 0.95 * draw()
        out["D"] = torch.where(unstable, -strength, strength)
        out["kappa"] = torch.where(unstable, 0.3 + 0.7 * draw(), out["kappa"])
        others = [k for k in self.sizes if k not in ("D", "kappa")]
        order = torch.rand(n, len(others), generator=generator).argsort(1)
        count = 1 + (3 * draw()).long()
        for i, k in enumerate(others):
            size = self.sizes[k] * (0.1 + 0.9 * draw()) * torch.where(draw() < 0.5, -1.0, 1.0)
            # Fields that a reaction drives to infinity are no test.
            size = {"s": 0.2 * size, "q": -size.abs()}.get(k, size)
            out[k] = torch.where(order[:, i] < count, size, out[k])
        return out

    def initial_fields(self, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        """Sines of wave number 1 to 6 whose amplitudes fall, and a mean."""
        (points,) = self.grid.shape
        x = 2 * math.pi * torch.arange(points, dtype=torch.float64) / points
        k = torch.arange(1, MODES + 1, dtype=torch.float64)
        draw = partial(torch.rand, generator=generator, dtype=torch.float64)
        weight = torch.randn(n, MODES, generator=generator, dtype=torch.float64) / k.sqrt()
        waves = torch.sin(k[:, None] * x + 2 * math.pi * draw(n, MODES, 1))
        u = (weight[..., None] * waves).sum(1)
        u = u / u.std(1, correction=0, keepdim=True).clamp_min(1e-8)
        return ((0.3 + 0.3 * draw(n, 1)) * u + 0.4 * (draw(n, 1) - 0.5))[:, None]

    def solve(self, initial: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        own = {k: coefficients[k].to(initial)[:, None, None] for k in self.sizes}
        symbol, spectrum = self._symbol(own, initial), torch.fft.rfft(initial)
        least = ROUNDING * spectrum.abs().amax(-1, keepdim=True)
        spectrum = torch.where((symbol.real > 0) & (spectrum.abs() < least), 0.0, spectrum)
        bent = any(bool((own[k] != 0).any()) for k in ("a", "b", "s", "q", "h"))
        moments = times.to(initial).expand(len(initial), -1)
        frames, now = [], torch.zeros_like(moments[:, 0])
        for moment in moments.unbind(1):
            gap = (moment - now)[:, None, None]
            steps = max(1, math.ceil(self.substeps * float(gap.max()) / self.dt)) if bent else 1
            h = gap / steps
            shares = {x: torch.exp(symbol * (h * x)) for x in (0.5, 1.0)}
            if bent:
                rate = partial(self._rate, own)
                spectrum = integrating_factor_rk4(partial(_grown, shares), rate, spectrum, h, steps)
            else:
                spectrum = shares[1.0] * spectrum
            frames.append(torch.fft.irfft(spectrum, n=initial.shape[-1]))
            now = moment
        return torch.stack(frames, 1)

    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        """Every term by itself, with the coefficient one."""
        n, spectrum = u.shape[-1], torch.fft.rfft(u)
        out = {}
        for name in self.sizes:
            alone = {k: u.new_full((1, 1, 1), float(k == name)) for k in self.sizes}
            rate = self._symbol(alone, u) * spectrum + self._rate(alone, spectrum)
            out[name] = torch.fft.irfft(rate, n=n)
        return out

    def _symbol(self, own: Coefficients, like: Tensor) -> Tensor:
        (k,) = wavenumbers(self.grid, like.dtype, like.device)
        odd = k.clone()
        odd[-1] = 0.0
        even = own["r"] - own["D"] * k**2 - own["kappa"] * k**4
        return torch.complex(even, -own["c"] * odd + own["delta"] * odd**3)

    def _rate(self, own: Coefficients, spectrum: Tensor) -> Tensor:
        """The rate of products, formed on a finer grid."""
        (n,) = self.grid.shape
        ik = 1j * wavenumbers(self.grid, spectrum.real.dtype, spectrum.device)[0]
        fine = FINE * n

        def values(modes: Tensor) -> Tensor:
            return torch.fft.irfft(modes, n=fine) * FINE

        u, slope = values(spectrum), values(ik * spectrum)
        flux = -own["a"] * u**2 / 2 - own["b"] * u**3 / 3
        source = own["s"] * u**2 + own["q"] * u**3 + own["h"] * slope**2
        modes = (torch.fft.rfft(v)[..., : n // 2 + 1] / FINE for v in (flux, source))
        conserved, made = modes
        found = ik * conserved + made
        # The finest mode of an even number of points has no sign.
        return torch.cat([found[..., :-1], torch.zeros_like(found[..., -1:])], -1)


def _grown(factors: dict[float, Tensor], spectrum: Tensor, share: float) -> Tensor:
    """A share of a step of the linear terms."""
    return factors[share] * spectrum
