"""Beam search: the paper's Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.search.objective import Objective
from opsplit.search.result import SearchResult


@dataclass(frozen=True)
class Beam:
    """Grow sets of operators one by one, keeping the best `width` of every length.

    Every kept set is extended by every operator it does not hold. The search ends at
    `max_parts`, or when the best set of a length improves on the length before by less than
    `threshold`; that last length is discarded.

    Both shortcuts are exact: they change the cost, never the result.

    Arguments:
        width: sets kept per length.
        max_parts: longest composition.
        threshold: smallest relative improvement that justifies one more operator.
        reuse: compute the leading flows of a kept set once for all its extensions.
        screen: look at a few transitions first and leave out candidates whose partial error
            already exceeds the best ones' full error.
    """

    width: int = 4
    max_parts: int = 5
    threshold: float = 0.05
    reuse: bool = True
    screen: bool = True

    name = "beam"

    def __post_init__(self) -> None:
        for field in ("width", "max_parts"):
            if getattr(self, field) < 1:
                raise OpsplitError(f"{field} must be at least 1, got {getattr(self, field)}.")

    def run(self, objective: Objective) -> SearchResult:
        n = len(objective.dictionary)
        device = objective.states.device
        everyone = torch.arange(n, device=device)
        kept = torch.zeros(1, 0, dtype=torch.long, device=device)
        tried: dict[tuple[int, ...], float] = {}
        best: tuple[tuple[int, ...], float] | None = None
        status = f"longest composition of {self.max_parts} reached"
        for size in range(1, min(self.max_parts, n) + 1):
            row, new = self._extensions(kept, everyone)
            errors = self._score(objective, kept, row, new)
            full = torch.cat([kept[row], new[:, None]], 1)
            scored = errors.isfinite().nonzero()[:, 0]
            for operators, error in zip(
                full[scored].tolist(), errors[scored].tolist(), strict=True
            ):
                tried[tuple(operators)] = error
            # Stable, so that equal errors keep the order of the dictionary.
            order = torch.sort(errors, stable=True).indices[: self.width]
            kept = full[order]
            leader = (tuple(kept[0].tolist()), float(errors[order[0]]))
            if best is not None and not leader[1] < (1 - self.threshold) * best[1]:
                status = f"{size} parts improve by less than {self.threshold:.0%}"
                break
            best = leader
        assert best is not None
        return objective.result(self.name, best, tried, status)

    @staticmethod
    def _extensions(kept: Tensor, everyone: Tensor) -> tuple[Tensor, Tensor]:
        """Row of the kept set and new operator of every candidate, each set once."""
        rows, news, seen = [], [], set()
        for r, members in enumerate(kept.tolist()):
            for j in everyone.tolist():
                key = frozenset((*members, j))
                if j not in members and key not in seen:
                    seen.add(key)
                    rows.append(r)
                    news.append(j)
        # Neighbours share the new operator, so that chunks hold few operators and many states.
        new = torch.tensor(news, device=everyone.device)
        order = torch.sort(new, stable=True).indices
        return torch.tensor(rows, device=everyone.device)[order], new[order]

    def _score(self, objective: Objective, kept: Tensor, row: Tensor, new: Tensor) -> Tensor:
        """Fitting errors `(n,)`; infinite for candidates that cannot be among the best."""
        # Single operators have no leading flows, and act in one flow whatever the refinement.
        shared = self.reuse and objective.can_reuse and kept.shape[1] > 0
        prefix = objective.prefix(kept) if shared else None
        total = objective.transitions

        def errors(chosen: Tensor, frames: Tensor) -> Tensor:
            return objective.extension_errors(kept, prefix, row[chosen], new[chosen], frames)

        everyone = torch.arange(len(row), device=row.device)
        order = torch.tensor(spread(total), device=row.device)
        if not self.screen or len(row) <= 2 * self.width:
            return errors(everyone, order).mean(1)
        sums = objective.states.new_zeros(len(row))
        left, limit, seen = everyone, math.inf, 0
        for end in dict.fromkeys((*range(2, min(4, total)), *range(5, total, 2), total)):
            # Errors are never negative, so a partial sum bounds the whole from below.
            sums[left] += errors(left, order[seen:end]).sum(1)
            seen = end
            if seen < total:
                leaders = left[torch.sort(sums[left], stable=True).indices[: self.width]]
                whole = sums[leaders] + errors(leaders, order[seen:]).sum(1)
                limit = min(limit, float(whole.max()))
                left = left[sums[left] <= limit * (1 + 1e-5)]
        scores = torch.full_like(sums, torch.inf)
        scores[left] = sums[left] / total
        return scores


def spread(n: int) -> list[int]:
    """0..n-1 in an order whose beginnings are spread over the whole."""
    order = [0]
    step = n
    while step > 1:
        step = (step + 1) // 2
        order += [i for i in range(0, n, step) if i not in order]
    return order
