"""A user's own right-hand side or flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.integrators import rk38
from opsplit.operators.family import (
    Axes,
    Channels,
    Initialisation,
    OperatorFamily,
    Prepared,
    Step,
    longest,
    per_operator,
    steps_of,
)

STEP_OF_RATES = 1e-2
"""Physical time over which the rate of a user's flow is measured."""


@dataclass(frozen=True)
class UserFunction(OperatorFamily):
    """A user's own right-hand side `f(u)` or flow `step(u, dt)`, on states `(n, channel, *space)`.

    A parameter vector holds one number, the strength of the function.
    """

    kind = "function"

    channels: Channels = 1
    ndim: Axes = 1
    f: Callable[[Tensor], Tensor] | None = None
    step: Callable[[Tensor, Tensor], Tensor] | None = None
    max_step: Step | None = None

    def check(self) -> None:
        if (self.f is None) == (self.step is None):
            raise OpsplitError("Give exactly one of f(u) and step(u, dt).")

    def to_json(self) -> dict[str, Any]:
        raise OpsplitError("A Python function cannot be saved; add it again after loading.")

    @property
    def n_parameters(self) -> int:
        return 1

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        one = torch.ones(1)
        return Initialisation(one, one, 1e3 * one)

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        return Prepared({"strength": parameters[:, 0]}, grid)

    def evaluations(self, duration: float) -> int:
        return 1 if self.f is None else 4 * self.steps(duration)

    def steps(self, duration: float) -> int:
        return steps_of(duration, self.max_step)

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        h = per_operator(duration, u) * per_operator(prepared.tensors["strength"], u)
        flat = u.flatten(0, 1)
        each = h.expand(u.shape[0], u.shape[1], *[1] * (u.ndim - 2)).flatten(0, 1)
        if self.step is not None:
            out = self._alike(flat, self.step(flat, each))
        else:
            out = rk38(self._rate, flat, each, self.steps(longest(duration)))
        return out.unflatten(0, u.shape[:2])

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        strength = per_operator(prepared.tensors["strength"], u)
        flat = u.flatten(0, 1)
        if self.step is None:
            return strength * self._rate(flat).unflatten(0, u.shape[:2])
        # A flow alone does not show its rate: a forward difference, extrapolated once.
        h = torch.full((len(flat), *[1] * (u.ndim - 2)), STEP_OF_RATES).to(u)
        whole, half = (self._alike(flat, self.step(flat, x * h)) - flat for x in (1.0, 0.5))
        return strength * ((4 * half - whole) / h).unflatten(0, u.shape[:2])

    def _rate(self, u: Tensor) -> Tensor:
        assert self.f is not None
        return self._alike(u, self.f(u))

    @staticmethod
    def _alike(u: Tensor, out: Tensor) -> Tensor:
        if out.shape != u.shape:
            raise OpsplitError(
                f"The operator function returned shape {tuple(out.shape)} "
                f"for states of shape {tuple(u.shape)}; they must agree."
            )
        return out
