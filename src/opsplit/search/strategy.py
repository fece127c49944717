"""The parts that all strategies share: budget, record of scored compositions, re-ranking."""

from __future__ import annotations

import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.search.budget import BudgetError
from opsplit.search.estimate import Estimate
from opsplit.search.objective import Objective
from opsplit.search.registry import SEARCHES
from opsplit.search.result import Composition, Cost, SearchResult
from opsplit.settings import Between, Kinds, Settings

Report = Callable[[float, str], None]
"""`report(share done, words)`: where a search says how far it is."""

KEPT = 100
"""Compositions in a result's ranking."""

Count = Annotated[int, Between(1, 10**9)]
"""A number of things, at least one."""
Improvement = Annotated[float, Between(-1e30, 1.0)]
"""A share of an error; a negative one is reached by every composition."""


@dataclass(frozen=True)
class Tried:
    """A composition that was scored on the whole window."""

    operators: tuple[int, ...]
    error: float
    strengths: tuple[float, ...] | None = None
    """None: all equal to one."""
    free_run: float | None = None
    """Error of the rollout from the first observed frame, if it was computed."""
    residual: float | None = None
    """Norm of what real flows leave over all strides, if it was computed."""


@dataclass
class Record:
    """The state of a search for one window."""

    tried: dict[tuple[int, ...], Tried] = field(default_factory=dict)
    pick: Tried | None = None
    status: str = ""
    done: bool = False
    estimates: dict[tuple[int, ...], Estimate] = field(default_factory=dict)
    """Coefficients of the compositions that may become the pick, where more is known of them than
    the sum over their operators."""
    remark: str = ""
    """What a user should know about the way this window was searched."""
    least: float = 0.0
    """The smallest residual of two and more parts, by algebra; zero where there is no algebra."""
    finalists: list[Tried] | None = None
    """The compositions that ran freely over the window."""
    dictionary: OperatorDictionary | None = None
    """The dictionary with operators that the search made itself."""

    def add(self, one: Tried) -> None:
        """Keep the better of two scores of the same list."""
        before = self.tried.get(one.operators)
        if before is None or one.error < before.error:
            self.tried[one.operators] = one

    def ranked(self) -> list[Tried]:
        """Finite scores, best first; equal ones in the order of their discovery."""
        finite = [t for t in self.tried.values() if math.isfinite(t.error)]
        return sorted(finite, key=lambda t: t.error)


