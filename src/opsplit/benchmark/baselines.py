"""What the method is compared with: forecasts that need no trained model.

A new baseline is one function from a physics to a `Method`, and one line in `BASELINES`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.physics import Physics
from opsplit.registry import Registry
from opsplit.trajectories import Trajectories


@dataclass(frozen=True)
class Outcome:
    """A forecast with what it found and cost."""

    frames: Tensor
    coefficients: dict[str, float]
    fit_error: float | None
    evaluations: int
    seconds: float


Method = Callable[[Trajectories, int, int], Outcome]
"""`method(observed window of one trajectory, horizon, seed) -> Outcome`"""

BASELINES: Registry[Callable[[Physics], Method]] = Registry(
    "baseline",
    "opsplit.baselines",
    {
        "persistence": "opsplit.benchmark.baselines:persistence",
        "least-squares": "opsplit.benchmark.baselines:least_squares",
    },
)


def persistence(physics: Physics) -> Method:
    """Nothing changes."""

    def run(observed: Trajectories, horizon: int, seed: int) -> Outcome:
        last = observed.data[0, -1]
        return Outcome(last.expand(horizon, *last.shape), {}, None, 0, 0.0)

    return run


def least_squares(physics: Physics) -> Method:
    """A physicist who is given the terms: regression, then the exact solver."""

    def run(observed: Trajectories, horizon: int, seed: int) -> Outcome:
        began = time.perf_counter()
        window = observed.data[0]
        found = physics.least_squares(window, observed.dt)
        times = torch.arange(1, horizon + 1, dtype=torch.float64) * observed.dt
        mu = {name: torch.tensor([v], dtype=torch.float64) for name, v in found.items()}
        frames = physics.solve(window[-1:].double(), mu, times)[0].float()
        return Outcome(frames, found, None, 0, time.perf_counter() - began)

    return run
