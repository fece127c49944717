"""What an explanation asks for while it is made: searches and judgements, alone or with others.

The way to an explanation is a generator. It yields a question and is sent the answer, so that the
questions of many windows can be answered in shared calls.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from opsplit.dictionary import OperatorDictionary, PreparedDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.predict.verdict import Verdict, measure
from opsplit.predict.window import Window
from opsplit.search import Composition, Objective, SearchResult, Strategy
from opsplit.search.strategy import Report
from opsplit.splitting import Scheme

TOGETHER_MB = 256.0
"""Compositions are scored together up to so much memory; more makes nothing quicker."""

LARGE = 50_000
"""Frames with more numbers than this are screened first."""

Answer = TypeVar("Answer")
Asking = Generator["Question", Any, Answer]
"""A way to an answer that asks questions."""
Searched = tuple[SearchResult, Objective]
"""The answer to a search: the result, and the objective of the one window."""


def is_large(frames: Tensor) -> bool:
    """Whether frames `(time, channel, *space)` are worth a screening."""
    return frames[0].numel() > LARGE


@dataclass(frozen=True)
class Problem:
    """Which composition explains these frames?"""

    dictionary: OperatorDictionary
    frames: Tensor
    grid: Grid
    steps: float | Sequence[float]
    scheme: Scheme
    refinement: int
    memory_mb: float
    """Limit of the working memory."""
    search: Strategy | None = None
    """Another search than the usual one."""

    @property
    def scored_mb(self) -> float:
        """Memory of the compositions that are scored together."""
        # The rates of a large window must fit, several frames of them.
        return self.memory_mb if is_large(self.frames) else min(self.memory_mb, TOGETHER_MB)

    def objective(self) -> Objective:
        return Objective(
            self.dictionary, self.frames, self.grid, self.steps, self.scheme, self.refinement,
            self.scored_mb,
        )  # fmt: skip

    def check(self, search: Strategy, objective: Objective) -> None:
        """Refuse what cannot be searched within the memory."""
        needed = search.least_mb(objective)
        if needed > self.memory_mb:
            raise OpsplitError(
                f"{len(self.dictionary)} operators on fields of {self.frames[0].numel()} numbers "
                f"need {needed:.0f} MB, the limit is {self.memory_mb:.0f} MB; add --memory-mb "
                f"{math.ceil(needed)} (in Python memory_mb), or give fewer points or operators."
            )


@dataclass(frozen=True)
class Finer:
    """The same with more substeps per frame."""

    before: Objective
    refinement: int
    search: Strategy | None = None

    def objective(self) -> Objective:
        return self.before.refined(self.refinement)


@dataclass(frozen=True)
class Judged:
    """How far does a composition explain a window?"""

    operators: PreparedDictionary
    pick: Composition
    window: Window
    dt: float
    scheme: Scheme
    refinement: int

    def verdict(self) -> Verdict:
        return measure(
            self.operators, self.pick, self.window, self.dt, self.scheme, self.refinement
        )


Question = Problem | Finer | Judged


def answered(asking: Asking[Answer], search: Strategy, report: Report | None = None) -> Answer:
    """The end of one way, its questions answered one by one."""
    answer: Any = None
    while True:
        try:
            question = asking.send(answer)
        except StopIteration as end:
            found: Answer = end.value
            return found
        if isinstance(question, Judged):
            answer = question.verdict()
        else:
            objective = question.objective()
            used = question.search or search
            if isinstance(question, Problem):
                question.check(used, objective)
            answer = used.run(objective, report), objective
