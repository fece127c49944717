"""Forecasts on finer grids, where scales appear that the observed frames do not have.

Gradients steepen and flows fold: a grid that holds what was observed may be too coarse for what
follows. A forecast that fills the upper modes is repeated with more points, as long as the finer
operators explain the observed frames as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from opsplit.dictionary import PreparedDictionary
from opsplit.fourier import resample
from opsplit.grid import Grid
from opsplit.predict.explain import Explanation
from opsplit.predict.rollout import Forecast, Outcome, one_step, rollouts
from opsplit.predict.working_grid import fast_points
from opsplit.search.result import Composition
from opsplit.splitting import Scheme

FINER = 1.5
"""Points per axis of a grid over those of the grid before."""
MOST = 4.0
"""Points of the finest grid over those of the first."""
FULL = 1e-8
"""Share of the variance in the upper third of the modes at which a grid counts as full."""
REPLAYED = 4
"""So many of the last steps are compared on both grids."""
WORSE = 1.05
"""An error of these steps over that on the coarser grid which is still as good."""


@dataclass(frozen=True)
class Stage:
    """Where forecasts run: a grid, and the operators of some compositions on it."""

    found: Explanation
    start: Tensor
    grid: Grid
    scheme: Scheme
    refinement: int
    operators: PreparedDictionary
    places: tuple[int, ...] | None = None
    """Places in the dictionary of the operators that were prepared; None: all of them."""

    def run(
        self, compositions: Sequence[Composition], ahead: Sequence[float], start: Tensor
    ) -> list[Forecast]:
        """Forecasts of compositions of one length, from one state each or from the same."""
        return rollouts(
            self.operators, self._placed(compositions), resample(start, self.grid.shape), ahead,
            self.found.objective.dt, self.scheme, self.refinement, True,
        )  # fmt: skip

    def replayed(self, pick: Composition, trajectory: int) -> float:
        """The error of the last observed steps, in the modes that were observed."""
        window = self.found.window
        frames = window.frames[trajectory][-1 - REPLAYED :]
        steps = window.moments[trajectory].diff()[1 - len(frames) :].tolist()
        before = resample(frames[:-1], self.grid.shape)
        [placed] = self._placed([pick])
        made = one_step(self.operators, placed, before, steps, self.scheme, self.refinement)
        return float((onto(made, window.grid.shape) - frames[1:]).norm())

    def finer(self, full: Sequence[bool], needed: Sequence[Composition]) -> Stage:
        """More points along the axes that are full."""
        shape = tuple(
            fast_points(math.ceil(FINER * n)) if more else n
            for n, more in zip(self.grid.shape, full, strict=True)
        )
        grid = replace(self.grid, shape=shape)
        places = tuple(sorted({i for c in needed for i in c.operators}))
        operators = self.found.dictionary.select(places).prepare(grid, self.start)
        return replace(self, grid=grid, operators=operators, places=places)

    def _placed(self, compositions: Sequence[Composition]) -> list[Composition]:
        if self.places is None:
            return list(compositions)
        where = self.places.index
        return [replace(c, operators=tuple(map(where, c.operators))) for c in compositions]


def forecasts(
    found: Explanation,
    compositions: Sequence[Composition],
    start: Tensor,
    ahead: Sequence[float],
    scheme: Scheme,
    refinement: int,
    trajectory: int = 0,
) -> list[Forecast]:
    """Forecasts of the first composition and of others of its length, on a grid that holds them.

    The others share the grid of the first, which is forecast by itself: a band does not change it.
    They start from one state `(channel, *space)`, or each from its own.
    """
    pick, *others = compositions
    each = start.expand(len(compositions), *start.shape[-1 - found.window.grid.ndim :])
    stage = Stage(found, each[0], found.window.grid, scheme, refinement, found.operators)
    first = stage.run([pick], ahead, each[0])[0]
    for other, made in _finer(stage, first, compositions, ahead, trajectory):
        stage, first = other, made
    return [first, *(stage.run(others, ahead, each[1:]) if others else [])]


def _finer(
    stage: Stage,
    made: Forecast,
    needed: Sequence[Composition],
    ahead: Sequence[float],
    trajectory: int,
) -> Iterator[tuple[Stage, Forecast]]:
    """Ever finer grids with their forecasts, until a forecast fits or no grid is better."""
    pick, first, window = needed[0], stage.grid, stage.found.window
    noise = (window.noise / window.size) ** 2 if window.noise else 0.0
    bound = any(part.family.grid_bound for part in stage.found.dictionary.parts)
    while not bound and first.periodic and made.outcome is not Outcome.LATE:
        full = full_axes(made.frames, noise)
        if not any(full):
            return
        finer = stage.finer(full, needed)
        if math.prod(finer.grid.shape) > MOST * math.prod(first.shape):
            return
        if not finer.replayed(pick, trajectory) <= WORSE * stage.replayed(pick, trajectory):
            return
        [made] = finer.run([pick], ahead, finer.start)
        if made.outcome is not Outcome.FINITE:
            return
        stage = finer
        yield stage, made


def onto(frames: Tensor, shape: Sequence[int]) -> Tensor:
    """Periodic fields at `shape` points; of a finer grid, all modes that these do not resolve go.

    That at half the coarser rate goes too: nothing tells its phase.
    """
    for axis, points in enumerate(shape, -len(shape)):
        if frames.shape[axis] > points:
            spectrum = torch.fft.rfft(frames, dim=axis)
            kept = torch.arange(spectrum.shape[axis], device=frames.device) < points / 2
            spectrum = spectrum * kept.reshape(-1, *[1] * (-1 - axis))
            frames = torch.fft.irfft(spectrum, n=frames.shape[axis], dim=axis)
    return resample(frames, shape)


def full_axes(frames: Tensor, noise: float = 0.0) -> list[bool]:
    """Whether a forecast `(time, channel, *space)` fills the upper modes of every axis.

    Arguments:
        noise: share of the variance that may be noise.
    """
    return [max(upper_share(frames, axis)) > max(FULL, noise) for axis in range(2 - frames.ndim, 0)]


def upper_share(frames: Tensor, axis: int) -> list[float]:
    """Share of the variance of every frame in the upper third of the modes of an axis."""
    power = torch.fft.rfft(torch.nan_to_num(frames), dim=axis).abs().square()
    power = power.transpose(axis, -1).flatten(1, -2).sum(1).double()[:, 1:]
    upper = power[:, math.ceil(2 / 3 * power.shape[1]) :].sum(1)
    return (upper / power.sum(1).clamp_min(torch.finfo(power.dtype).tiny)).tolist()
