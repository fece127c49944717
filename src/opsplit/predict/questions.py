"""What an explanation asks for while it is made: searches and judgements, alone or with others.

The way to an explanation is a generator. It yields a question and is sent the answer, so that the
questions of many windows can be answered in shared calls.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, PreparedDictionary
from opsplit.grid import Grid
from opsplit.predict.memory import LARGE, SEARCH, check_operators, refuse_memory
from opsplit.predict.verdict import Verdict, measure
from opsplit.predict.window import Window
from opsplit.search import Composition, Objective, SearchResult, Strategy
from opsplit.search.strategy import Report
from opsplit.splitting import Scheme

TOGETHER_MB = 256.0
"""Compositions are scored together up to so much memory; more makes nothing quicker."""

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
    """Limit of the memory of the frames and of the search."""
    search: Strategy | None = None
    """Another search than the usual one."""
    held_mb: float = 0.0
    """What the frames take of the limit."""

    @property
    def scored_mb(self) -> float:
        """Memory of the compositions that are scored together."""
        left = max(0.0, self.memory_mb - self.held_mb) / SEARCH
        # The rates of a large window must fit, several frames of them.
        return left if is_large(self.frames) else min(left, TOGETHER_MB)

    def objective(self) -> Objective:
        frame = self.frames[0].numel()
        check_operators(len(self.dictionary), frame, self.memory_mb, self.held_mb)
        return Objective(
            self.dictionary, self.frames, self.grid, self.steps, self.scheme, self.refinement,
            self.scored_mb,
        )  # fmt: skip

    def check(self, search: Strategy, objective: Objective) -> None:
        """Refuse what cannot be searched within the memory."""
        needed = self.held_mb + SEARCH * search.least_mb(objective)
        if needed > self.memory_mb:
            refuse_memory(
                f"{len(self.dictionary)} operators on fields of {self.frames[0].numel()} numbers",
                needed, self.memory_mb,
            )  # fmt: skip


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


@dataclass(frozen=True)
class Split:
    """How large is the error that splitting makes?"""

    objective: Objective
    pick: Composition


Question = Problem | Finer | Judged | Split


@torch.no_grad()
def splitting_errors(objectives: Sequence[Objective], picks: Sequence[Composition]) -> list[float]:
    """Relative difference between the substeps of an objective and twice as many, mean over the
    observed transitions.

    The objectives share their operators, steps and substeps; the picks are of one length.
    """
    if len(picks[0]) == 1:
        return [0.0] * len(picks)
    joint = objectives[0] if len(objectives) == 1 else Objective.together(objectives)
    seen, finer = joint.observed, joint.refined(2 * joint.refinement)
    sets = torch.tensor([pick.operators for pick in picks], device=joint.device)
    strengths = torch.tensor([p.strengths for p in picks], dtype=torch.float64, device=sets.device)
    found: list[float] = []
    for few in torch.arange(len(picks)).split(joint.chunk):
        once, twice = (o.step(sets[few], seen.states[few], strengths[few]) for o in (joint, finer))
        gap = (once - twice).flatten(2).norm(dim=2) / seen.sizes[few]
        found += gap.mean(1).tolist()
    return [error if math.isfinite(error) else math.inf for error in found]


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
        elif isinstance(question, Split):
            answer = splitting_errors([question.objective], [question.pick])[0]
        else:
            objective = question.objective()
            used = question.search or search
            if isinstance(question, Problem):
                question.check(used, objective)
            answer = used.run(objective, report), objective
