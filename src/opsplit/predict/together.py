"""The questions of many windows, answered in shared calls."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from opsplit.errors import OpsplitError
from opsplit.predict.questions import (
    Answer,
    Asking,
    Finer,
    Judged,
    Problem,
    Question,
    Split,
    splitting_errors,
)
from opsplit.predict.verdict import alike, measure_together
from opsplit.search import Objective, Strategy


def answered_together(
    ways: Sequence[Asking[Answer]], search: Strategy
) -> list[Answer | OpsplitError]:
    """The ends of many ways, in their order; of one that fails, the reason."""
    ends: dict[int, Answer | OpsplitError] = {}
    waiting: dict[int, Question] = {}

    def go_on(way: int, answer: Any) -> None:
        try:
            waiting[way] = ways[way].send(answer)
        except StopIteration as end:
            ends[way] = end.value
        except OpsplitError as reason:
            ends[way] = reason

    for way in range(len(ways)):
        go_on(way, None)
    while waiting:
        asked, waiting = waiting, {}
        groups: dict[Hashable, list[int]] = {}
        for way, question in asked.items():
            # A search with limits has them for every window by itself.
            key = way if search.limited else _key(question)
            groups.setdefault(key, []).append(way)
        for group in groups.values():
            try:
                answers = _answers([asked[way] for way in group], search)
            except OpsplitError as reason:
                ends.update(dict.fromkeys(group, reason))
                continue
            for way, answer in zip(group, answers, strict=True):
                go_on(way, answer)
    return [ends[way] for way in range(len(ways))]


def _key(question: Question) -> Hashable:
    """Questions with equal keys are answered together."""
    if isinstance(question, Problem):
        steps = question.steps if isinstance(question.steps, float) else tuple(question.steps)
        shape = tuple(question.frames.shape)
        rest = (question.grid, steps, question.scheme, question.refinement, question.memory_mb)
        operators = tuple(part.key for part in question.dictionary.parts)
        return ("problem", operators, shape, question.search, *rest)
    if isinstance(question, Judged):
        if not alike(question.window, question.dt):
            return id(question)
        moments = tuple(question.window.moments[0].diff().tolist())
        how = (len(question.pick), question.dt, question.scheme, question.refinement)
        return ("judged", id(question.operators), moments, *how)
    if isinstance(question, Split):
        made = question.objective
        return ("split", id(made.operators), len(question.pick), made.refinement)
    # Objectives that come from one search share their operators.
    return ("finer", id(question.before.operators), question.search, question.refinement)


def _answers(questions: list[Question], search: Strategy) -> list[Any]:
    first = questions[0]
    if isinstance(first, Judged):
        judged = [q for q in questions if isinstance(q, Judged)]
        if len(judged) == 1:
            return [first.verdict()]
        return list(
            measure_together(
                first.operators, [q.pick for q in judged], [q.window for q in judged],
                first.dt, first.scheme, first.refinement,
            )
        )  # fmt: skip
    if isinstance(first, Split):
        split = [q for q in questions if isinstance(q, Split)]
        return list(splitting_errors([q.objective for q in split], [q.pick for q in split]))
    joint, used = _joint(questions), first.search or search
    if isinstance(first, Problem):
        first.check(used, joint)
    results = used.run_all(joint)
    return [(result, joint.only([i])) for i, result in enumerate(results)]


def _joint(questions: list[Question]) -> Objective:
    """One objective for all windows."""
    first = questions[0]
    assert isinstance(first, Problem | Finer)
    if len(questions) == 1:
        return first.objective()
    if isinstance(first, Problem):
        problems = [q for q in questions if isinstance(q, Problem)]
        return Objective(
            first.dictionary, torch.stack([q.frames for q in problems]), first.grid, first.steps,
            first.scheme, first.refinement, first.scored_mb,
            [q.dictionary for q in problems],
        )  # fmt: skip
    before = [q.before for q in questions if isinstance(q, Finer)]
    return Objective.together(before).refined(first.refinement)
