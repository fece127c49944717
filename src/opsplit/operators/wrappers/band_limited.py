"""Operators that leave the upper modes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from opsplit.fourier import low_pass, low_passed
from opsplit.operators.family import Multiplier, OfModes, Prepared, Propagator
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
        return self.propagator(prepared, duration)(u)

    def propagator(self, prepared: Prepared, duration: float | Tensor) -> Propagator:
        grid, inner = prepared.grid, self.operator.propagator(prepared, duration)
        if isinstance(inner, OfModes):
            kept, move = low_passed(grid, self.share, prepared.device), inner.move
            if isinstance(inner, Multiplier):
                return Multiplier(torch.where(kept, inner.factor, 1.0), inner.shape)
            return OfModes(lambda modes: torch.where(kept, move(modes), modes), inner.shape)
        return lambda u: u + low_pass(inner(u) - u, grid, self.share)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        return low_pass(self.operator.rate(prepared, u), prepared.grid, self.share)
