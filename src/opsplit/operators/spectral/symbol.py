"""The linear part of a spectral operator: a smooth symbol, diagonal in Fourier space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Self

import torch
from torch import Tensor

from opsplit.fourier import odd_wavenumbers, squared_wavenumber
from opsplit.grid import Grid
from opsplit.operators.family import Examples
from opsplit.operators.spectral.linear_part import LinearPart
from opsplit.settings import Between, Size

NO_TURN = 0.05
"""Turns smaller than this share of the damping are errors of the training."""


@dataclass(frozen=True)
class Symbol(LinearPart):
    """`L(k)` of every channel, smooth in `k`, so that it works at any resolution and box size.

    With `kappa` the wavenumber in the operator's unit,

        Re L = -(r0^2 + (|kappa| r1)^2 + (|kappa|^2 r2)^2)   never positive: no flow can explode
        Im L = sum_a kappa_a b1_a + kappa_a |kappa|^2 b3_a

    and every coefficient is a constant plus smooth bumps in `log2(1 + |k|)`.

    Arguments:
        bumps: Gaussian bumps per coefficient.
        highest_wavenumber: where the last bump stands (None: the finest of the training grid).
        squared_dispersion: square `b1` and `b3`, keeping their sign. An operator without transport
            then needs no exact zero, which `kappa^3` would amplify.
    """

    kind = "symbol"

    bumps: Annotated[int, Between(0, 64)] = 8
    highest_wavenumber: Size | None = None
    squared_dispersion: bool = False

    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        """The generated parameters."""
        width = 1 + self.bumps
        return {"decay": (3, channels, width), "turn": (2, ndim, channels, width)}

    def start(self, name: str, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Start and scale of a parameter: weak decay, no rotation.

        Scales even out what a parameter does: a power of k acts on fields up to k = 10 or so,
        and bumps only correct a law that is mostly a power of k.
        """
        begin, size = torch.zeros(shape), torch.ones(shape)
        powers = (0.3, 1.0, 0.1) if name == "decay" else (1.0, 0.02)
        size *= torch.tensor(powers).reshape(-1, *[1] * (len(shape) - 1))
        size[..., 1:] *= 0.02
        if self.squared_dispersion and name == "turn":
            size = size.sqrt()
            begin[1, ..., 0] = 0.2 * size[1, ..., 0]
        if name == "decay":
            begin[..., 0] = 0.1 * size[..., 0]
        return begin, size

    def values(self, weights: Mapping[str, Tensor], grid: Grid, unit: float) -> Tensor:
        """`L` on the modes of a grid, `(E, channel, *modes)`."""
        decay, turn = weights["decay"], weights["turn"]
        kappa = odd_wavenumbers(grid, decay.dtype, decay.device) / unit
        size = squared_wavenumber(grid, decay.dtype, decay.device).sqrt()
        basis = self._basis(size)
        size = size / unit
        decay = torch.einsum("efcb,b...->efc...", decay, basis)
        turn = torch.einsum("efacb,b...->efac...", turn, basis)
        if self.squared_dispersion:
            turn = turn * turn.abs()
        real = decay[:, 0] ** 2 + (size * decay[:, 1]) ** 2 + (size**2 * decay[:, 2]) ** 2
        imag = (kappa[:, None] * (turn[:, 0] + size**2 * turn[:, 1])).sum(1)
        return torch.complex(-real, imag)

    def fitted(self, examples: Examples) -> Self:
        if self.highest_wavenumber is not None:
            return self
        return replace(self, highest_wavenumber=math.pi / min(examples.grid.spacing))

    def directed(self, weights: Mapping[str, Tensor], ndim: int, unit: float) -> Tensor:
        """Operators that turn modes more than a little, beside how far any of them damps."""
        few = Grid((16,) * ndim, (2 * math.pi / unit,) * ndim)
        symbol = self.values(weights, few, unit).flatten(1)
        return symbol.imag.norm(dim=1) > NO_TURN * symbol.real.norm(dim=1).max()

    def isotropic(
        self, weights: Mapping[str, Tensor], ndim: int, wanted: int
    ) -> tuple[LinearPart, dict[str, Tensor]]:
        turn = weights["turn"]
        none = turn.new_zeros(len(turn), 2, wanted, *turn.shape[3:])
        return self, {"decay": weights["decay"], "turn": none}

    def _basis(self, size: Tensor) -> Tensor:
        """A constant and Gaussians in `log2(1 + |k|)`, `(1 + bumps, *modes)`."""
        if not self.bumps:
            return torch.ones_like(size)[None]
        octave = torch.log2(1 + size)
        last = math.log2(1 + (self.highest_wavenumber or 50.0))
        centres = torch.linspace(0, last, self.bumps).to(octave)
        width = float(centres[1] - centres[0]) if self.bumps > 1 else 1.0
        away = (octave - centres.reshape(-1, *[1] * octave.ndim)) / width
        return torch.cat([torch.ones_like(octave)[None], torch.exp(-0.5 * away**2)])
