"""The modes that a solver kept: dealiased fields end at a mode well below the finest."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from opsplit._tensors import in_pieces
from opsplit.grid import Grid

LEAST, MOST = 0.4, 0.75
"""Solvers that dealias keep a share of the modes between these."""
FINEST = 0.8
"""Modes above this share hold nothing but noise or rounding, if a solver dealiased."""
ROUNDING = 1e-22
"""Share of the power that counts as nothing."""
SIGNAL = 4.0
"""A mode with this many times their power holds a signal,"""
STRONG = 20.0
"""and with this many, one that does not end by itself."""
STEEP = 4.0
"""Beyond the edge power falls so many times faster than before it."""


def kept_share(frames: Sequence[Tensor], grid: Grid) -> float | None:
    """The share of the modes of every axis that hold a signal, where they end at a sharp edge.

    Fields of a dealiased solver obey the equation without the products' modes beyond the edge,
    which matters where the fields are barely resolved. None if an axis has no such edge.

    Arguments:
        frames: `(time, channel, *space)` of every trajectory, in double precision.
    """
    if not grid.periodic or min(grid.shape) < 16:
        return None
    shares = []
    for axis in range(grid.ndim):
        power = _power(frames, grid, axis)
        last = _edge(power, grid.shape[axis] // 2)
        if last is None:
            return None
        shares.append(last / (grid.shape[axis] // 2))
    return max(shares)


def _power(frames: Sequence[Tensor], grid: Grid, axis: int) -> Tensor:
    """Mean power of the modes of one axis, over the lower modes of the others."""
    total = torch.zeros(grid.shape[axis] // 2 + 1, dtype=torch.float64)
    for f in (piece for each in frames for piece in in_pieces(each)):
        modes = torch.fft.rfft(f.double(), dim=2 + axis)
        for other, n in enumerate(grid.shape):
            if other != axis:
                modes = torch.fft.fft(modes, dim=2 + other)
                low = torch.fft.fftfreq(n, 1 / n, device=f.device).abs() <= n / 4
                modes = modes.index_select(2 + other, low.nonzero()[:, 0])
        total += modes.abs().square().movedim(2 + axis, -1).flatten(0, -2).sum(0).cpu()
    return total


def _edge(power: Tensor, half: int) -> int | None:
    """The last mode with a signal, if the signal ends there all at once."""
    floor = max(float(power[int(FINEST * half) : half].max()), ROUNDING * float(power.sum()))
    signal = (power[:half] > SIGNAL * floor).nonzero()[:, 0]
    last = int(signal[-1]) if len(signal) else 0
    if not LEAST * half <= last <= MOST * half or not float(power[last]) > STRONG * floor:
        return None
    before, at, after = (float(power[last + i]) for i in (-1, 0, 1))
    return last if at * at > STEEP * before * after else None
