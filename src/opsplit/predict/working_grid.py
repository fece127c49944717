"""The grid that operators act on: that of the data, or one as fine as they were trained on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from opsplit._tensors import in_pieces
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators.family import OperatorFamily

CLOSE = 0.01
"""Spacings that differ by less than this share count as equal."""
TAIL = 1e-9
"""Modes that hold no more than this share of the variance carry no signal: derivatives would make
their rounding large."""


def working_grid(family: OperatorFamily, trained: Grid, given: Grid) -> Grid:
    """Where operators act: the data's own grid, or one as fine as they were trained on."""
    if not family.grid_bound:
        return given
    multiple = family.points_multiple
    shape = tuple(
        n if abs(h / own - 1) < CLOSE and n % multiple == 0
        else max(multiple, multiple * round(length / own / multiple))
        for n, h, own, length in zip(
            given.shape, given.spacing, trained.spacing, given.extent, strict=True
        )
    )  # fmt: skip
    if shape == given.shape:
        return given
    if not given.periodic:
        raise OpsplitError(
            f"These {family.kind} operators were trained at a spacing of "
            f"{', '.join(f'{h:.4g}' for h in trained.spacing)} and the data have "
            f"{', '.join(f'{h:.4g}' for h in given.spacing)}; only periodic fields can be "
            "resampled. Store the data at that spacing, or train a model at theirs."
        )
    if max(math.prod(shape), 1) > 64 * math.prod(trained.shape):
        raise OpsplitError(
            f"A box of {given.extent} at the spacing these operators were trained on has {shape} "
            f"points, far more than the {trained.shape} they know. Is --extent right?"
        )
    return replace(given, shape=shape)


def resolved_grid(given: Grid, trained: Grid, frames: Sequence[Tensor]) -> Grid:
    """The coarsest grid that holds all modes with a signal, no coarser than the training grid.

    So what is found does not depend on how finely the same fields were sampled. Frames
    `(time, channel, *space)`.
    """
    shape = list(given.shape)
    for axis, word in enumerate(given.boundary):
        usual = given.extent[axis] / trained.spacing[axis] * (1 - CLOSE)
        # A huge box first: its next smooth number of points is never found.
        if (
            word != "periodic"
            or shape[axis] <= usual
            or shape[axis] <= fast_points(math.ceil(usual))
        ):
            continue
        needed = max(math.ceil(usual), 2 * _last_mode(frames, axis - given.ndim) + 2)
        shape[axis] = min(shape[axis], fast_points(needed))
    return given if tuple(shape) == given.shape else replace(given, shape=tuple(shape))


def _last_mode(frames: Sequence[Tensor], axis: int) -> int:
    """The highest mode of an axis with a signal."""
    power = torch.zeros(frames[0].shape[axis] // 2 + 1, dtype=torch.float64)
    for f in frames:
        for piece in in_pieces(f):
            modes = torch.fft.rfft(piece.double(), dim=axis).abs().square_().transpose(axis, -1)
            power += modes.flatten(0, -2).sum(0).cpu()
    power[0] = 0.0
    above = power.flip(0).cumsum(0).flip(0)
    signal = (above > TAIL * power.sum()).nonzero()
    return int(signal[-1]) if len(signal) else 0


def fast_points(points: int) -> int:
    """The next even number without prime factors above 5, for fast transforms."""
    found = points + points % 2
    while True:
        rest = found
        for prime in (2, 3, 5):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return found
        found += 2
