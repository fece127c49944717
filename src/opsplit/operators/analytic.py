"""Operators that are not learned: exact flows of known terms, and a user's own function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import wavenumbers
from opsplit.grid import Grid
from opsplit.integrators import rk38
from opsplit.operators.family import (
    Initialisation,
    OperatorFamily,
    Prepared,
    longest,
    per_operator,
)

STEP_OF_RATES = 1e-2
"""Physical time over which the rate of a user's flow is measured."""
TERMS = ("reaction", "advection", "diffusion", "dispersion")


class Linear(OperatorFamily):
    """Exact flows of `u_t = r u - c . grad u + D lap u - g d(lap u)` on periodic grids.

    A parameter vector is `(r, c_1..c_d, D, g_1..g_d)`: growth rate, velocity, diffusivity and
    dispersion per axis; all channels alike.
    """

    name = "linear"

    def __init__(self, channels: int, ndim: int) -> None:
        self.channels, self.ndim = channels, ndim
        self.n_parameters = 2 + 2 * ndim

    def config(self) -> dict[str, Any]:
        return {"channels": self.channels, "ndim": self.ndim}

    def parameters(
        self,
        reaction: float = 0.0,
        advection: float | tuple[float, ...] = 0.0,
        diffusion: float = 0.0,
        dispersion: float | tuple[float, ...] = 0.0,
    ) -> Tensor:
        """One parameter vector `(1, n_parameters)` from named terms."""
        if diffusion < 0:
            raise OpsplitError(f"Negative diffusion {diffusion} has no forward flow.")
        c, g = (
            torch.as_tensor(x, dtype=torch.float64).expand(self.ndim)
            for x in (advection, dispersion)
        )
        r, d = torch.tensor([[reaction], [diffusion]], dtype=torch.float64)
        return torch.cat([r, c, d, g])[None]

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        zero, one = torch.zeros(self.n_parameters), torch.ones(self.n_parameters)
        return Initialisation(zero, one, 1e3 * one)

    def check_grid(self, grid: Grid) -> None:
        super().check_grid(grid)
        if not grid.periodic:
            raise OpsplitError(f"Exact linear flows need periodic axes, got {grid.boundary}.")

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        d = self.ndim
        k = torch.stack(
            torch.broadcast_tensors(*wavenumbers(grid, parameters.dtype, parameters.device))
        )
        k2 = k.square().sum(0)
        r, c, diffusion, g = (
            p.reshape(*p.shape, *[1] * d) for p in parameters.split([1, d, 1, d], dim=1)
        )
        real = r[:, 0] - diffusion[:, 0] * k2
        imag = (k * (g * k2 - c)).sum(1)
        return Prepared({"symbol": torch.complex(real, imag)}, grid)

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        axes = tuple(range(-self.ndim, 0))
        symbol = prepared.tensors["symbol"].to(torch.promote_types(u.dtype, torch.complex64))
        growth = torch.exp(symbol[:, None, None] * per_operator(duration, u))
        return torch.fft.irfftn(growth * torch.fft.rfftn(u, dim=axes), s=u.shape[3:], dim=axes)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        axes = tuple(range(-self.ndim, 0))
        symbol = prepared.tensors["symbol"].to(torch.promote_types(u.dtype, torch.complex64))
        spectrum = symbol[:, None, None] * torch.fft.rfftn(u, dim=axes)
        return torch.fft.irfftn(spectrum, s=u.shape[3:], dim=axes)


class UserFunction(OperatorFamily):
    """A user's own right-hand side `f(u)` or flow `step(u, dt)`, on states `(n, channel, *space)`.

    A parameter vector holds one number, the strength of the function.
    """

    name = "function"
    n_parameters = 1

    def __init__(
        self,
        channels: int,
        ndim: int,
        f: Callable[[Tensor], Tensor] | None = None,
        step: Callable[[Tensor, Tensor], Tensor] | None = None,
        max_step: float = math.inf,
    ) -> None:
        if (f is None) == (step is None):
            raise OpsplitError("Give exactly one of f(u) and step(u, dt).")
        self.channels, self.ndim = channels, ndim
        self.f, self.step, self.max_step = f, step, max_step

    def config(self) -> dict[str, Any]:
        raise OpsplitError("A Python function cannot be saved; add it again after loading.")

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        one = torch.ones(1)
        return Initialisation(one, one, 1e3 * one)

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        return Prepared({"strength": parameters[:, 0]}, grid)

    def evaluations(self, duration: float) -> int:
        return 1 if self.f is None else 4 * self._steps(duration)

    def _steps(self, duration: float) -> int:
        return max(1, math.ceil(duration / self.max_step - 1e-6))

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        h = per_operator(duration, u) * per_operator(prepared.tensors["strength"], u)
        flat = u.flatten(0, 1)
        each = h.expand(u.shape[0], u.shape[1], *[1] * (u.ndim - 2)).flatten(0, 1)
        if self.step is not None:
            out = self._alike(flat, self.step(flat, each))
        else:
            out = rk38(self._rate, flat, each, self._steps(longest(duration)))
        return out.unflatten(0, u.shape[:2])

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        strength = per_operator(prepared.tensors["strength"], u)
        flat = u.flatten(0, 1)
        if self.step is None:
            return strength * self._rate(flat).unflatten(0, u.shape[:2])
        # A flow alone does not show its rate: a forward difference, extrapolated once.
        h = torch.full((len(flat), *[1] * (u.ndim - 2)), STEP_OF_RATES).to(u)
        whole, half = (self._alike(flat, self.step(flat, x * h)) - flat for x in (1.0, 0.5))
        return strength * ((4 * half - whole) / h).unflatten(0, u.shape[:2])

    def _rate(self, u: Tensor) -> Tensor:
        assert self.f is not None
        return self._alike(u, self.f(u))

    @staticmethod
    def _alike(u: Tensor, out: Tensor) -> Tensor:
        if out.shape != u.shape:
            raise OpsplitError(
                f"The operator function returned shape {tuple(out.shape)} "
                f"for states of shape {tuple(u.shape)}; they must agree."
            )
        return out
