"""Walls as symmetries: fields between walls continue as periodic fields on a longer box.

A field with a fixed value at a wall continues oddly about that value, an insulated one evenly.
Operators that keep the symmetry act on the continued field as they do between the walls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from opsplit.boundary import NEUMANN, OPEN
from opsplit.dictionary import OperatorDictionary, PreparedDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.predict.ends import Ends
from opsplit.trajectories import Trajectories

BROKEN = 0.1
"""An operator keeps a symmetry if its rate misses it by at most this share."""

AT_ONCE = 4_000_000
"""Numbers of the fields whose rates are computed at once."""


@dataclass(frozen=True)
class Axis:
    """The two walls of one axis with so many points."""

    ends: Ends
    points: int

    @property
    def even(self) -> tuple[bool, bool]:
        """Whether the field continues evenly at each wall."""
        left, right = (end.side.kind == NEUMANN for end in (self.ends.left, self.ends.right))
        return left, right

    @property
    def beyond(self) -> tuple[int, int]:
        """Points to add at each end: a wall one spacing beyond the last point is one."""
        left, right = (int(e.distance == 1.0) for e in (self.ends.left, self.ends.right))
        return left, right

    @property
    def values(self) -> tuple[float, float]:
        """The fixed values; beside an insulated end the other one counts."""
        left, right = self.ends.left.side, self.ends.right.side
        if left.kind == NEUMANN:
            return right.value, right.value
        return left.value, left.value if right.kind == NEUMANN else right.value

    @property
    def sloped(self) -> bool:
        """Whether the two fixed values differ: then a linear profile is taken off first."""
        return self.values[0] != self.values[1]

    @property
    def steps(self) -> float:
        """Spacings between the walls."""
        return self.points - 1 + self.ends.left.distance + self.ends.right.distance

    @property
    def period(self) -> int:
        """Points of the continued field."""
        return len(self.unfold(torch.zeros(self.points)))

    def profile(self, like: Tensor) -> Tensor:
        """The fixed value, or the line between two of them, at the points of the data."""
        (low, high), ends = self.values, self.ends
        x = torch.arange(self.points, dtype=torch.float64, device=like.device)
        return (low + (high - low) * (x + ends.left.distance) / self.steps).to(like)

    def unfold(self, u: Tensor) -> Tensor:
        """The continued field along the last axis, from one on the points of the data."""
        profile = self.profile(u)
        v = torch.nn.functional.pad(u - profile, self.beyond)
        signs = [1.0 if even else -1.0 for even in self.even]
        on = [int(end.distance != 0.5) for end in (self.ends.left, self.ends.right)]
        back = signs[1] * v.flip(-1)
        # A point on a wall is its own image.
        half = torch.cat([v, back[..., on[1] : back.shape[-1] - on[0]]], -1)
        if signs[0] != signs[1]:
            half = torch.cat([half, -half], -1)
        return half if self.sloped else half + profile[0]

    def fold(self, w: Tensor) -> Tensor:
        """The field on the points of the data, from the continued one along the last axis."""
        v = w.narrow(-1, self.beyond[0], self.points)
        return v + self.profile(v) if self.sloped else v

    def reflected(self, w: Tensor, wall: int) -> Tensor:
        """Rates along the last axis as their symmetry about a wall wants them, at any resolution.

        The period has the length 1; a reflection turns the phase of every mode.
        """
        ends = self.ends
        at = self.beyond[0] - ends.left.distance
        if wall:
            at = self.beyond[0] + self.points - 1 + ends.right.distance
        n = w.shape[-1]
        k = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64, device=w.device)
        turn = torch.exp(-2j * torch.pi * k * 2 * at / self.period)
        mirrored = torch.fft.fft(w, dim=-1).flip(-1).roll(1, -1) * turn.to(torch.complex64)
        sign = 1.0 if self.even[wall] else -1.0
        return sign * torch.fft.ifft(mirrored, dim=-1).real


@dataclass(frozen=True)
class Walls:
    """The walls of a box; None for a periodic axis."""

    axes: tuple[Axis | None, ...]

    @classmethod
    def of(cls, grid: Grid, ends: Sequence[Ends]) -> Walls:
        """The walls of data with these ends."""
        for name, one in zip("xyz", ends, strict=False):
            if OPEN in (one.left.side.kind, one.right.side.kind):
                raise OpsplitError(
                    f"The ends of {name} are open: nothing says how the field goes on there. "
                    "Periodic, dirichlet and neumann ends can be handled; say boundary."
                )
        pairs = zip(ends, grid.shape, strict=True)
        return cls(tuple(Axis(e, n) if e.walls else None for e, n in pairs))

    @property
    def any(self) -> bool:
        return any(axis is not None for axis in self.axes)

    @property
    def words(self) -> str:
        """What the walls are, for a note."""
        said = [f"{n}: {a.ends.text}" for n, a in zip("xyz", self.axes, strict=False) if a]
        return ", ".join(said)

    def unfold(self, observed: Trajectories) -> Trajectories:
        """The frames continued to periodic ones."""
        grid, data = observed.grid, observed.data
        shape, extent = list(grid.shape), list(grid.extent)
        for i, axis in enumerate(self.axes):
            if axis is not None:
                dim = i - grid.ndim
                data = axis.unfold(data.transpose(dim, -1)).transpose(dim, -1)
                shape[i] = data.shape[dim]
                extent[i] = grid.spacing[i] * shape[i]
        longer = Grid(tuple(shape), tuple(extent))
        return replace(observed, data=data.contiguous(), grid=longer)

    def shape(self, given: Sequence[int]) -> tuple[int, ...]:
        """Points of continued fields."""
        pairs = zip(self.axes, given, strict=True)
        return tuple(n if axis is None else axis.period for axis, n in pairs)

    def fold(self, frames: Tensor) -> Tensor:
        """Frames `(..., *space)` on the points of the data."""
        for i, axis in enumerate(self.axes):
            if axis is not None:
                dim = i - len(self.axes)
                frames = axis.fold(frames.transpose(dim, -1)).transpose(dim, -1)
        return frames.contiguous()

    def keeping(
        self, dictionary: OperatorDictionary, grid: Grid, frames: Tensor
    ) -> OperatorDictionary:
        """The operators that keep the symmetry of the walls, measured on continued frames.

        Arguments:
            grid: where the operators act, periodic.
            frames: some frames `(time, channel, *space)`, as the operators see them.
        """
        if not self.any:
            return dictionary
        keeps = self._keep(dictionary.prepare(grid, frames), frames)
        kept = [i for i, ok in enumerate(keeps) if ok and self._ignores_slope(dictionary, i)]
        if len(kept) == len(dictionary):
            return dictionary
        if not kept:
            raise OpsplitError(
                f"No operator of this model keeps the symmetry of the walls ({self.words}): "
                f"{refused(dictionary, kept)} would push the field through a wall. Another model, "
                "or one trained on such data, is needed."
            )
        return dictionary.select(kept)

    @torch.no_grad()
    def _keep(self, operators: PreparedDictionary, frames: Tensor) -> list[bool]:
        """Whether the rates of every operator have the symmetry that the frames have."""
        out: list[bool] = []
        everyone = torch.arange(len(operators), device=frames.device)
        for some in everyone.split(max(1, AT_ONCE // frames.numel())):
            rates = operators.rates(some, frames)
            size, missed = rates.flatten(1).norm(dim=1), torch.zeros(len(some)).to(rates)
            walled = [(i, axis) for i, axis in enumerate(self.axes) if axis is not None]
            for i, axis in walled:
                lines = rates.transpose(i - len(self.axes), -1)
                for wall in (0, 1):
                    gap = (lines - axis.reflected(lines, wall)).flatten(1).norm(dim=1)
                    missed = torch.maximum(missed, gap)
            out += (missed <= BROKEN * size).tolist()
        return out

    def _ignores_slope(self, dictionary: OperatorDictionary, index: int) -> bool:
        """Between different fixed values only terms that a linear profile does not change act."""
        if not any(axis.sloped for axis in self.axes if axis is not None):
            return True
        names = [name for name, v in dictionary.coefficients.items() if v[index] != 0]
        terms = [dictionary.terms.get(name) for name in names]
        return bool(terms) and all(
            t is not None and t.degree == 1 and (t.order or 0) > 1 for t in terms
        )


def refused(dictionary: OperatorDictionary, kept: Sequence[int]) -> str:
    """The coefficients of the operators that are left out."""
    out = np.ones(len(dictionary), dtype=bool)
    out[list(kept)] = False
    named = [name for name, v in dictionary.coefficients.items() if (v[out] != 0).any()]
    return ", ".join(named) or "every operator"
