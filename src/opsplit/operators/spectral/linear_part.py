"""What a linear part of a spectral operator offers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators.family import Examples
from opsplit.registry import Registry
from opsplit.settings import Settings


class LinearPart(Settings, ABC):
    """A symbol `L(k)` of every channel, diagonal in Fourier space."""

    @abstractmethod
    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        """The generated parameters, by name."""

    @abstractmethod
    def start(self, name: str, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Start and scale of a parameter."""

    @abstractmethod
    def values(self, weights: Mapping[str, Tensor], grid: Grid, unit: float) -> Tensor:
        """`L` on the modes of a grid, `(E, channel, *modes)`."""

    def right_up_to(self, weights: Mapping[str, Tensor], ndim: int, unit: float) -> float:
        """The wavenumber up to which the symbol is what its weights say."""
        return math.inf

    def directed(self, weights: Mapping[str, Tensor], ndim: int, unit: float) -> Tensor:
        """Which operators `(E,)` single out a direction, or are not known to be free of one."""
        first = next(iter(weights.values()))
        return torch.ones(len(first), dtype=torch.bool, device=first.device)

    def isotropic(
        self, weights: Mapping[str, Tensor], ndim: int, wanted: int
    ) -> tuple[LinearPart, dict[str, Tensor]]:
        """The same symbols of operators without a direction, on a grid with more axes."""
        raise OpsplitError(f"Nothing says how a {self.kind} acts on {wanted}-D fields.")

    def fitted(self, examples: Examples) -> Self:
        """The same with its sizes taken from training data."""
        return self


LINEAR_PARTS: Registry[type[LinearPart]] = Registry(
    "linear part",
    "opsplit.linear_parts",
    {
        "symbol": "opsplit.operators.spectral.symbol:Symbol",
        "derivatives": "opsplit.operators.spectral.derivatives:Derivatives",
    },
)
LinearPart.kinds = LINEAR_PARTS
