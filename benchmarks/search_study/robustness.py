"""A Burgers term that no operator of the dictionary knows: u_t + c u_x + eps u u_x = D u_xx.

c = 0.5, D = 0.3, fields of the tests (power 3), 16 frames observed from the start on and the
84 that remain of 100 predicted, which is what the paper does with its seven values of eps.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
from common import PHYSICS, Item, Row, direct, errors, measured, run_items
from torch import Tensor

from opsplit import Beam, Pursuit
from opsplit.search import Strategy

PUBLISHED = {
    0.00: {"direct": 0.319, "beam": 0.055, "c": 0.495, "D": 0.316},
    0.01: {"direct": 0.323, "beam": 0.064, "c": 0.507, "D": 0.328},
    0.05: {"direct": 0.355, "beam": 0.061, "c": 0.518, "D": 0.315},
    0.10: {"direct": 0.417, "beam": 0.089, "c": 0.511, "D": 0.279},
    0.25: {"direct": 0.704, "beam": 0.184, "c": 0.502, "D": 0.276},
    0.50: {"direct": 0.843, "beam": 0.414, "c": 0.496, "D": 0.125},
    1.00: {"direct": 0.817, "beam": 0.797, "c": 0.496, "D": 0.048},
}
TRUE = {"c": 0.5, "D": 0.3}
OBSERVED = 16


def trajectories(epsilon: float, n: int, seed: int) -> Tensor:
    """Whole trajectories from the same fields for every epsilon."""
    fields = PHYSICS.initial_fields(n, torch.Generator().manual_seed(seed), "perturbed")
    values = {**TRUE, "epsilon": epsilon}
    held = {k: torch.full((n,), v, dtype=torch.float64) for k, v in values.items()}
    times = torch.arange(PHYSICS.frames, dtype=torch.float64) * PHYSICS.dt
    return PHYSICS.solve(fields, held, times).float()


def run(args: argparse.Namespace) -> None:
    truth = {k: torch.full((args.n,), v) for k, v in TRUE.items()}

    def measure(epsilon: float, strategy: Strategy | None) -> Row:
        data = trajectories(epsilon, args.n, args.seed)
        frames, future = data[:, :OBSERVED], data[:, OBSERVED:]
        if strategy is None:
            return errors(direct(frames, future.shape[1]), future)
        return measured(strategy, frames, future, truth)

    def items() -> Iterator[Item]:
        for strategy in (None, Pursuit(), Beam()):
            name = strategy.name if strategy else "direct"
            for epsilon in PUBLISHED:
                item = {"method": name, "epsilon": epsilon}
                yield item, lambda e=epsilon, s=strategy: measure(e, s)

    run_items("robustness", args, items())
