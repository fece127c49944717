"""Operators that see standardised fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.operators.family import Examples, Prepared
from opsplit.operators.wrappers.wrapper import RateWrapper, per_channel
from opsplit.settings import NUMBER, SIZE, AtMost


@dataclass(frozen=True)
class Standardised(RateWrapper):
    """`rate_scale * f((u - centre) / spread)`, one number per channel each.

    A bounded network cannot give rates far from one: without a unit they are out of its reach.

    Arguments:
        centre: usual mean of every channel (empty: 0).
        spread: usual deviation of every channel (empty: 1).
        rate_scale: usual rate of every channel (empty: 1).
    """

    kind = "standardised"

    centre: Annotated[tuple[float, ...], NUMBER, AtMost(256)] = ()
    spread: Annotated[tuple[float, ...], SIZE, AtMost(256)] = ()
    rate_scale: Annotated[tuple[float, ...], SIZE, AtMost(256)] = ()

    def check(self) -> None:
        for name in ("centre", "spread", "rate_scale"):
            if len(getattr(self, name)) not in (0, self.channels):
                raise OpsplitError(
                    f"Standardised: {name} needs one number for each of {self.channels} channels."
                )

    def fitted(self, examples: Examples) -> Self:
        axes = (0, *range(2, examples.states.ndim))
        centre = examples.states.mean(axes)
        spread = examples.states.std(axes).clamp_min(1e-12)
        scale = examples.rates.square().mean(axes).sqrt().clamp_min(1e-12)
        of = (-1, *[1] * examples.grid.ndim)
        inside = replace(
            examples,
            states=(examples.states - centre.reshape(of)) / spread.reshape(of),
            rates=examples.rates / scale.reshape(of),
        )
        return replace(
            self, operator=self.operator.fitted(inside), centre=tuple(centre.tolist()),
            spread=tuple(spread.tolist()), rate_scale=tuple(scale.tolist()),
        )  # fmt: skip

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        if self.centre:
            u = u - per_channel(self.centre, u, self.ndim)
        if self.spread:
            u = u / per_channel(self.spread, u, self.ndim)
        rate = self.operator.rate(prepared, u)
        return rate * per_channel(self.rate_scale, u, self.ndim) if self.rate_scale else rate
