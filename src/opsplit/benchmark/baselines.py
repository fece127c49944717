"""What the method is compared with: forecasts that need no trained model.

A new baseline is one function from a physics to a `Method`, and one line in `BASELINES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
        "terms-given": "opsplit.benchmark.shooting:terms_given",
        "sindy": "opsplit.benchmark.sindy:sindy",
    },
)


def persistence(physics: Physics) -> Method:
    """Nothing changes."""

    def run(observed: Trajectories, horizon: int, seed: int) -> Outcome:
        last = observed.data[0, -1]
        return Outcome(last.expand(horizon, *last.shape), {}, None, 0, 0.0)

    return run
