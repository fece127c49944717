"""Find the composition that explains observed frames, in the units in which it is found best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from torch import Tensor

from opsplit.dictionary import OperatorDictionary, PreparedDictionary, oriented
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.operators import OperatorFamily
from opsplit.predict.coarse import around, confirming, is_large, last_frames, shortlist
from opsplit.predict.replay import Replay
from opsplit.predict.substeps import search_substeps
from opsplit.predict.units import Freedom, Units, choose_units
from opsplit.predict.verdict import Verdict, measure
from opsplit.predict.walls import Walls
from opsplit.predict.window import Window, prepare, recent_frames
from opsplit.predict.working_grid import resolved_grid, working_grid
from opsplit.search import Objective, Pursuit, SearchResult, Strategy
from opsplit.search.budget import time_is_up
from opsplit.search.strategy import Report
from opsplit.splitting import Scheme
from opsplit.trajectories import Trajectories

TOGETHER_MB = 256.0
"""Compositions are scored together up to so much memory; more makes nothing quicker."""
ENOUGH = 0.02
"""Units in which a step leaves less than this share of the change need no rival."""
STRAINED = 0.95
"""A strength beyond this share of the largest one is at its limit."""
SLOWER = 4.0
"""Where a strength is at its limit, the time unit is divided by this number."""
MORE_TIMES = 4
"""So many shorter time units are tried at most."""
BETTER = 0.9
"""A shorter time unit must reduce the fitting error to this share."""


@dataclass(frozen=True)
class Plan:
    """How to search."""

    search: Strategy
    scheme: Scheme
    refinement: int | Literal["auto"]
    last: int | None
    """Only so many frames of the end are fitted (None: all)."""
    clean: bool
    """Whether to take out white noise."""
    device: str
    memory_mb: float


@dataclass(frozen=True)
class Explanation:
    """The composition that was found, and everything that gives it a meaning."""

    window: Window
    objective: Objective
    result: SearchResult
    operators: PreparedDictionary
    verdict: Verdict

    @property
    def units(self) -> Units:
        return self.window.units

    @property
    def dictionary(self) -> OperatorDictionary:
        """All operators of the search; their coefficients are in the units of the data."""
        return self.result.dictionary or self.objective.dictionary

    @property
    def strained(self) -> bool:
        """Whether an operator of the pick is as strong as the search allows."""
        most = float(self.objective.dictionary.max_strengths.min())
        return max(self.result.pick.strengths) >= STRAINED * most


class Explainer:
    """Tries units until the observed frames are explained.

    Arguments:
        observed: frames in the units of the data.
        model: the model.
        used: the operators.
        plan: how to search.
        report: called with the share done and a few words.
        walls: symmetries that the operators must keep.
    """

    def __init__(
        self,
        observed: Trajectories,
        model: Model,
        used: OperatorDictionary,
        plan: Plan,
        report: Report | None = None,
        walls: Walls | None = None,
    ) -> None:
        self.walls = walls
        self.observed, self.model, self.used = observed, model, used
        self.plan, self.report = plan, report
        self.frames, self.moments = recent_frames(
            observed, plan.last, model.config.channels, plan.device
        )

    @cached_property
    def freedom(self) -> Freedom:
        """Which units may be chosen: none, for a search that knows no strengths."""
        if not self.plan.search.fits_strengths:
            return Freedom(False, False, False, False)
        return Freedom.of(self.used)

    @property
    def _bound(self) -> OperatorFamily | None:
        """Operators that act at the spacing of the training grid only, if there are any."""
        families = (part.family for part in self.used.parts)
        return next((family for family in families if family.grid_bound), None)

    def best(self) -> Explanation:
        """The explanation in the best of all units that are worth a try."""
        if isinstance(self.plan.search, Replay):
            return self.attempt(self.plan.search.units)
        observed, config = self.observed, self.model.config
        tried = choose_units(
            self.frames, observed.grid, observed.dt, config, self.freedom, self._bound
        )
        best = self.attempt(tried[0])
        for units in tried[1:]:
            if best.verdict.unexplained < ENOUGH or time_is_up():
                return best
            found = self.attempt(units)
            if found.verdict.unexplained < best.verdict.unexplained:
                best = found
        for _ in range(MORE_TIMES if self.freedom.orders else 0):
            if best.verdict.unexplained < ENOUGH or not best.strained or time_is_up():
                break
            found = self.attempt(replace(best.units, time=best.units.time / SLOWER))
            if not found.result.pick.fit_error < BETTER * best.result.pick.fit_error:
                break
            best = found
        return best

    def attempt(self, units: Units) -> Explanation:
        """The explanation in these units."""
        plan = self.plan
        window = prepare(
            self.frames, self.moments, self.observed.grid, units, plan.clean, self._place
        )
        named = units.named(self.used)
        if self.walls is not None:
            named = self.walls.keeping(named, window.grid, window.frames[0][[0, -1]])
        if plan.search.fits_strengths:
            named = oriented(named, window.grid, window.frames[0][-1])
        result, objective = self._searched(named, window)
        operators = objective.operators
        if result.dictionary is not None:
            operators = result.dictionary.prepare(window.grid, window.joined)
        verdict = measure(
            operators, result.pick, window, objective.dt, plan.scheme, objective.refinement
        )
        return Explanation(window, objective, result, operators, verdict)

    def _searched(
        self, named: OperatorDictionary, window: Window
    ) -> tuple[SearchResult, Objective]:
        """The search of a window; a large one is screened first."""
        plan = self.plan
        given = 1 if plan.refinement == "auto" else plan.refinement
        frames, steps = window.joined, window.steps()
        if not isinstance(plan.search, Pursuit) or not is_large(frames):
            objective = self._objective(named, frames, window.grid, steps, given)
            return self._run(objective, plan.search)
        frames, steps = last_frames(frames, steps)
        pool, found = shortlist(named, frames, steps, window.grid, self._objective, self._run)
        given = found if plan.refinement == "auto" else given
        search = confirming(plan.search)
        while True:
            some = named.select(pool)
            objective = self._objective(some, frames, window.grid, steps, given)
            result, objective = self._run(objective, search)
            wider = around(named, pool, result)
            if wider == pool or time_is_up():
                return result, objective
            # The pick lies at the edge of the operators that were searched.
            pool, given = wider, objective.refinement

    def _objective(
        self,
        operators: OperatorDictionary,
        frames: Tensor,
        grid: Grid,
        steps: float | list[float],
        refinement: int,
    ) -> Objective:
        plan = self.plan
        # The rates of a large window must fit, several frames of them.
        most = plan.memory_mb if is_large(frames) else min(plan.memory_mb, TOGETHER_MB)
        return Objective(operators, frames, grid, steps, plan.scheme, refinement, most)

    def _run(
        self, objective: Objective, search: Strategy | None = None
    ) -> tuple[SearchResult, Objective]:
        """One search, with as many substeps as it needs; the usual one if none is given."""
        plan, chosen = self.plan, search or self.plan.search
        needed = chosen.least_mb(objective)
        if needed > plan.memory_mb:
            raise OpsplitError(
                f"{len(objective.dictionary)} operators on fields of "
                f"{objective.windows[0, 0].numel()} numbers need {needed:.0f} MB, the limit is "
                f"{plan.memory_mb:.0f} MB; add --memory-mb {math.ceil(needed)} (in Python "
                "memory_mb), or give fewer points or operators."
            )
        if plan.refinement == "auto" and plan.search.name == "pursuit":
            return search_substeps(objective, lambda o: chosen.run(o, self.report))
        return chosen.run(objective, self.report), objective

    def _place(self, given: Grid, frames: Sequence[Tensor]) -> Grid:
        """The grid where the operators act."""
        trained = self.model.config.grid
        if self._bound is not None:
            grid = working_grid(self._bound, trained, given)
        else:
            grid = resolved_grid(given, trained, frames)
        self.model.check(grid, self.observed.data.shape[2])
        return grid
