"""FNO: the classic Fourier neural operator of Li et al., the 16 frames as channels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from opsplit.baselines.next_frame import NextFrame
from opsplit.baselines.protocol import OBSERVED, Baseline, Fitting
from opsplit.pretrain.config import Budget
from opsplit.pretrain.sources import Facts
from opsplit.settings import Between


@dataclass(frozen=True)
class FNO(Baseline):
    """Settings of the Fourier neural operator."""

    kind = "fno"

    width: Annotated[int, Between(1, 4096)] = 128
    """Channels of the hidden fields."""
    blocks: Annotated[int, Between(1, 64)] = 4
    """Fourier blocks."""
    modes: Annotated[int, Between(1, 4096)] = 16
    """Modes that are kept per axis, counted from the lowest."""
    increment: bool = False
    """Predict the change of the last frame instead of the next frame: for short trainings."""

    @classmethod
    def preset(cls, name: Literal["paper", "cpu", "tiny"], ndim: int) -> tuple[Self, Fitting]:
        line = ndim == 1
        if name == "paper":
            return cls(), Fitting(
                Budget(steps=100_000 if line else 150_000),
                batch=64 if line else 16,
                learning_rate=5e-4 if line else 2e-4,
            )
        if name == "tiny":
            return cls(width=16, blocks=2, modes=8, increment=True), Fitting(
                Budget(steps=150, validate_every=50), batch=8, learning_rate=3e-3
            )
        budget = Budget(steps=100_000, minutes=30, validate_every=100)
        if line:
            return cls(width=32, increment=True), Fitting(budget, batch=16, learning_rate=2e-3)
        return cls(width=16, modes=12, increment=True), Fitting(budget, 4, learning_rate=2e-3)

    def build(self, facts: Facts) -> FourierOperator:
        return FourierOperator(self, len(facts.channels), facts.grid.ndim)


class FourierOperator(NextFrame):
    """Lift, Fourier blocks, project."""

    def __init__(self, settings: FNO, channels: int, ndim: int) -> None:
        super().__init__()
        width = settings.width
        self.increment = settings.increment
        self.lift = Pointwise(OBSERVED * channels + ndim, width)
        self.spectral = nn.ModuleList(
            SpectralConvolution(width, settings.modes, ndim) for _ in range(settings.blocks)
        )
        self.local = nn.ModuleList(Pointwise(width, width) for _ in range(settings.blocks))
        self.project = nn.Sequential(Pointwise(width, width), nn.GELU(), Pointwise(width, channels))

    def forward(self, window: Tensor) -> Tensor:
        x = self.lift(torch.cat([window.flatten(1, 2), coordinates(window)], 1))
        for number, (spectral, local) in enumerate(zip(self.spectral, self.local, strict=True), 1):
            x = spectral(x) + local(x)
            x = F.gelu(x) if number < len(self.local) else x
        out = self.project(x)
        return window[:, -1] + out if self.increment else out


class SpectralConvolution(nn.Module):
    """Channels mixed by another complex matrix in every one of the lowest modes."""

    def __init__(self, width: int, modes: int, ndim: int) -> None:
        super().__init__()
        self.modes, self.ndim = modes, ndim
        # Positive and negative wave numbers of every axis but the last, whose half is enough.
        self.corners = list(product((False, True), repeat=ndim - 1))
        shape = (len(self.corners), width, width, *[modes] * ndim, 2)
        self.weight = nn.Parameter(torch.rand(shape) / width**2)

    def forward(self, x: Tensor) -> Tensor:
        space, axes = x.shape[2:], tuple(range(2, 2 + self.ndim))
        spectrum = torch.fft.rfftn(x, dim=axes)
        kept = [min(self.modes, n // 2) for n in space]
        out = torch.zeros_like(spectrum)
        for corner, weight in zip(self.corners, torch.view_as_complex(self.weight), strict=True):
            sides = [slice(-k, None) if negative else slice(k)
                     for negative, k in zip((*corner, False), kept, strict=True)]  # fmt: skip
            lowest = [slice(k) for k in kept]
            here = (..., *sides)
            mixed = torch.einsum("ni...,io...->no...", spectrum[here], weight[(..., *lowest)])
            out[here] = mixed
        return torch.fft.irfftn(out, s=space, dim=axes)


class Pointwise(nn.Conv1d):
    """One matrix for the channels `(n, channel, *space)` of every point."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flatten(2)).unflatten(2, x.shape[2:])


def coordinates(window: Tensor) -> Tensor:
    """The place of every point in [0, 1) along every axis, `(n, axis, *space)`."""
    space = window.shape[3:]
    axes = [torch.arange(n, dtype=window.dtype, device=window.device) / n for n in space]
    grid = torch.stack(torch.meshgrid(*axes, indexing="ij"))
    return grid.expand(len(window), *grid.shape)
