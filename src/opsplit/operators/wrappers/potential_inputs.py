"""Operators that also see the gradient of a potential, such as the velocity of a vorticity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, inverse_laplacian, spectrum_of, wavenumbers
from opsplit.grid import Grid
from opsplit.operators.family import Examples, Prepared
from opsplit.operators.wrappers.wrapper import RateWrapper
from opsplit.settings import Size


@dataclass(frozen=True)
class PotentialInputs(RateWrapper):
    """Append `grad lap^-1 u` of every channel to what the inner operator sees.

    The inner operator has `1 + ndim` channels for every channel of the field: the fields first,
    then the derivative of all potentials along each axis. Only the rates of the fields count.

    Arguments:
        wavenumber: usual wavenumber of the fields, by which the gradients are multiplied.
    """

    kind = "potential-inputs"

    wavenumber: Size = 1.0

    def check(self) -> None:
        if self.operator.channels % (1 + self.ndim):
            raise OpsplitError(
                f"PotentialInputs: in {self.ndim}-D the inner operator needs {1 + self.ndim} "
                f"channels per channel of the field, got {self.operator.channels}."
            )

    @property
    def channels(self) -> int:  # type: ignore[override]
        return self.operator.channels // (1 + self.ndim)

    def check_grid(self, grid: Grid) -> None:
        super().check_grid(grid)
        if not grid.periodic:
            raise OpsplitError(
                f"An inverse Laplacian needs periodic axes, the data have {grid.boundary}."
            )

    def fitted(self, examples: Examples) -> Self:
        both = (self._seen(x[None], examples.grid)[0] for x in (examples.states, examples.rates))
        states, rates = both
        inside = replace(examples, states=states, rates=rates)
        return replace(self, operator=self.operator.fitted(inside))

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        return self.operator.rate(prepared, self._seen(u, prepared.grid))[:, :, : self.channels]

    def _seen(self, u: Tensor, grid: Grid) -> Tensor:
        potential = spectrum_of(u, grid.ndim) * inverse_laplacian(grid, u.dtype, u.device)
        slopes = [
            field_of(1j * self.wavenumber * k * potential, grid.shape)
            for k in wavenumbers(grid, u.dtype, u.device)
        ]
        return torch.cat([u, *slopes], 2)
