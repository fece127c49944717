"""Operators that keep the mean of every channel."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from opsplit.operators.family import Prepared
from opsplit.operators.wrappers.wrapper import RateWrapper


@dataclass(frozen=True)
class Conserving(RateWrapper):
    """Take the mean over space off the right-hand side, so that flows keep every mean exactly."""

    kind = "conserving"

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        rate = self.operator.rate(prepared, u)
        return rate - rate.mean(tuple(range(3, rate.ndim)), keepdim=True)
