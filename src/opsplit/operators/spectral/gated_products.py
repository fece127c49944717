"""Products of learned mixtures: each is one mixture of filtered fields times another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from opsplit.fourier import field_of, lower_modes, odd_wavenumbers, spectrum_of
from opsplit.grid import Grid
from opsplit.operators.spectral.nonlinearity import Dealias, Nonlinearity, OutputScale, Tensors
from opsplit.settings import Between


@dataclass(frozen=True)
class GatedProducts(Nonlinearity):
    """Quadratic terms whose factors are learned: `(W h + w)(V h + v)` of filtered copies `h`.

    Every copy is a learned mixture of the channels and their derivatives; every product enters the
    rate by itself and through its derivatives.

    Arguments:
        copies: filtered copies of the field, and as many products.
        dealias: share of the modes of every axis that enter the products.
        output_scale: how fast the weights of the products are learned.
    """

    kind = "gated-products"

    copies: Annotated[int, Between(1, 256)] = 4
    dealias: Dealias = 2 / 3
    output_scale: OutputScale = 0.02

    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        n = self.copies
        return {
            "filter": (n, channels, 1 + ndim),
            "gate0": (2, n, n),
            "gate0.shift": (2, n),
            "output": (channels, n, 1 + ndim),
        }

    def start(
        self, name: str, shape: tuple[int, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, float]:
        zero, one = torch.zeros(shape), torch.ones(shape)
        if name == "output":
            return zero, self.output_scale * one, 1.0
        if name.endswith("shift"):
            return zero, one, 1.0
        return torch.randn(shape, generator=generator) / math.sqrt(shape[-1]), one, 1.0

    def prepare(self, weights: Tensors, grid: Grid, unit: float) -> dict[str, Tensor]:
        output = weights["output"]
        gradient = 1j * odd_wavenumbers(grid, output.dtype, output.device) / unit
        one = torch.ones_like(gradient[:1])
        bank = torch.cat([one, gradient])
        if self.dealias < 1:
            bank = bank * lower_modes(grid, self.dealias, output.device)
        return {
            "filter": torch.einsum("epcb,b...->epc...", weights["filter"] + 0j, bank),
            "gate": weights["gate0"].flatten(1, 2),
            "gate.shift": weights["gate0.shift"].flatten(1, 2),
            "output": output.transpose(2, 3).flatten(1, 2),
            "slopes": bank.expand(len(output), *bank.shape),
        }

    def products(self, tensors: Tensors, spectrum: Tensor, grid: Grid) -> Tensor:
        x = field_of(_mix(tensors["filter"], spectrum), grid.shape)
        gate = tensors["gate"].unsqueeze(1) @ x.flatten(3) + tensors["gate.shift"][:, None, :, None]
        first, second = gate.tensor_split(2, dim=2)
        return sum_slopes(tensors, first * second, grid)

    def fields(self, channels: int, ndim: int) -> int:
        return self.copies

    def pointwise(self, channels: int, ndim: int) -> int:
        return 4 * self.copies**2 + self.copies + 2 * self.copies * channels * (1 + ndim)


def sum_slopes(tensors: Tensors, x: Tensor, grid: Grid) -> Tensor:
    """Modes of the weighted sums of products `(E, K, product, points)` and of their derivatives.

    Summed up before they are transformed: products are many, derivatives few.
    """
    slopes = tensors["slopes"].shape[1]
    sums = (tensors["output"].unsqueeze(1) @ x).unflatten(3, grid.shape)
    made: Tensor = spectrum_of(sums.unflatten(2, (-1, slopes)), grid.ndim)
    return (made * tensors["slopes"][:, None, None]).sum(3)


def _mix(weights: Tensor, x: Tensor) -> Tensor:
    """Channels `(E, K, into, *modes)` mixed by weights `(E, out, into, *modes)` of every mode."""
    if weights.shape[2] == 1:
        return weights[:, None, :, 0] * x
    if weights.shape[1] == 1:
        return (weights * x).sum(2, keepdim=True)
    return torch.einsum("eoi...,eki...->eko...", weights, x)
