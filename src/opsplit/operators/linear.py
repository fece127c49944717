"""Exact flows of known linear terms."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, spectrum_of, wavenumbers
from opsplit.grid import Grid
from opsplit.operators.family import (
    Axes,
    Channels,
    Initialisation,
    OperatorFamily,
    Prepared,
    per_operator,
)


@dataclass(frozen=True)
class Linear(OperatorFamily):
    """Exact flows of `u_t = r u - c . grad u + D lap u - g d(lap u)` on periodic grids.

    A parameter vector is `(r, c_1..c_d, D, g_1..g_d)`: growth rate, velocity, diffusivity and
    dispersion per axis; all channels alike.
    """

    kind = "linear"

    channels: Channels = 1
    ndim: Axes = 1

    @property
    def n_parameters(self) -> int:
        return 2 + 2 * self.ndim

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

    def directed(self, parameters: Tensor) -> Tensor:
        d = self.ndim
        return parameters[:, [*range(1, 1 + d), *range(2 + d, 2 + 2 * d)]].ne(0).any(1)

    def isotropic(self, parameters: Tensor, ndim: int) -> tuple[OperatorFamily, Tensor]:
        made = Linear(self.channels, ndim)
        out = parameters.new_zeros(len(parameters), made.n_parameters)
        out[:, 0], out[:, 1 + ndim] = parameters[:, 0], parameters[:, 1 + self.ndim]
        return made, out

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
        growth = torch.exp(self._symbol(prepared, u) * per_operator(duration, u))
        return field_of(growth * spectrum_of(u, self.ndim), u.shape[3:])

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        return field_of(self._symbol(prepared, u) * spectrum_of(u, self.ndim), u.shape[3:])

    def _symbol(self, prepared: Prepared, u: Tensor) -> Tensor:
        kind = torch.promote_types(u.dtype, torch.complex64)
        return prepared.tensors["symbol"].to(kind)[:, None, None]
