"""Two-dimensional flow in vorticity form on a periodic square: the paper's fourth benchmark.

w_t + advection (v . grad w) = nu lap w,    v = (-psi_y, psi_x),    -lap psi = w

A dealiased pseudo-spectral method. `rk4` takes viscosity exactly by an integrating factor;
`midpoint`, the implicit rule of the paper, keeps energy and enstrophy of inviscid flow.
Training sees Euler's equations (nu = 0) and the heat equation (advection = 0) alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import (
    fit_modes,
    inverse_laplacian,
    lower_modes,
    squared_wavenumber,
    wavenumbers,
)
from opsplit.grid import Grid
from opsplit.integrators import Rate, integrating_factor_rk4
from opsplit.physics.base import Coefficients, Physics
from opsplit.terms import Term

VISCOSITIES = tuple(float(x) for x in torch.logspace(-4, -2, 16, dtype=torch.float64))
COURANT = {"rk4": 0.7, "midpoint": 0.4}
"""Largest share of a cell that the flow may cross in one step. That of RK4 costs less than 1e-5 in
16 frames; above 2 / pi the iterations of the midpoint rule need not converge."""
TOLERANCE = 1e-12
ITERATIONS = 100
"""Of the midpoint rule: largest relative change by the last iteration, and their limit."""


@dataclass(frozen=True)
class NavierStokes(Physics):
    """Stored on 128 x 128 points of [0, 2 pi)^2, 50 frames on [0, 4].

    Arguments:
        fine: points per axis of the simulation; frames are truncated spectrally to the grid.
        scheme: `rk4`, which drops a third of the modes of those points against aliasing, or
            `midpoint`, which keeps them and multiplies on half as many points again.
    """

    name = "navier-stokes"
    title = "Navier-Stokes"
    remark = "128 x 128 points instead of 256 x 256"
    channels = ("w",)
    terms: ClassVar[dict[str, Term]] = {
        "nu": Term("lap w", order=2, degree=1),
        # The velocity is an inverse derivative of the vorticity.
        "advection": Term("-v . grad w", order=0, degree=2, signed=True),
    }
    splits: ClassVar[dict[str, str]] = {
        "train": "Euler (advection alone) or heat with one of 16 viscosities, 1e-4 to 1e-2",
        "NS": "unseen composition: both, all viscosities",
    }

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {
            "per_environment": 64,
            "grid": Grid((256, 256), (2 * math.pi, 2 * math.pi)),
            "fine": 512,
            "scheme": "midpoint",
        },
        "cpu": {"per_environment": 4},
    }

    # The paper does not say: the authors' configuration.
    trained: ClassVar[dict[str, int]] = {"code": 4, "steps": 100_000}

    tolerance = 1e-4

    grid: Grid = field(default_factory=lambda: Grid((128, 128), (2 * math.pi, 2 * math.pi)))
    frames: int = 50
    dt: float = 4 / 49
    per_environment: int = 4
    fine: int = 256
    scheme: str = "rk4"

    def __post_init__(self) -> None:
        if self.scheme not in COURANT:
            raise OpsplitError(f"Unknown scheme {self.scheme!r}; choose from {sorted(COURANT)}.")

    def coarse(self) -> Self:
        """Simulated on the stored points, not on finer ones."""
        return replace(self, fine=self.grid.shape[0])

    def environments(self) -> dict[str, Tensor]:
        """Euler's equations, then heat with every viscosity."""
        nu = torch.tensor((0.0, *VISCOSITIES), dtype=torch.float64)
        return {"nu": nu, "advection": (nu == 0).double()}

    def trajectories_of(self, environment: int) -> int:
        """As many of Euler's equations as of all viscosities together."""
        return self.per_environment * (1 if environment else len(VISCOSITIES))

    def training_fields(self, coefficients: Coefficients, generator: torch.Generator) -> Tensor:
        """Heat starts from snapshots of Euler flows, which need not be finely resolved."""
        n = len(coefficients["nu"])
        fields = self.initial_fields(n, generator, "train")
        if bool((coefficients["advection"] != 0).any()):
            return fields
        none, one = torch.zeros(n, dtype=torch.float64), torch.ones(n, dtype=torch.float64)
        span = (self.frames - 1) * self.dt * torch.rand(n, 1, generator=generator).double()
        coarse = replace(self, fine=self.grid.shape[0], scheme="rk4")
        return coarse.solve(fields, {"nu": none, "advection": one}, span)[:, 0]

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
        points = self.grid.shape[0]
        if flows:
            points = 3 * self.fine // 2 if self.scheme == "midpoint" else self.fine
        grid = Grid((points, points), self.grid.extent)
        kx, ky = wavenumbers(grid, initial.dtype, initial.device)
        square = squared_wavenumber(grid, initial.dtype, initial.device)
        inverse = inverse_laplacian(grid, initial.dtype, initial.device)
        keep = lower_modes(grid, 2 / 3, initial.device)
        spectrum = fit_modes(torch.fft.rfft2(initial), self.grid.shape, grid.shape)

        def velocity(w: Tensor) -> tuple[Tensor, Tensor]:
            psi = -inverse * w
            return tuple(torch.fft.irfft2(x, s=grid.shape) for x in (-1j * ky * psi, 1j * kx * psi))

        def rate(w: Tensor) -> Tensor:
            # v . grad w = (d_yy - d_xx)(uv) - d_xy (vv - uu) for w = u_y - v_x: four transforms.
            u, v = velocity(w * keep)
            cross, excess = torch.fft.rfft2(u * v), torch.fft.rfft2(v * v - u * u)
            return -advection * keep * ((kx**2 - ky**2) * cross + kx * ky * excess)

        frames, now = [], torch.zeros_like(moments[:, 0])
        for moment in moments.unbind(1):
            gap = moment - now
            steps = 1
            if flows:
                u, v = velocity(spectrum)
                fastest = (advection * (u.abs() + v.abs())).amax((1, 2, 3)).mul(gap).amax()
                cell = COURANT[self.scheme] * self.grid.extent[0] / self.fine
                steps = max(1, math.ceil(float(fastest) / cell))
            h = (gap / steps)[:, None, None, None]
            decay = nu * square * h
            if not flows:
                spectrum = torch.exp(-decay) * spectrum
            elif float(gap.max()) > 0:
                spectrum = self._advance(rate, spectrum, h, decay, steps)
            kept = fit_modes(spectrum, grid.shape, self.grid.shape)
            frames.append(torch.fft.irfft2(kept, s=self.grid.shape))
            now = moment
        return torch.stack(frames, 1)

    def _advance(self, rate: Rate, w: Tensor, h: Tensor, decay: Tensor, steps: int) -> Tensor:
        """`steps` steps of `w' = rate(w) - decay / h w`."""
        if self.scheme == "midpoint":
            for _ in range(steps):
                w = midpoint_step(rate, w, h, decay)
            return w
        shares = {x: torch.exp(-decay * x) for x in (0.5, 1.0)}
        return integrating_factor_rk4(lambda v, x: shares[x] * v, rate, w, h, steps)

    def retrace(
        self, frames: Tensor, coefficients: Coefficients, dt: float
    ) -> tuple[Tensor, Tensor]:
        """Compares the modes below an eighth of the grid, for a flow mixes what was truncated.

        What is missing reaches them by pairs of high modes: about a hundredth of the square of
        the share of modes above a third of the grid, of which we allow ten times as much.
        """
        if not bool((coefficients["advection"] != 0).any()):
            return super().retrace(frames, coefficients, dt)
        points = self.grid.shape[0]
        # Fine enough for all stored modes.
        enough = replace(self, fine=3 * points // 2, scheme="rk4")
        simulated = enough._one_frame_on(frames, coefficients, dt)

        def low(u: Tensor, size: int) -> Tensor:
            kept = fit_modes(torch.fft.rfft2(u), self.grid.shape, (size, size))
            return torch.fft.irfft2(kept, s=(size, size))

        old = frames[:-1]
        total, middle = (u.square().mean((1, 2, 3)) for u in (old, low(old, 2 * (points // 3))))
        missing = (1 - middle / total.clamp_min(1e-30)).clamp_min(0)
        error, allowed = self._misses(low(frames, points // 4), low(simulated, points // 4))
        return error, allowed + 0.1 * missing

    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        kx, ky = wavenumbers(self.grid, u.dtype, u.device)
        k2 = squared_wavenumber(self.grid, u.dtype, u.device)
        spectrum, space = torch.fft.rfft2(u), u.shape[-2:]
        psi = -inverse_laplacian(self.grid, u.dtype, u.device) * spectrum
        along, across = (torch.fft.irfft2(1j * k * psi, s=space) for k in (kx, ky))
        slopes = [torch.fft.irfft2(1j * k * spectrum, s=space) for k in (kx, ky)]
        return {
            "nu": torch.fft.irfft2(-k2 * spectrum, s=space),
            "advection": across * slopes[0] - along * slopes[1],
        }


def midpoint_step(rate: Rate, w: Tensor, h: Tensor, decay: Tensor) -> Tensor:
    """A step of `w' = f(w)` to `w1 = w + h f((w + w1) / 2)` by fixed-point iteration.

    Here `f(w) = rate(w) - decay / h w`.

    The linear part is solved for in every iteration, so that viscosity does not limit the step.
    """
    base, gain = (1 - decay / 2) / (1 + decay / 2) * w, h / (1 + decay / 2)
    new = w
    for _ in range(ITERATIONS):
        last, new = new, base + gain * rate((w + new) / 2)
        change, size = ((x.abs().square().sum((1, 2, 3))).sqrt() for x in (new - last, new))
        if bool((change <= TOLERANCE * size).all()):
            return new
    raise OpsplitError(
        f"The midpoint rule did not converge in {ITERATIONS} iterations; use the scheme rk4."
    )
