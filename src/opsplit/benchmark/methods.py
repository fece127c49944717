"""What a table compares: every method maps observed frames to a forecast."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, no_warnings
from opsplit.model import Model
from opsplit.physics import Physics
from opsplit.predict.estimator import OperatorSplitter
from opsplit.search import Composition, Pursuit, Strategy, Uniform, get_search
from opsplit.search.result import Cost
from opsplit.trajectories import Trajectories

METHODS = ("persistence", "least-squares", "direct", "uniform", "beam", "pursuit")


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


def splitting(
    model: Model,
    search: str,
    dictionary: OperatorDictionary,
    device: str = "cpu",
    settings: dict[str, Any] | None = None,
) -> Method:
    """A search over compositions, or the one operator the hypernetwork reads (`direct`)."""

    def run(observed: Trajectories, horizon: int, seed: int) -> Outcome:
        began = time.perf_counter()
        window = observed.data[0]
        chosen = model.read(window) if search == "direct" else dictionary
        strategy = make_search(search, model, settings)
        if isinstance(strategy, Uniform):
            strategy = replace(strategy, seed=seed)
        splitter = OperatorSplitter(model, search=strategy, device=device)
        with no_warnings():
            splitter.fit(window, observed.dt, observed.grid.extent, chosen)
        frames = splitter.predict(steps=horizon).cpu()
        cost: Cost = splitter.search_result_.cost
        found: Composition = splitter.composition_
        return Outcome(
            frames,
            splitter.coefficients_,
            found.fit_error,
            cost.evaluations,
            time.perf_counter() - began,
        )

    return run


def make_search(name: str, model: Model, settings: dict[str, Any] | None = None) -> Strategy:
    """The search of a method, with all its settings."""
    strategy = replace(get_search("beam" if name == "direct" else name), **(settings or {}))
    if isinstance(strategy, Pursuit) and strategy.max_strength is None:
        strategy = replace(strategy, max_strength=float(model.dictionary.max_strengths.min()))
    return strategy


def make_method(
    name: str,
    physics: Physics,
    model: Model | None = None,
    dictionary: OperatorDictionary | None = None,
    device: str = "cpu",
    settings: dict[str, Any] | None = None,
) -> Method:
    """A method by its name in the tables; `settings` are those of its search."""
    check_methods([name])
    if name == "persistence":
        return persistence(physics)
    if name == "least-squares":
        return least_squares(physics)
    if model is None:
        raise OpsplitError(f"The method {name!r} needs a model.")
    chosen = model.dictionary if dictionary is None else dictionary
    return splitting(model, name, chosen, device, settings)


def check_methods(names: Iterable[str]) -> None:
    """Refuse names that are not in the tables."""
    for name in names:
        if name not in METHODS:
            raise OpsplitError(f"Unknown method {name!r}; choose from {', '.join(METHODS)}.")
