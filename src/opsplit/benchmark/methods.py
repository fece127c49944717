"""What a table compares: every method maps observed frames to a forecast."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from opsplit.baselines import TRAINED
from opsplit.benchmark.baselines import BASELINES, Method, Outcome
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, no_warnings
from opsplit.model import Model
from opsplit.physics import Physics
from opsplit.predict.estimator import OperatorSplitter
from opsplit.search import SEARCHES, Composition, Pursuit, Strategy, Uniform, get_search
from opsplit.search.result import Cost
from opsplit.trajectories import Trajectories


def methods() -> tuple[str, ...]:
    """Every method in the order of the tables: baselines, direct prediction, searches.

    The searches come in the order of the registry, the last one first: the paper's before ours.
    """
    return (*BASELINES, *TRAINED, "direct", *reversed(list(SEARCHES)))


def has_family(method: str) -> bool:
    """Whether a method uses operators of a family; baselines do not."""
    return method not in BASELINES and method not in TRAINED


def splitting(
    model: Model,
    search: str,
    dictionary: OperatorDictionary,
    device: str = "cpu",
    settings: dict[str, Any] | None = None,
    refinement: int | Literal["auto"] | None = None,
) -> Method:
    """A search over compositions, or the one operator the hypernetwork reads (`direct`).

    Arguments:
        refinement: substeps of a frame (None: those of the paper, which has one; our own search
            chooses them, as it does by default).
    """

    def run(observed: Trajectories, horizon: int, seed: int) -> Outcome:
        began = time.perf_counter()
        window = observed.data[0]
        chosen = model.read(window) if search == "direct" else dictionary
        strategy = make_search(search, model, settings)
        if isinstance(strategy, Uniform):
            strategy = replace(strategy, seed=seed)
        usual: int | Literal["auto"] = "auto" if isinstance(strategy, Pursuit) else 1
        steps = usual if refinement is None else refinement
        splitter = OperatorSplitter(model, search=strategy, refinement=steps, device=device)
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
    if name in BASELINES:
        return BASELINES[name](physics)
    if model is None:
        raise OpsplitError(f"The method {name!r} needs a model.")
    chosen = model.dictionary if dictionary is None else dictionary
    return splitting(model, name, chosen, device, settings)


def check_methods(names: Iterable[str]) -> None:
    """Refuse names that are not in the tables."""
    for name in names:
        if name not in methods():
            raise OpsplitError(f"Unknown method {name!r}; choose from {', '.join(methods())}.")
