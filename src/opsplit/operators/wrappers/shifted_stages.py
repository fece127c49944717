"""Runge-Kutta stages that see the field on shifted grids."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle

import torch
from torch import Tensor

from opsplit.integrators import RK38_WEIGHTS, rk38
from opsplit.operators.family import Prepared, longest, per_operator
from opsplit.operators.wrappers.wrapper import RateWrapper

SHIFTS = (0, 5, 10, 15)
"""Weighted as the stages are, patterns of period 2, 4, 8 and 16 cancel but for 0, .35, .06, .17."""


@dataclass(frozen=True)
class ShiftedStages(RateWrapper):
    """Every stage of a Runge-Kutta step sees the field moved by another number of points.

    A network that halves its grid errs in a pattern tied to it, which adds up from step to step;
    over the four shifts the pattern all but cancels. Axes with walls are not shifted.
    """

    kind = "shifted-stages"

    @property
    def rate_evaluations(self) -> int:
        return len(SHIFTS) * self.operator.rate_evaluations

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        shifts = cycle(SHIFTS)
        return rk38(
            lambda x: self._shifted(prepared, x, next(shifts)),
            u, per_operator(duration, u), self.steps(longest(duration)),
        )  # fmt: skip

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        # As a short flow sees it: a single grid shows the pattern that the stages cancel.
        rate = torch.zeros_like(u)
        for shift, weight in zip(SHIFTS, RK38_WEIGHTS, strict=True):
            rate = rate + weight * self._shifted(prepared, u, shift)
        return rate

    def _shifted(self, prepared: Prepared, u: Tensor, shift: int) -> Tensor:
        if shift == 0:
            return self.operator.rate(prepared, u)
        grid = prepared.grid
        axes = [i - grid.ndim for i, word in enumerate(grid.boundary) if word == "periodic"]
        moved = self.operator.rate(prepared, u.roll([shift] * len(axes), axes))
        return moved.roll([-shift] * len(axes), axes)
