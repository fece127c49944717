"""What all wrappers share: an operator inside, and perhaps parameters of their own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.integrators import rk38
from opsplit.operators.family import (
    Examples,
    Initialisation,
    OperatorFamily,
    Prepared,
    longest,
    per_operator,
    steps_of,
)
from opsplit.operators.unet import UNet


@dataclass(frozen=True)
class Wrapper(OperatorFamily):
    """An operator family around another one; its parameters follow those of the inner one."""

    operator: OperatorFamily = field(default_factory=UNet)

    @property
    def channels(self) -> int:  # type: ignore[override]
        return self.operator.channels

    @property
    def ndim(self) -> int:  # type: ignore[override]
        return self.operator.ndim

    @property
    def max_step(self) -> float | None:  # type: ignore[override]
        return self.operator.max_step

    @property
    def grid_bound(self) -> bool:
        return self.operator.grid_bound

    @property
    def points_multiple(self) -> int:
        return self.operator.points_multiple

    @property
    def flows_follow_rates(self) -> bool:
        return self.operator.flows_follow_rates

    @property
    def innermost(self) -> OperatorFamily:
        return self.operator.innermost

    @property
    def n_parameters(self) -> int:
        return self.operator.n_parameters

    @property
    def rate_evaluations(self) -> int:
        return self.operator.rate_evaluations

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        return self.operator.initialisation(generator)

    def pruned(self, parameters: Tensor, threshold: float) -> tuple[OperatorFamily, Tensor]:
        n = self.operator.n_parameters
        inner, kept = self.operator.pruned(parameters[:, :n], threshold)
        if inner is self.operator:
            return self, parameters
        return replace(self, operator=inner), torch.cat([kept, parameters[:, n:]], 1)

    def right_up_to(self, parameters: Tensor) -> float:
        return self.operator.right_up_to(parameters[:, : self.operator.n_parameters])

    def fitted(self, examples: Examples) -> Self:
        return replace(self, operator=self.operator.fitted(examples))

    def check_grid(self, grid: Grid) -> None:
        self.operator.check_grid(grid)

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        return self.operator.prepare(parameters, grid)

    def steps(self, duration: float) -> int:
        return self.operator.steps(duration)

    def evaluations(self, duration: float) -> int:
        return self.operator.evaluations(duration)

    def flops(self, grid: Grid) -> int:
        return self.operator.flops(grid)

    def workspace(self, grid: Grid, states: int) -> int:
        return self.operator.workspace(grid, states)

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        return self.operator.flow(prepared, u, duration)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        return self.operator.rate(prepared, u)


class RateWrapper(Wrapper):
    """A wrapper that changes the right-hand side; its flows are steps of Kutta's 3/8 rule.

    The inner operator's own way of integrating, such as the exact exponential of a symbol, does
    not apply to the changed right-hand side.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.operator.flows_follow_rates:
            raise OpsplitError(
                f"{type(self).__name__} changes rates, but the flows of {self.operator.kind} "
                "operators do not follow from theirs; wrap it the other way round."
            )

    def steps(self, duration: float) -> int:
        return steps_of(duration, self.max_step)

    def evaluations(self, duration: float) -> int:
        return 4 * self.steps(duration)

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        steps = self.steps(longest(duration))
        return rk38(lambda x: self.rate(prepared, x), u, per_operator(duration, u), steps)


def per_channel(values: tuple[float, ...], u: Tensor, ndim: int) -> Tensor:
    """One number per channel, to broadcast over states `(E, K, channel, *space)`."""
    return u.new_tensor(values).reshape(-1, *[1] * ndim)
