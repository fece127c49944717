"""What a nonlinear part of a spectral operator offers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators.family import Examples
from opsplit.operators.flops import fft_flops
from opsplit.registry import Registry
from opsplit.settings import Between, Settings

Tensors = Mapping[str, Tensor]
Dealias = Annotated[float, Between(1e-6, 2.0)]
OutputScale = Annotated[float, Between(1e-6, 1e6)]


class Nonlinearity(Settings, ABC):
    """Pointwise products of filtered fields, from spectrum to spectrum.

    A new one is one file with one frozen dataclass, listed in `NONLINEARITIES`.
    """

    takes_fronts: ClassVar[bool] = False
    """Whether it is right where fields jump from one point to the next."""

    @abstractmethod
    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        """The generated parameters, by name."""

    @abstractmethod
    def start(
        self, name: str, shape: tuple[int, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, float]:
        """Start, scale and variation of a parameter."""

    @abstractmethod
    def prepare(self, weights: Tensors, grid: Grid, unit: float) -> dict[str, Tensor]:
        """What `products` needs on a grid; wavenumbers are divided by `unit`."""

    @abstractmethod
    def products(self, tensors: Tensors, spectrum: Tensor, grid: Grid) -> Tensor:
        """Modes of the nonlinear part on modes `(E, K, channel, *modes)`."""

    def bound(self, tensors: Tensors, grid: Grid) -> Callable[[Tensor], Tensor]:
        """The same for many calls; what depends on the operators alone may be done here."""
        return lambda spectrum: self.products(tensors, spectrum, grid)

    @abstractmethod
    def fields(self, channels: int, ndim: int) -> int:
        """Fields that are transformed to points in one evaluation, for memory and cost."""

    def active(self, tensors: Tensors) -> Tensor | None:
        """Positions of the operators whose products are not all zero (None: all of them)."""
        return None

    def local(self, tensors: Tensors) -> Tensor | None:
        """Which operators `(E,)` are reactions on all modes, so that `react` gives their products.

        None: no operator is known to be one.
        """
        return None

    def react(self, tensors: Tensors, u: Tensor) -> Tensor:
        """The products of reactions on fields `(E, K, channel, *space)`, without transforms."""
        raise OpsplitError(f"{self.kind} are not known to be reactions.")

    def reaction(self, tensors: Tensors) -> Callable[[Tensor], Tensor]:
        """`react` for many calls; what depends on the operators alone may be done here."""
        return lambda u: self.react(tensors, u)

    def pruned(self, weights: Tensors, threshold: float) -> tuple[Self, dict[str, Tensor]]:
        """The same products with small weights exactly zero, where that makes sense."""
        return self, dict(weights)

    def directed(self, weights: Tensors, ndim: int) -> Tensor:
        """Which operators `(E,)` single out a direction, or are not known to be free of one."""
        first = next(iter(weights.values()))
        return torch.ones(len(first), dtype=torch.bool, device=first.device)

    def isotropic(
        self, weights: Tensors, ndim: int, wanted: int
    ) -> tuple[Nonlinearity | None, dict[str, Tensor]]:
        """The same products of operators without a direction, on a grid with more axes."""
        raise OpsplitError(f"Nothing says how {self.kind} act on {wanted}-D fields.")

    def fitted(self, examples: Examples, unit: float) -> Self:
        """The same with its units taken from training data."""
        return self

    def flops(self, channels: int, ndim: int, grid: Grid) -> int:
        """Floating-point operations of one evaluation on one state, about."""
        made = channels * (1 + ndim)
        transforms = fft_flops(grid.shape, self.fields(channels, ndim) + made)
        return transforms + self.pointwise(channels, ndim) * math.prod(grid.shape)

    def pointwise(self, channels: int, ndim: int) -> int:
        """Floating-point operations per point of one evaluation, without transforms."""
        return 2 * self.fields(channels, ndim)


NONLINEARITIES: Registry[type[Nonlinearity]] = Registry(
    "nonlinearity",
    "opsplit.nonlinearities",
    {
        "products": "opsplit.operators.spectral.products:Products",
        "fronts": "opsplit.operators.spectral.fronts:Fronts",
        "polynomial": "opsplit.operators.spectral.polynomial:Polynomial",
        "flux-stencil": "opsplit.operators.spectral.flux_stencil:FluxStencil",
        "gated-products": "opsplit.operators.spectral.gated_products:GatedProducts",
    },
)
Nonlinearity.kinds = NONLINEARITIES


def nonzero_rows(weights: Tensor) -> Tensor | None:
    """Positions of rows that are not all zero; None for all rows, and while they are trained."""
    if weights.requires_grad:
        return None
    found = weights.ne(0).flatten(1).any(1).nonzero()[:, 0]
    return None if len(found) == len(weights) else found
