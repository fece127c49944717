"""Forecasts on finer grids, where scales appear that the observed frames do not have.

Gradients steepen and flows fold: a grid that holds what was observed may be too coarse for what
follows. A forecast that fills the upper modes is repeated with more points, as long as the finer
operators explain the observed frames as well. It starts from a finer state: the observed frames
say the lower modes, and what the operators make of the frames before says the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from opsplit._deadline import time_is_up
from opsplit.dictionary import PreparedDictionary, dealiased
from opsplit.fourier import resample
from opsplit.grid import Grid
from opsplit.predict.explain import Explanation
from opsplit.predict.rollout import Forecast, Outcome, one_step, rollouts
from opsplit.predict.working_grid import fast_points
from opsplit.search.result import Composition
from opsplit.splitting import Scheme

WAYS = ((1.5, None), (2.0, 2 / 3))
"""Points per axis of a grid over those of the grid before, and the share of its modes that products
keep: all, or those of a dealiased solver whose frames were stored on every second point."""
CLEARLY = 0.8
"""A way that takes more points must leave at most this share of the error of the one before."""
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
    error: float | None = None
    """Of the last observed steps, where it is known."""

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
        if self.error is not None:
            return self.error
        frames, steps = self._observed(trajectory)
        frames, steps = frames[-1 - REPLAYED :], steps[-REPLAYED:]
        [placed] = self._placed([pick])
        made = one_step(self.operators, placed, frames[:-1], steps, self.scheme, self.refinement)
        return float((made - frames[1:]).norm())

    def carried(self, pick: Composition, trajectory: int) -> Stage:
        """The same stage, with a start and an error that know what all observed frames say.

        The first frame is carried on; at every frame its lower modes give way to the observed ones.
        """
        frames, steps = self._observed(trajectory)
        [placed] = self._placed([pick])
        now, errors = resample(frames[0], self.grid.shape), [0.0]
        observed = (*frames[1:-1], self.start)
        for frame, seen, step in zip(frames[1:], observed, steps, strict=True):
            if time_is_up():
                return replace(self, error=math.nan)
            [made] = one_step(
                self.operators, placed, now[None], [step], self.scheme, self.refinement
            )
            lower = onto(made, frame.shape[1:])
            errors.append(float((lower - frame).norm()))
            now = made + resample(onto(seen, frame.shape[1:]) - lower, self.grid.shape)
        return replace(self, start=now, error=math.hypot(*errors[-REPLAYED:]))

    def finer(
        self, full: Sequence[bool], needed: Sequence[Composition], factor: float,
        share: float | None,
    ) -> Stage | None:  # fmt: skip
        """More points along the axes that are full; None if products keep their modes anyway."""
        shape = tuple(
            fast_points(math.ceil(factor * n)) if more else n
            for n, more in zip(self.grid.shape, full, strict=True)
        )
        grid = replace(self.grid, shape=shape)
        places = tuple(sorted({i for c in needed for i in c.operators}))
        dictionary = every = self.found.dictionary.select(places)
        if share is not None:
            dictionary = dealiased(every, share)
            if dictionary is every:
                return None
        return replace(
            self, grid=grid, operators=dictionary.prepare(grid, self.start), places=places,
            refinement=self.refinement * int(factor), error=None,
        )  # fmt: skip

    def _observed(self, trajectory: int) -> tuple[Tensor, list[float]]:
        """The observed frames and the time between them."""
        window = self.found.window
        return window.frames[trajectory], window.moments[trajectory].diff().tolist()

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
    if not others:
        return [first]
    moved = resample(each[1:] - each[0], stage.grid.shape)
    starts = resample(stage.start, stage.grid.shape) + moved
    return [first, *stage.run(others, ahead, starts)]


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
        allowed, best = WORSE * stage.replayed(pick, trajectory), None
        for factor, share in WAYS:
            finer = stage.finer(full, needed, factor, share)
            if finer is None or math.prod(finer.grid.shape) > MOST * math.prod(first.shape):
                continue
            finer = finer.carried(pick, trajectory)
            error = finer.replayed(pick, trajectory)
            if error <= allowed:
                allowed, best = CLEARLY * error, finer
        if best is None:
            return
        [made] = best.run([pick], ahead, best.start)
        if made.outcome is not Outcome.FINITE:
            return
        stage = best
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
