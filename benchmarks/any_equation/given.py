"""A physicist who knows the terms: coefficients by shooting, forecasts by the right equation.

The start is least squares on integrals between the observed frames. Shooting then compares the
solver, started from the first observed frame, with all observed frames.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from common import ALL, OBSERVED, PREDICTED, TESTS, Row, nrmse, summary, test_data
from equations import Equation
from scipy.optimize import least_squares

STEP = 1e-3
"""Difference quotients change a coefficient by this share of its size."""
EVALUATIONS = 10
POINTS = 20_000
"""Larger observed windows are thinned to about so many numbers in the least-squares start."""


def work(out: Path, name: str, tests: int = 0) -> Row:
    """Fit and forecast all test trajectories."""
    equation = ALL[name]
    data, truth = test_data(out, name, tests or TESTS)
    errors, found, seconds = [], [], []
    for u in data.astype(np.float64):
        began = time.monotonic()
        coefficients = shoot(equation, u[:OBSERVED], start(equation, u[:OBSERVED]))
        seconds.append(time.monotonic() - began)
        single = {k: np.array([v]) for k, v in coefficients.items()}
        future = equation.simulate(single, u[OBSERVED - 1 : OBSERVED], PREDICTED + 1)
        errors.append(nrmse(future[0, 1:], u[OBSERVED:]))
        found.append(coefficients)
    return {**summary(errors, found, truth), "seconds": float(np.median(seconds))}


def start(equation: Equation, window: np.ndarray) -> dict[str, float]:
    """Least squares on integrals between frames, by a rule of fourth order."""
    change = window[2:-1] - window[1:-2]
    columns = []
    for name in equation.mechanisms:
        f = equation.rate(name, window)
        inside = 13 * (f[1:-2] + f[2:-1]) - f[:-3] - f[3:]
        columns.append((equation.dt / 24 * inside).ravel())
    thin = max(1, change.size // POINTS)
    held = np.stack(columns, 1)[::thin]
    solution = np.linalg.lstsq(held, change.ravel()[::thin], rcond=None)[0]
    return {
        k: float(np.clip(v, 0.1 * m.low, 3 * m.high))
        for (k, m), v in zip(equation.mechanisms.items(), solution, strict=True)
    }


def shoot(equation: Equation, window: np.ndarray, first: dict[str, float]) -> dict[str, float]:
    """Coefficients whose trajectory from the first frame passes the observed frames best."""
    names = list(first)
    size = np.array([first[k] for k in names])
    scale = np.linalg.norm(window - window.mean())
    begun = {k: np.array([v]) for k, v in first.items()}
    steps = equation._enough(begun, window[:1], 4)

    def run(points: np.ndarray) -> np.ndarray:
        held = {k: points[:, i] * size[i] for i, k in enumerate(names)}
        initial = np.repeat(window[:1], len(points), 0)
        found = equation.simulate(held, initial, len(window), steps)
        left = (found[:, 1:] - window[1:]).reshape(len(points), -1) / scale
        return np.clip(np.nan_to_num(left, nan=1.0), -1.0, 1.0)

    def jacobian(point: np.ndarray) -> np.ndarray:
        moved = np.concatenate([point[None], point + STEP * np.eye(len(point))])
        left = run(moved)
        return ((left[1:] - left[0]) / STEP).T

    found = least_squares(
        lambda p: run(p[None])[0], np.ones(len(names)), jacobian, bounds=(0.0, np.inf),
        max_nfev=EVALUATIONS, xtol=1e-8, ftol=1e-10,
    )  # fmt: skip
    return {k: float(v) for k, v in zip(names, found.x * size, strict=True)}
