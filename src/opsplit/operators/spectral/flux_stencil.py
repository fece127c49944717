"""Fluxes between neighbouring points, for fronts that no smooth filter can follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Self

import torch
from torch import Tensor

from opsplit.fourier import field_of, wavenumbers
from opsplit.grid import Grid
from opsplit.operators.family import Examples
from opsplit.operators.spectral.gated_products import sum_slopes
from opsplit.operators.spectral.nonlinearity import Nonlinearity, OutputScale, Tensors
from opsplit.settings import Between, Size

CORNER = 1e-3
"""How far the corner of an absolute value is rounded, for a gradient everywhere."""


@dataclass(frozen=True)
class FluxStencil(Nonlinearity):
    """Learned products of the field at neighbouring points, differenced over one spacing.

    Half of the products take the absolute value of one factor, as upwind fluxes do. Operators that
    differ in strength share most of their factors.

    Arguments:
        points: neighbouring points that a flux reads.
        flux_products: products of two mixtures of these.
        spacing: distance of neighbouring points (None: that of the training grid).
        output_scale: how fast the weights of the products are learned.
    """

    kind = "flux-stencil"
    takes_fronts = True

    points: Annotated[int, Between(2, 64)] = 6
    flux_products: Annotated[int, Between(2, 1024)] = 16
    spacing: Size | None = None
    output_scale: OutputScale = 0.1

    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        q = self.flux_products
        return {
            "gate0": (2, q, self.points * ndim * channels),
            "output": (channels, q, 1 + ndim),
        }

    def start(
        self, name: str, shape: tuple[int, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, float]:
        if name == "output":
            return torch.zeros(shape), torch.full(shape, self.output_scale), 0.3
        begin = torch.randn(shape, generator=generator) / math.sqrt(shape[-1])
        return begin, torch.ones(shape), 0.05

    def prepare(self, weights: Tensors, grid: Grid, unit: float) -> dict[str, Tensor]:
        output = weights["output"]
        spacing = self.spacing or min(grid.spacing)
        turns = [
            torch.as_tensor(1j * k * spacing)
            for k in torch.broadcast_tensors(*wavenumbers(grid, output.dtype, output.device))
        ]
        nearby = torch.arange(self.points) - (self.points - 1) // 2
        shift = torch.stack([torch.exp(int(j) * turn) for turn in turns for j in nearby])
        # A flux lives half way between two points: its difference belongs to a point.
        differences = [(1 - torch.exp(-turn)) / (spacing * unit) for turn in turns]
        slopes = torch.stack([torch.ones_like(differences[0]), *differences])
        count = len(output)
        # Shared by all operators, but repeated, as an operator must be a slice.
        return {
            "shift": shift.expand(count, *shift.shape),
            "gate": weights["gate0"].flatten(1, 2),
            "output": output.transpose(2, 3).flatten(1, 2),
            "slopes": slopes.expand(count, *slopes.shape),
        }

    def products(self, tensors: Tensors, spectrum: Tensor, grid: Grid) -> Tensor:
        moved = (tensors["shift"][:, None, :, None] * spectrum[:, :, None]).flatten(2, 3)
        x = field_of(moved, grid.shape)
        first, second = (tensors["gate"].unsqueeze(1) @ x.flatten(3)).tensor_split(2, dim=2)
        plain, bent = second.tensor_split(2, dim=2)
        corner = bent.new_full((), CORNER**2)
        second = torch.cat([plain, torch.addcmul(corner, bent, bent).sqrt()], 2)
        return sum_slopes(tensors, first * second, grid)

    def fitted(self, examples: Examples, unit: float) -> Self:
        if self.spacing is not None:
            return self
        return type(self)(
            self.points, self.flux_products, min(examples.grid.spacing), self.output_scale
        )

    def fields(self, channels: int, ndim: int) -> int:
        return self.points * ndim * channels

    def pointwise(self, channels: int, ndim: int) -> int:
        q = self.flux_products
        return 4 * q * self.fields(channels, ndim) + 4 * q + 2 * q * channels * (1 + ndim)
