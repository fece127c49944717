"""Operators that leave the upper modes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from opsplit.fourier import low_pass
from opsplit.operators.family import Prepared
from opsplit.operators.wrappers.wrapper import Wrapper
from opsplit.settings import Between


@dataclass(frozen=True)
class BandLimited(Wrapper):
    """Change only the lower modes of every periodic axis; the rest of the field stays as it is.

    Scales that the training fields do not hold would otherwise grow unnoticed.

    Arguments:
        share: share of the modes of every axis that a flow changes.
    """

    kind = "band-limited"

    share: Annotated[float, Between(1e-6, 1.0)] = 0.5

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        change = self.operator.flow(prepared, u, duration) - u
        return u + low_pass(change, prepared.grid, self.share)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        return low_pass(self.operator.rate(prepared, u), prepared.grid, self.share)
