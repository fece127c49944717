"""Uniform search: the paper's Algorithm 2."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from opsplit.search.objective import Objective
from opsplit.search.strategy import Record, Report, Strategy, Tried


@dataclass(frozen=True)
class Uniform(Strategy):
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

    def explore(self, objective: Objective, records: list[Record], report: Report) -> None:
        n = len(objective.dictionary)
        drawn = self.draw(n)
        lengths = sorted({len(s) for s in drawn})
        # Single operators come first, so that among equals they win.
        rounds: list[list[tuple[int, ...]]] = [[(i,) for i in range(n)]]
        rounds += [[s for s in drawn if len(s) == m] for m in lengths]
        for done, sets in enumerate(rounds):
            for begin in range(0, len(sets), objective.chunk):
                part = sets[begin : begin + objective.chunk]
                chosen = torch.tensor(part, device=objective.device)
                for w, record in enumerate(records):
                    home = torch.full((len(part),), w, device=objective.device)
                    errors = objective.score(chosen, which=home).tolist()
                    for operators, error in zip(part, errors, strict=True):
                        record.add(Tried(operators, error))
            first = records[0].ranked()
            report((done + 1) / len(rounds), f"best {first[0].error:.4g}" if first else "")
        for record in records:
            ranked = record.ranked()
            record.pick = ranked[0] if ranked else None
            record.status, record.done = f"{self.trials} sets tried", True

    def draw(self, n: int) -> list[tuple[int, ...]]:
        """The sets of all trials."""
        generator = torch.Generator().manual_seed(self.seed)
        longest = min(self.max_parts, n)
        lengths = torch.randint(1, longest + 1, (self.trials,), generator=generator).tolist()
        return [tuple(torch.randperm(n, generator=generator)[:m].tolist()) for m in lengths]
