"""Operators whose rate is a power of the size of the state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal, Self

import torch
from torch import Tensor

from opsplit.grid import Grid
from opsplit.operators.family import Examples, Initialisation, Prepared
from opsplit.operators.wrappers.wrapper import RateWrapper
from opsplit.settings import Between

SMALLEST = 1e-12
"""No state counts as smaller than this."""


@dataclass(frozen=True)
class Homogeneous(RateWrapper):
    """`f(a u) = a**degree f(u)` exactly: the inner operator only sees states of size one.

    The normalisations of a network hide how large a state is; here the size is given back.

    Arguments:
        degree: a number, or `"learned"` for one per operator.
    """

    kind = "homogeneous"

    degree: Annotated[float, Between(-8.0, 8.0)] | Literal["learned"] = 1.0

    @property
    def n_parameters(self) -> int:
        return self.operator.n_parameters + (self.degree == "learned")

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        inner = self.operator.initialisation(generator)
        if self.degree != "learned":
            return inner
        one = torch.ones(1)
        return inner.join(Initialisation(one, 0.3 * one, 4 * one))

    def fitted(self, examples: Examples) -> Self:
        size = _size(examples.states[:, None])[:, 0]
        inside = replace(examples, states=examples.states / size)
        return replace(self, operator=self.operator.fitted(inside))

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        inner = self.operator.prepare(parameters[:, : self.operator.n_parameters], grid)
        if self.degree != "learned":
            return inner
        return Prepared({**inner.tensors, "degree": parameters[:, -1]}, grid)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        size = _size(u)
        rate = self.operator.rate(prepared, u / size)
        if isinstance(self.degree, str):
            return rate * size ** prepared.tensors["degree"].reshape(-1, *[1] * (u.ndim - 1))
        return rate * size**self.degree


def _size(u: Tensor) -> Tensor:
    """Root mean square of every state `(E, K, channel, *space)`."""
    mean = u.square().mean(tuple(range(2, u.ndim)), keepdim=True)
    return mean.clamp_min(SMALLEST**2).sqrt()
