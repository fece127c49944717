"""A physicist who is given the terms: weak-form regression, shooting, and the exact solver.

The start is a least-squares fit of the smoothed equation, integrated between frames. Shooting then
changes the coefficients until simulated frames meet the observed ones: first one frame at a time,
which has no false minima nearby, then from the first frame through the whole window.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.benchmark.baselines import Method, Outcome
from opsplit.fourier import field_of, spectrum_of, squared_wavenumber
from opsplit.physics import Physics
from opsplit.physics.base import EPSILON
from opsplit.trajectories import Trajectories

SMOOTHED = 0.25
"""Width of the Gaussian test functions of the start, as a share of the largest wavenumber."""
DIFFERENCE = 1e-4
"""Difference quotients move the window by about this share of its change."""
ITERATIONS = 12
ENOUGH = 1e-6
"""The iterations end when a step lowers the misfit by less than this share of it."""
ROUGH = 0.01
"""The same for the iterations that only look for a start."""


def terms_given(physics: Physics) -> Method:
    """Coefficients by shooting; the forecast continues the trajectory that was shot."""

    def run(observed: Trajectories, horizon: int, seed: int) -> Outcome:
        began = time.perf_counter()
        frames, dt = observed.data[0].double(), observed.dt
        start, unit, names = weak_start(physics, frames, dt)
        times = dt * torch.arange(1, len(frames) + horizon, dtype=torch.float64)
        seen = len(frames) - 1
        steps = Shooting(physics.coarse(), names, unit, frames[:-1], frames[1:, None], times[:1])
        whole = Shooting(physics, names, unit, frames[:1], frames[None, 1:], times[:seen])
        found = whole.fit(steps.fit(start, ROUGH), ENOUGH)
        path = whole.simulated(found[None], times)[0]
        miss = (path[:seen] - frames[1:]).flatten(1).norm(dim=1)
        fit_error = float((miss / frames[1:].flatten(1).norm(dim=1)).mean())
        coefficients = dict(zip(names, found.tolist(), strict=True))
        seconds = time.perf_counter() - began
        return Outcome(path[seen:].float(), coefficients, fit_error, 0, seconds)

    return run


def weak_start(physics: Physics, frames: Tensor, dt: float) -> tuple[Tensor, Tensor, list[str]]:
    """Coefficients of the equation between Gaussian test functions, a unit of each, their names.

    A test function around every point smooths fronts before they are differentiated. A unit is
    the coefficient with which its term alone would make the whole change of the window.
    """
    k2 = squared_wavenumber(physics.grid, frames.dtype, frames.device)
    smooth = torch.exp(-k2 / (2 * SMOOTHED**2 * k2.max()))

    def tested(u: Tensor) -> Tensor:
        return field_of(smooth * spectrum_of(u, physics.grid.ndim), physics.grid.shape)

    terms = physics.term_fields(frames)
    change = tested(frames.diff(dim=0)[1:-1]).flatten()
    columns = []
    for f in map(tested, terms.values()):
        # The integral between two frames by the cubic through four: fourth order.
        columns.append(dt / 24 * (13 * (f[1:-2] + f[2:-1]) - f[:-3] - f[3:]).flatten())
    matrix = torch.stack(columns, 1)
    solution = torch.linalg.lstsq(matrix, change[:, None], driver="gelsd").solution[:, 0]
    unit = change.norm().clamp_min(1e-30) / matrix.norm(dim=0).clamp_min(1e-30)
    return solution, unit, list(terms)


@dataclass(frozen=True)
class Shooting:
    """Simulated minus observed frames as a function of the coefficients.

    Arguments:
        names: coefficients in the order of a vector of them.
        unit: a large change of each.
        initial: states `(n, channel, *space)` to start from.
        target: frames `(n, time, channel, *space)` to meet at `times`.
    """

    physics: Physics
    names: list[str]
    unit: Tensor
    initial: Tensor
    target: Tensor
    times: Tensor

    @property
    def size(self) -> Tensor:
        """Of the whole change."""
        return (self.target - self.initial[:, None]).norm().clamp_min(1e-30)

    def simulated(self, candidates: Tensor, times: Tensor) -> Tensor:
        """All trajectories of all candidates `(m, coefficient)` in one call of the solver."""
        held = candidates.repeat_interleave(len(self.initial), 0)
        start = self.initial.repeat(len(candidates), *[1] * (self.initial.ndim - 1))
        return self.physics.solve(start, dict(zip(self.names, held.T, strict=True)), times)

    def miss(self, candidates: Tensor) -> Tensor:
        """The misfit `(m, number)` of every candidate, as shares of the whole change."""
        paths = self.simulated(candidates, self.times).unflatten(0, (len(candidates), -1))
        return (paths - self.target).flatten(1) / self.size

    def allowed(self, mu: Tensor) -> Tensor:
        """Coefficients without a sign are not negative."""
        signed = torch.tensor([self.physics.terms[name].signed for name in self.names])
        return torch.where(signed, mu, mu.clamp_min(0))

    def fit(self, mu: Tensor, enough: float) -> Tensor:
        """Levenberg-Marquardt from `mu`; the quotients of an iteration are one call."""
        mu, damping, moves = self.allowed(mu), 1e-3, DIFFERENCE * torch.diag(self.unit)
        rounding = (EPSILON * self.target.norm() / self.size) ** 2
        for _ in range(ITERATIONS):
            values = self.miss(torch.cat([mu[None], mu + moves]))
            left, slopes = values[0], ((values[1:] - values[0]) / DIFFERENCE).T
            cost, gradient, curvature = left.square().sum(), slopes.T @ left, slopes.T @ slopes
            # A coefficient at its bound stays there while the misfit pushes it over.
            free = self.allowed(mu - 1e-9 * self.unit * gradient.sign()) != mu
            while True:
                square = curvature + damping * torch.diag(curvature.diagonal().clamp_min(1e-30))
                square = torch.where(free[:, None] & free, square, torch.eye(len(mu)).to(square))
                step = -torch.linalg.solve(square, gradient * free)
                tried = self.allowed(mu + self.unit * step)
                new = self.miss(tried[None])[0].square().sum()
                if bool(new <= cost):
                    break
                damping *= 10
                if damping > 1e6:
                    return mu
            mu, damping = tried, damping / 10
            if bool(cost - new <= enough * cost) or bool(new <= rounding):
                return mu
        return mu
