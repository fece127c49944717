"""Uniform search: the paper's Algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from opsplit.search.objective import Objective
from opsplit.search.partial import best_scores
from opsplit.search.strategy import Count, Record, Report, Strategy, Tried, best_so_far
from opsplit.settings import Between


@dataclass(frozen=True)
class Uniform(Strategy):
    """Score random sets, starting from the best single operator.

    Arguments:
        trials: sets to draw.
        max_parts: lengths are uniform in 1..max_parts.
        seed: the same seed draws the same sets.
        screen: look at a few transitions first and leave out sets that are already worse than
            the best of their length by more than the `slack`; this changes the cost only.

    Examples:
        >>> import opsplit
        >>> splitter = opsplit.OperatorSplitter("combined", opsplit.Uniform(trials=200, seed=1))
    """

    trials: Count = 100
    max_parts: Count = 4
    seed: Annotated[int, Between(0, 2**63 - 1)] = 0
    screen: bool = True

    kind: ClassVar[str] = "uniform"

    def explore(self, objective: Objective, records: list[Record], report: Report) -> None:
        n = len(objective.dictionary)
        drawn = self.draw(n)
        lengths = sorted({len(s) for s in drawn})
        # Single operators come first, so that among equals they win.
        rounds: list[list[tuple[int, ...]]] = [[(i,) for i in range(n)]]
        rounds += [[s for s in drawn if len(s) == m] for m in lengths]
        for done, sets in enumerate(rounds):
            # A budget may end the search at any chunk: every chunk is recorded at once.
            size = objective.chunk if self.limited else max(1, len(sets))
            for begin in range(0, len(sets), size):
                part = sets[begin : begin + size]
                for w, record in enumerate(records):
                    errors = self._score(objective, part, w, self.screen and not self.limited)
                    for operators, error in zip(part, errors, strict=True):
                        record.add(Tried(operators, error))
            first = next(iter(records[0].ranked()), None)
            report((done + 1) / len(rounds), best_so_far(objective, first))
        for record in records:
            ranked = record.ranked()
            record.pick = ranked[0] if ranked else None
            record.status, record.done = f"{self.trials} sets tried", True

    def _score(
        self, objective: Objective, sets: list[tuple[int, ...]], window: int, screen: bool
    ) -> list[float]:
        chosen = torch.tensor(sets, device=objective.device)
        home = torch.full((len(sets),), window, device=objective.device)

        def errors(some: Tensor, transitions: Tensor) -> Tensor:
            return objective.errors(chosen[some], None, home[some], transitions)

        keep = 1 if screen else len(sets)
        return best_scores(errors, home, keep, objective.transitions, self.slack).tolist()

    def draw(self, n: int) -> list[tuple[int, ...]]:
        """The sets of all trials."""
        generator = torch.Generator().manual_seed(self.seed)
        longest = min(self.max_parts, n)
        lengths = torch.randint(1, longest + 1, (self.trials,), generator=generator).tolist()
        return [tuple(torch.randperm(n, generator=generator)[:m].tolist()) for m in lengths]
