"""Operators in a mirror."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators.family import Multiplier, Prepared, Propagator
from opsplit.operators.wrappers.wrapper import Wrapper
from opsplit.settings import Between


@dataclass(frozen=True)
class Mirrored(Wrapper):
    """`R f(R u)` with `R u(x) = u(-x)` along one axis.

    A derivative of odd order along that axis changes its sign, one of even order does not.

    Arguments:
        axis: the space axis that is turned round, counted from 0.
    """

    kind = "mirrored"

    axis: Annotated[int, Between(0, 2)] = 0

    def check(self) -> None:
        if self.axis >= self.ndim:
            raise OpsplitError(f"Mirrored: fields of {self.ndim} axes have no axis {self.axis}.")

    def check_grid(self, grid: Grid) -> None:
        super().check_grid(grid)
        if grid.boundary[self.axis] != "periodic":
            raise OpsplitError(
                f"Mirrored operators need a periodic axis, the data have {grid.boundary}."
            )

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        return self.propagator(prepared, duration)(u)

    def propagator(self, prepared: Prepared, duration: float | Tensor) -> Propagator:
        inner = self.operator.propagator(prepared, duration)
        if isinstance(inner, Multiplier) and self.ndim == 1:
            # The modes of a mirrored real field are the conjugates.
            return Multiplier(inner.factor.conj(), inner.shape)
        return lambda u: self._turned(inner(self._turned(u)))

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        return self._turned(self.operator.rate(prepared, self._turned(u)))

    def _turned(self, u: Tensor) -> Tensor:
        return u.flip(self.axis - self.ndim)
