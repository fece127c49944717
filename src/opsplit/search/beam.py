"""Beam search: the paper's Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from opsplit.search.objective import Objective
from opsplit.search.partial import best_scores, spaced_order
from opsplit.search.prefix import Extensions
from opsplit.search.strategy import (
    Count,
    Improvement,
    Record,
    Report,
    Strategy,
    Tried,
    best_so_far,
)


@dataclass(frozen=True)
class Beam(Strategy):
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

    Examples:
        >>> import opsplit
        >>> splitter = opsplit.OperatorSplitter("combined", opsplit.Beam(width=8))
    """

    width: Count = 4
    max_parts: Count = 5
    threshold: Improvement = 0.05
    reuse: bool = True
    screen: bool = True

    kind: ClassVar[str] = "beam"

    def explore(self, objective: Objective, records: list[Record], report: Report) -> None:
        device = objective.device
        kept = torch.zeros(len(objective), 0, dtype=torch.long, device=device)
        home = torch.arange(len(objective), device=device)
        longest = min(self.max_parts, len(objective.dictionary))
        for size in range(1, longest + 1):
            row, new = self._extensions(kept, home, len(objective.dictionary))
            extensions = Extensions(objective, kept, home, self.reuse)
            errors = self._score(extensions, records, row, new)
            full = torch.cat([kept[row], new[:, None]], 1)
            lists, values, owners = full.tolist(), errors.tolist(), home[row].tolist()
            for operators, error, w in zip(lists, values, owners, strict=True):
                if math.isfinite(error):
                    records[w].add(Tried(tuple(operators), error))
            rows = []
            for w in home.unique().tolist():
                mine = (home[row] == w).nonzero()[:, 0]
                # Stable, so that equal errors keep the order of the dictionary.
                order = mine[torch.sort(errors[mine], stable=True).indices[: self.width]]
                best = int(order[0])
                leader = Tried(tuple(lists[best]), values[best])
                if settle(records[w], leader, size, longest, self.threshold):
                    continue
                rows.append(order)
            report(size / longest, best_so_far(objective, records[0].pick))
            if not rows:
                break
            chosen = torch.cat(rows)
            kept, home = full[chosen], home[row[chosen]]

    @staticmethod
    def _extensions(kept: Tensor, home: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """Row of the kept set and new operator of every candidate, each set once per window."""
        rows, news, seen = [], [], set()
        for r, (w, members) in enumerate(zip(home.tolist(), kept.tolist(), strict=True)):
            for j in range(n):
                key = (w, frozenset((*members, j)))
                if j not in members and key not in seen:
                    seen.add(key)
                    rows.append(r)
                    news.append(j)
        # Neighbours share the new operator, so that chunks hold few operators and many states.
        new = torch.tensor(news, device=kept.device)
        order = torch.sort(new, stable=True).indices
        return torch.tensor(rows, device=kept.device)[order], new[order]

    def _score(
        self, extensions: Extensions, records: list[Record], row: Tensor, new: Tensor
    ) -> Tensor:
        """Fitting errors `(n,)`; infinite for candidates that cannot be among the best."""
        objective, kept, home = extensions.objective, extensions.kept, extensions.home

        def errors(chosen: Tensor, transitions: Tensor) -> Tensor:
            return extensions.errors(row[chosen], new[chosen], transitions)

        everyone = torch.arange(len(row), device=row.device)
        if self.limited:
            # A budget may end the search at any chunk: every chunk is recorded at once.
            order = torch.tensor(spaced_order(objective.transitions), device=row.device)
            found = []
            for part in everyone.split(objective.chunk):
                found.append(errors(part, order).mean(1))
                lists = torch.cat([kept[row[part]], new[part, None]], 1).tolist()
                owners = home[row[part]].tolist()
                for operators, error, w in zip(lists, found[-1].tolist(), owners, strict=True):
                    records[w].add(Tried(tuple(operators), error))
            return torch.cat(found)
        keep = self.width if self.screen else len(row)
        return best_scores(errors, home[row], keep, objective.transitions)


def settle(record: Record, leader: Tried, size: int, longest: int, threshold: float) -> bool:
    """Whether the search of a window ends with the best composition of this length.

    Every part beyond those of the pick must improve the error by the threshold.
    """
    pick = record.pick
    more = 1 if pick is None else size - len(pick.operators)
    if pick is not None and not leader.error < (1 - threshold) ** more * pick.error:
        record.status = f"{size} parts improve by less than {threshold:.0%}"
        record.done = True
        return True
    record.pick = leader
    record.status = f"longest composition of {longest} reached"
    record.done = size == longest
    return record.done
