"""The grid that operators act on: that of the data, or one as fine as they were trained on."""

from __future__ import annotations

import math
from dataclasses import replace

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators.family import OperatorFamily

CLOSE = 0.01
"""Spacings that differ by less than this share count as equal."""


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
