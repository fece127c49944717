"""The space a field lives on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from opsplit.boundary import normal
from opsplit.errors import OpsplitError
from opsplit.settings import SIZE, AtMost, Between, Settings

MOST_POINTS = 2**30


@dataclass(frozen=True)
class Grid(Settings):
    """A uniform grid of one to three axes.

    Axis `a` holds `shape[a]` points at `x_j = j * extent[a] / shape[a]`: the left end is a grid
    point, the right end is not (on a periodic axis it is the left end again).

    Arguments:
        shape: points per axis.
        extent: physical length per axis.
        boundary: per axis `"periodic"`, `"dirichlet"` (`"dirichlet=300"`), `"neumann"` or `"open"`,
            with a colon between different ends; one word stands for all axes. Synonyms such as
            `"insulated"` are understood, see `boundary.py`.

    Examples:
        >>> import opsplit
        >>> opsplit.Grid((64, 64), (1.0, 2.0)).spacing
        (0.015625, 0.03125)
    """

    shape: Annotated[tuple[int, ...], AtMost(3), Between(1, MOST_POINTS)]
    extent: Annotated[tuple[float, ...], SIZE]
    boundary: tuple[str, ...] | str = "periodic"

    def __post_init__(self) -> None:
        try:
            shape = tuple(int(n) for n in self.shape)
            extent = tuple(float(length) for length in self.extent)
        except (TypeError, ValueError):
            raise OpsplitError(
                "A grid needs points and length of every axis, such as Grid((64, 64), (1.0, 2.0)), "
                f"got {self.shape!r:.60} and {self.extent!r:.60}."
            ) from None
        words = self.boundary
        if not isinstance(words, str | Sequence):
            raise OpsplitError(f"boundary must be a word such as periodic, got {words!r:.60}.")
        boundary = (words,) * len(shape) if isinstance(words, str) else tuple(words)
        if not 1 <= len(shape) <= 3:
            raise OpsplitError(f"A grid has 1 to 3 axes, but shape {shape} has {len(shape)}.")
        if len(extent) != len(shape) or len(boundary) != len(shape):
            raise OpsplitError(
                f"Grid shape {shape} needs one extent and one boundary per axis, "
                f"got extent {extent} and boundary {boundary}."
            )
        if min(shape) < 2 or not all(math.isfinite(x) and x > 0 for x in extent):
            raise OpsplitError(
                f"Grid axes need at least 2 points and a positive length, got {shape} and {extent}."
            )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "boundary", tuple(normal(str(word)) for word in boundary))
        super().__post_init__()

    def check(self) -> None:
        if math.prod(self.shape) > MOST_POINTS:
            raise OpsplitError(f"A grid of {self.shape} has more than {MOST_POINTS} points.")

    @property
    def ndim(self) -> int:
        """Number of space axes."""
        return len(self.shape)

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance between neighbouring points, per axis."""
        return tuple(length / n for length, n in zip(self.extent, self.shape, strict=True))

    @property
    def periodic(self) -> bool:
        """Whether every axis is periodic."""
        return all(word == "periodic" for word in self.boundary)

    def axes(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
        """Coordinates of the points along every axis."""
        return tuple(
            torch.arange(n, dtype=dtype) * h for n, h in zip(self.shape, self.spacing, strict=True)
        )
