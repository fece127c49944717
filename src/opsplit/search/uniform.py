"""Uniform search: the paper's Algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from opsplit.errors import OpsplitError
from opsplit.search.objective import Objective
from opsplit.search.result import SearchResult


@dataclass(frozen=True)
class Uniform:
    """Score random sets, starting from the best single operator.

    Arguments:
        trials: sets to draw.
        max_parts: lengths are uniform in 1..max_parts.
        seed: the same seed draws the same sets.
    """

    trials: int = 100
    max_parts: int = 4
    seed: int = 0

    name = "uniform"

    def __post_init__(self) -> None:
        for field in ("trials", "max_parts"):
            if getattr(self, field) < 1:
                raise OpsplitError(f"{field} must be at least 1, got {getattr(self, field)}.")

    def run(self, objective: Objective) -> SearchResult:
        n = len(objective.dictionary)
        device = objective.states.device
        singles = objective.score(torch.arange(n, device=device)[:, None]).tolist()
        tried: dict[tuple[int, ...], float] = {(i,): error for i, error in enumerate(singles)}
        drawn = self.draw(n)
        for size in sorted({len(s) for s in drawn}):
            sets = [s for s in drawn if len(s) == size]
            errors = objective.score(torch.tensor(sets, device=device)).tolist()
            tried |= dict(zip(sets, errors, strict=True))
        # The first of equals wins, and the single operators come first.
        best = min(tried.items(), key=lambda item: item[1])
        return objective.result(self.name, best, tried, f"{self.trials} sets tried")

    def draw(self, n: int) -> list[tuple[int, ...]]:
        """The sets of all trials."""
        generator = torch.Generator().manual_seed(self.seed)
        longest = min(self.max_parts, n)
        lengths = torch.randint(1, longest + 1, (self.trials,), generator=generator).tolist()
        return [tuple(torch.randperm(n, generator=generator)[:m].tolist()) for m in lengths]