@dataclass(frozen=True, kw_only=True)
class Strategy(Settings, ABC):
    """A way to look for the composition with the smallest fitting error.

    Arguments:
        max_seconds: stop after so much time and return the best so far.
        max_evaluations: stop after so many evaluations of operators.
        rerank: among the finalists, whose fitting errors are nearly the best, pick the one with
            the smallest error of a free-running rollout over the window.
        finalists: how many compositions are finalists.
        slack: finalists fit at most this much worse than the best, as a share.

    Examples:
        >>> import opsplit
        >>> isinstance(opsplit.Pursuit(max_seconds=2), opsplit.Strategy)
        True
    """

    max_seconds: Annotated[float, Between(0.0, 1e12)] | None = None
    max_evaluations: Annotated[int, Between(0, 10**18)] | None = None
    rerank: bool = False
    finalists: Count = 8
    slack: Annotated[float, Between(0.0, 1e30)] = 0.5

    kinds: ClassVar[Kinds | None] = SEARCHES

    @property
    def name(self) -> str:
        """The name under which results and calibrations know the strategy."""
        return self.kind or type(self).__name__.lower()

    @property
    def limited(self) -> bool:
        """Whether time or evaluations are limited."""
        return self.max_seconds is not None or self.max_evaluations is not None

    @property
    def fits_strengths(self) -> bool:
        """Whether operators get a strength; else only those of the dictionary's own are known."""
        return False

    def least_mb(self, objective: Objective) -> float:
        """Megabytes that the search cannot do without."""
        return objective.least_mb()

    @abstractmethod
    def explore(self, objective: Objective, records: list[Record], report: Report) -> None:
        """Fill the records, one per window: the scored compositions, the pick, why it ended."""

    def finish(self, objective: Objective, records: list[Record]) -> None:
        """Change the picks after the ranking; a strategy may leave this out."""
        return None

    def run(self, objective: Objective, report: Report | None = None) -> SearchResult:
        """Search for one window."""
        if len(objective) != 1:
            raise OpsplitError(f"run takes one window, run_all takes {len(objective)}.")
        return self.run_all(objective, report)[0]

    def run_all(self, objective: Objective, report: Report | None = None) -> list[SearchResult]:
        """Search for every window of the objective, in shared calls."""
        records = [Record() for _ in range(len(objective))]
        with objective.meter.limited(self.max_seconds, self.max_evaluations):
            try:
                self.explore(objective, records, report or (lambda share, words: None))
                if self.rerank:
                    self._rerank(objective, records)
                self.finish(objective, records)
            except BudgetError as reason:
                _try_one(objective, records)
                stop(records, str(reason))
            except KeyboardInterrupt:
                if not any(record.tried for record in records):
                    raise
                stop(records, "interrupted")
        cost = objective.cost()
        named = zip(objective.named, records, strict=True)
        return [self._result(dictionary, record, cost) for dictionary, record in named]

    def final(self, record: Record) -> list[Tried]:
        """The pick's rivals: compositions that fit nearly as well, best first."""
        ranked = record.ranked()
        if not ranked or record.pick is None:
            return ranked[:1]
        # Longer compositions than the pick did not earn their parts and stay out.
        alike = [t for t in ranked if len(t.operators) <= len(record.pick.operators)]
        limit = (1 + self.slack) * record.pick.error + 1e-12
        near = [t for t in alike if t.error <= limit][: self.finalists]
        return near or [record.pick]

    def _rerank(self, objective: Objective, records: list[Record]) -> None:
        """Replace every pick by the finalist that runs freely best."""
        rows = [(w, t) for w, r in enumerate(records) for t in self.final(r)]
        by_size: dict[int, list[tuple[int, Tried]]] = {}
        for w, t in rows:
            by_size.setdefault(len(t.operators), []).append((w, t))
        for group in by_size.values():
            which = torch.tensor([w for w, _ in group], device=objective.device)
            sets, strengths = as_tensors([t for _, t in group], objective)
            errors = objective.free_run(sets, strengths, which).mean(1).tolist()
            for (w, t), error in zip(group, errors, strict=True):
                records[w].tried[t.operators] = replace(t, free_run=error)
        for record in records:
            final = [t for t in self.final(record) if t.free_run is not None]
            if final:
                record.pick = min(final, key=lambda t: (t.free_run, t.error))
                record.finalists = final

    def _result(self, dictionary: OperatorDictionary, record: Record, cost: Cost) -> SearchResult:
        ranked = record.ranked()
        pick, status = record.pick, record.status
        if pick is None:
            # Nothing finite was seen: the first operator stands in, its error says so.
            pick = ranked[0] if ranked else Tried((0,), math.inf)
        if (record.tried or record.pick) and not math.isfinite(pick.error):
            status += "; no operator of the dictionary gave a finite prediction"
        shown = {t.operators: t for t in ranked[:KEPT]}
        for t in ranked:
            if not any(len(t.operators) == len(o) for o in shown):
                shown[t.operators] = t
        shown[pick.operators] = pick
        final = [t.operators for t in record.finalists or self.final(record)]

        def composition(t: Tried) -> Composition:
            found = record.estimates.get(t.operators)
            made = Composition.of(
                record.dictionary or dictionary,
                t.operators,
                t.error,
                t.strengths,
                t.free_run,
            )
            return made if found is None else replace(made, coefficients=found.coefficients)

        finalists = [composition(record.tried.get(o, pick)) for o in final] or [composition(pick)]
        known = record.estimates.get(pick.operators)
        held = {o: composition(t) for o, t in sorted(shown.items(), key=lambda i: i[1].error)}
        return SearchResult(
            self.name,
            held[pick.operators],
            tuple(held.values()),
            tuple(finalists),
            status,
            cost,
            _deviation(finalists) if known is None else known.spread,
            record.dictionary,
            () if known is None else known.alike,
            record.remark,
            record.least / pick.residual if pick.residual else 0.0,
        )


def _try_one(objective: Objective, records: list[Record]) -> None:
    """Score the first operator where the limit came before anything was scored."""
    empty = [w for w, record in enumerate(records) if not record.tried]
    if empty:
        home = torch.tensor(empty, device=objective.device)
        u = objective.step(torch.zeros_like(home)[:, None], objective.observed.states[home])
        errors = objective.observed.errors(u, home).mean(1).tolist()
        for w, error in zip(empty, errors, strict=True):
            records[w].add(Tried((0,), error))


def _deviation(finalists: list[Composition]) -> dict[str, float]:
    """Standard deviation of every coefficient over compositions."""
    return {
        name: statistics.pstdev([float(c.coefficients[name]) for c in finalists])
        for name in finalists[0].coefficients
    }


def best_so_far(objective: Objective, best: Tried | None) -> str:
    """The error and the parts of a composition, for the progress line."""
    if best is None:
        return ""
    parts = Composition.of(objective.dictionary, best.operators, best.error, best.strengths).label
    return f"best {best.error:.4g}: {parts}"


def stop(records: list[Record], reason: str) -> None:
    """End the search of all windows that were not done; the best so far becomes the pick."""
    for record in records:
        if record.done:
            record.status += f"; then {reason}"
        else:
            ranked = record.ranked()
            record.pick = ranked[0] if ranked else None
            record.status, record.done = reason, True


def as_tensors(group: list[Tried], objective: Objective) -> tuple[Tensor, Tensor]:
    """Positions and strengths `(n, m)` of compositions of one length."""
    sets = torch.tensor([t.operators for t in group], device=objective.device)
    strengths = [t.strengths or (1.0,) * len(t.operators) for t in group]
    return sets, torch.tensor(strengths, dtype=torch.float64, device=objective.device)
