"""Operators on a line, used on the lines of a plane or of space."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators.family import Axes, Multiplier, OperatorFamily, Prepared, Propagator
from opsplit.operators.wrappers.wrapper import Wrapper


@dataclass(frozen=True)
class Along(Wrapper):
    """A 1-D operator on every line of a field along one axis; other lines are other states.

    The transport `-u_x` along the second axis is `-u_y`. A field that varies along the axis only
    evolves as it does on a line.

    Arguments:
        axis: the axis, counted from 0.
        axes: space axes of the field.
    """

    kind = "along"

    axis: int = 0
    axes: Axes = 2

    def check(self) -> None:
        if self.operator.ndim != 1:
            raise OpsplitError(f"Along: the operator acts on {self.operator.ndim} axes, not on 1.")
        if not 0 <= self.axis < self.axes:
            raise OpsplitError(f"Along: axis must lie in 0..{self.axes - 1}, got {self.axis}.")

    @property
    def ndim(self) -> int:  # type: ignore[override]
        return self.axes

    def line(self, grid: Grid) -> Grid:
        """The grid of one line."""
        a = self.axis
        return Grid((grid.shape[a],), (grid.extent[a],), (grid.boundary[a],))

    def check_grid(self, grid: Grid) -> None:
        OperatorFamily.check_grid(self, grid)
        self.operator.check_grid(self.line(grid))

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        return Prepared(self.operator.prepare(parameters, self.line(grid)).tensors, grid)

    def flops(self, grid: Grid) -> int:
        return self._lines(grid) * self.operator.flops(self.line(grid))

    def workspace(self, grid: Grid, states: int) -> int:
        return self.operator.workspace(self.line(grid), states * self._lines(grid))

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        return self.propagator(prepared, duration)(u)

    def propagator(self, prepared: Prepared, duration: float | Tensor) -> Propagator:
        inside = Prepared(prepared.tensors, self.line(prepared.grid))
        inner = self.operator.propagator(inside, duration)
        if isinstance(inner, Multiplier):
            points = prepared.grid.shape[self.axis]
            return Multiplier(self._on_all_axes(inner.factor, points), prepared.grid.shape)
        return lambda u: self._back(inner(self._as_lines(u)), u)

    def _on_all_axes(self, factor: Tensor, points: int) -> Tensor:
        """Factors `(E, 1, channel, mode)` of the modes of a line, for those of the whole field."""
        held = factor.shape[-1]
        # The first mode, and the last one of an even number of points, are real on every line.
        alone = torch.zeros(held, dtype=torch.bool, device=factor.device)
        alone[0], alone[-1] = True, points % 2 == 0
        factor = torch.where(alone, factor.real + 0j, factor)
        if self.axis < self.axes - 1:
            # The other modes of a real line are the conjugates of those that are stored.
            others = factor[..., 1 : points - held + 1].conj().flip(-1)
            factor = torch.cat([factor, others], -1)
        after = self.axes - 1 - self.axis
        return factor.reshape(*factor.shape[:3], *[1] * self.axis, -1, *[1] * after)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        inside = Prepared(prepared.tensors, self.line(prepared.grid))
        return self._back(self.operator.rate(inside, self._as_lines(u)), u)

    def _lines(self, grid: Grid) -> int:
        return math.prod(grid.shape) // grid.shape[self.axis]

    def _order(self) -> list[int]:
        """Axes of `(E, K, channel, *space)` with those off the line beside the states."""
        space = range(3, 3 + self.axes)
        return [0, 1, *(a for a in space if a != 3 + self.axis), 2, 3 + self.axis]

    def _as_lines(self, u: Tensor) -> Tensor:
        """States `(E, K * lines, channel, points)`."""
        return u.permute(self._order()).flatten(1, self.axes)

    def _back(self, lines: Tensor, like: Tensor) -> Tensor:
        order = self._order()
        shape = [like.shape[a] for a in order]
        whole = lines.unflatten(1, shape[1 : 1 + self.axes])
        return whole.permute([order.index(a) for a in range(like.ndim)]).contiguous()
