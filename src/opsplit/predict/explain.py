"""Find the composition that explains observed frames, in the units in which it is found best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from torch import Tensor

from opsplit._deadline import time_is_up
from opsplit._memory import keep_freed_memory
from opsplit.dictionary import OperatorDictionary, PreparedDictionary, oriented, within_band
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.operators import OperatorFamily
from opsplit.predict.band import kept_share
from opsplit.predict.coarse import around, confirming, last_frames, shortlist
from opsplit.predict.denoise import denoise
from opsplit.predict.memory import Load, check_operators
from opsplit.predict.questions import Asking, Judged, Problem, answered, is_large
from opsplit.predict.replay import Replay
from opsplit.predict.shooting import Doubt, Shooting
from opsplit.predict.substeps import search_substeps
from opsplit.predict.units import Freedom, Units, choose_units
from opsplit.predict.verdict import Verdict
from opsplit.predict.walls import Walls
from opsplit.predict.window import Window, prepare, recent_frames
from opsplit.predict.working_grid import resolved_grid, working_grid
from opsplit.search import Objective, Pursuit, SearchResult, Strategy
from opsplit.search.pursuit import largest_strength
from opsplit.search.strategy import Report
from opsplit.settings import argument
from opsplit.splitting import Scheme
from opsplit.trajectories import Trajectories

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
    """Limit of frames, copies and search together."""

    def __post_init__(self) -> None:
        argument(int | Literal["auto"], self.refinement, "refinement")
        argument(int | None, self.last, "window")
        argument(bool, self.clean, "denoise")
        argument(float, self.memory_mb, "memory_mb")


@dataclass(frozen=True)
class Explanation:
    """The composition that was found, and everything that gives it a meaning."""

    window: Window
    objective: Objective
    result: SearchResult
    operators: PreparedDictionary
    verdict: Verdict
    load: Load
    """The memory of the frames."""
    doubt: Doubt | None = None
    """What noise leaves open about the pick."""

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
        numbers, frame = sum(f.numel() for f in self.frames), self.frames[0][0].numel()
        size = observed.data.element_size()
        # Between walls also the frames as they were read are kept.
        more = numbers // 2 if walls is not None and walls.any else 0
        beside = (observed.data.numel() - numbers + more) * size
        self.load = Load(numbers, frame, size, beside)

    @cached_property
    def freedom(self) -> Freedom:
        """Which units may be chosen: none, for a search that knows no strengths."""
        if not self.plan.search.fits_strengths:
            return Freedom(False, False, False, False)
        return Freedom.of(self.used)

    @property
    def _clean(self) -> list[Tensor]:
        """The frames without noise, which would be mistaken for fine structure."""
        if not self.plan.clean:
            return self.frames
        return [denoise(frames.double(), self.observed.grid)[0] for frames in self.frames]

    @cached_property
    def _share(self) -> float | None:
        """The share of the modes that a dealiased solver kept."""
        return kept_share(self.frames, self.observed.grid)

    @property
    def _bound(self) -> OperatorFamily | None:
        """Operators that act at the spacing of the training grid only, if there are any."""
        families = (part.family for part in self.used.parts)
        return next((family for family in families if family.grid_bound), None)

    def best(self) -> Explanation:
        """The explanation in the best of all units that are worth a try."""
        return answered(self.asking(), self.plan.search, self.report)

    def asking(self) -> Asking[Explanation]:
        """The way to it."""
        best = yield from self._tried()
        if not self._by_runs(best.window) or not best.verdict.trusted or time_is_up():
            return best
        made = best.objective
        shooting = Shooting(best.window, best.operators, made.dt, self.plan.scheme, made.refinement)
        doubt = shooting.doubt(best.result.pick)
        if doubt is None:
            return best
        return replace(
            best, doubt=doubt, result=best.result.with_spread(best.dictionary, doubt.strengths)
        )

    def _by_runs(self, window: Window) -> bool:
        """Whether strengths are those of runs over many frames: frames have noise."""
        fits = self.plan.search.fits_strengths
        return fits and window.noise > 0 and not is_large(window.joined)

    def _tried(self) -> Asking[Explanation]:
        """The best of all attempts."""
        if isinstance(self.plan.search, Replay):
            return (yield from self.attempt(self.plan.search.units))
        observed, config = self.observed, self.model.config
        tried = choose_units(
            self._clean, observed.grid, observed.dt, config, self.freedom, self._bound
        )
        best = yield from self.attempt(tried[0])
        for units in tried[1:]:
            if best.verdict.leaves_less_than(ENOUGH) or time_is_up():
                return best
            found = yield from self.attempt(units)
            if found.verdict.unexplained < best.verdict.unexplained:
                best = found
        for _ in range(MORE_TIMES if self.freedom.orders else 0):
            if not best.strained or time_is_up():
                break
            slower = replace(best.units, time=best.units.time / SLOWER)
            found = yield from self.attempt(slower)
            if not found.result.pick.fit_error < BETTER * best.result.pick.fit_error:
                break
            best = found
        return best

    def attempt(self, units: Units) -> Asking[Explanation]:
        """The explanation in these units."""
        plan = self.plan
        window = prepare(
            self.frames, self.moments, self.observed.grid, units, plan.clean, self._place
        )
        used = self.used
        held = self.load.held_mb
        if self.walls is not None and self.walls.any:
            check_operators(len(used), window.frames[0][0].numel(), plan.memory_mb, held)
            used = self.walls.keeping(used, window.grid, window.frames[0][[0, -1]])
        if plan.search.fits_strengths:
            used = self._in_band(oriented(used, window.grid, window.frames[0][-1]), window)
        named = units.named(used)
        given = 1 if plan.refinement == "auto" else plan.refinement
        problem = Problem(
            named, window.joined, window.grid, window.steps(), plan.scheme, given,
            plan.memory_mb, held_mb=held,
        )  # fmt: skip
        result, objective = yield from self._searched(problem)
        operators = objective.operators
        if result.dictionary is not None:
            operators = result.dictionary.prepare(window.grid, window.joined)
        elif self._by_runs(window):
            shooting = Shooting(window, operators, objective.dt, plan.scheme, objective.refinement)
            most = largest_strength(objective.dictionary)
            result = shooting.extended(result, objective.dictionary, most)
        verdict = yield Judged(
            operators, result.pick, window, objective.dt, plan.scheme, objective.refinement
        )
        return Explanation(window, objective, result, operators, verdict, self.load)

    def _in_band(self, used: OperatorDictionary, window: Window) -> OperatorDictionary:
        """Operators that keep to the modes of a dealiased solver, if the fields are of one."""
        if self._share is None or self._bound is not None:
            return used
        points = zip(self.observed.grid.shape, window.grid.shape, strict=True)
        share = self._share * max(given / now for given, now in points)
        return within_band(used, window.grid, window.frames[0][-1], share) if share < 1 else used

    def _searched(self, problem: Problem) -> Asking[tuple[SearchResult, Objective]]:
        """The search of a window; a large one is screened first."""
        plan = self.plan
        if not isinstance(plan.search, Pursuit) or not is_large(problem.frames):
            return (yield from self._answer(problem))
        keep_freed_memory()
        few, steps = last_frames(problem.frames, problem.steps)
        problem = replace(problem, frames=few, steps=steps)
        pool, substeps = yield from shortlist(problem)
        given = substeps if plan.refinement == "auto" else problem.refinement
        while True:
            some = replace(
                problem, dictionary=problem.dictionary.select(pool), refinement=given,
                search=confirming(plan.search),
            )  # fmt: skip
            result, objective = yield from self._answer(some)
            wider = around(problem.dictionary, pool, result)
            if wider == pool or time_is_up():
                return result, objective
            # The pick lies at the edge of the operators that were searched.
            pool, given = wider, objective.refinement

    def _answer(self, problem: Problem) -> Asking[tuple[SearchResult, Objective]]:
        """One search, with as many substeps as it needs."""
        if self.plan.refinement == "auto" and self.plan.search.name == "pursuit":
            return (yield from search_substeps(problem))
        return (yield problem)

    def _place(self, given: Grid, frames: Sequence[Tensor]) -> Grid:
        """The grid where the operators act."""
        trained = self.model.config.grid
        if self._bound is not None:
            grid = working_grid(self._bound, trained, given)
        else:
            grid = resolved_grid(given, trained, frames)
        self.model.check(grid, self.observed.data.shape[2])
        return grid
