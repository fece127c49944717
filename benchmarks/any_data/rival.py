"""PySINDy on the same 16 frames, as in the study of any equation."""

from __future__ import annotations

import importlib
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scenarios import OBSERVED, PREDICTED, Scenario

AXES = "xyz"
PLAIN = {"r": 1, "s": 2, "q": 3}
"""Powers of reactions."""
SLOPES = {"c": (0, 1), "D": (0, 2), "delta": (0, 3), "kappa": (0, 4), "a": (1, 1), "b": (2, 1)}
"""Power of the field and order of the derivative of the other terms."""
NEGATIVE = ("c", "delta", "kappa", "a", "b")
"""Coefficients with a minus sign in the equation."""


def sindy(scenario: Scenario, u: np.ndarray, observed: np.ndarray, most: int) -> dict[str, Any]:
    """Error of the forecast, coefficients of the true terms, seconds; or the reason of a failure.

    Arguments:
        u: true frames `(time, channel, *space)`.
        observed: the first of them as they were observed.
        most: it runs on so many axes at most; in 3-D its library would take gigabytes.
    """
    if scenario.ndim > min(most, 2):
        return {"failure": f"not run in {scenario.ndim}-D"}
    folder = str(Path(__file__).parents[1] / "any_equation")
    if folder not in sys.path:
        # Both studies have a module of this name.
        ours = sys.modules.pop("blind", None)
        sys.path.insert(0, folder)
        importlib.import_module("sindy")
        if ours is not None:
            sys.modules["blind"] = ours
    from equations import Equation
    from sindy import Features, discover

    equation = Equation(
        scenario.name, {}, scenario.points, scenario.extent, scenario.dt, ndim=scenario.ndim
    )
    began = time.process_time()
    try:
        features = Features(equation)
        weights, kind = discover(equation, features, observed)
    except Exception as reason:
        return {"failure": f"{type(reason).__name__}: {reason}"[:120]}
    seconds = time.process_time() - began
    future = features.simulate(weights, observed[-1], PREDICTED + 1)[1:]
    error = float(np.linalg.norm(future - u[OBSERVED:]) / np.linalg.norm(u[OBSERVED:]))
    names = {name: i for i, name in enumerate(features.names)}
    found = {k: _read(k, scenario.ndim, names, weights[0]) for k in scenario.true}
    return {
        "error": error if math.isfinite(error) else None,
        "coefficients": found,
        "terms": int(np.count_nonzero(weights)),
        "form": kind,
        "seconds": seconds,
    }


def _read(name: str, ndim: int, names: dict[Any, int], weights: np.ndarray) -> float | None:
    """The coefficient of a term in what was found; none if the library has no such term."""
    word, _, axis = name.partition("_")
    sign = -1.0 if word in NEGATIVE else 1.0
    if word in PLAIN:
        return sign * float(weights[names[(PLAIN[word],), None]])
    if word not in SLOPES or (word == "kappa" and ndim > 1 and not axis):
        return None
    power, order = SLOPES[word]
    along = [AXES.index(axis)] if axis else range(ndim)
    places = [tuple(order if i == j else 0 for i in range(ndim)) for j in along]
    return sign * float(np.mean([weights[names[(power,), (place, 0)]] for place in places]))
