"""Operators on fields of the opposite sign."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from opsplit.operators.family import Multiplier, Prepared, Propagator
from opsplit.operators.wrappers.wrapper import Wrapper


@dataclass(frozen=True)
class Negated(Wrapper):
    """`-f(-u)`: a term of even degree changes its sign, one of odd degree does not."""

    kind = "negated"

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        return self.propagator(prepared, duration)(u)

    def propagator(self, prepared: Prepared, duration: float | Tensor) -> Propagator:
        inner = self.operator.propagator(prepared, duration)
        return inner if isinstance(inner, Multiplier) else lambda u: -inner(-u)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        return -self.operator.rate(prepared, -u)
