"""Training and test data of an equation."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from common import ALL, OBSERVED, PREDICTED, TEST_SEED, TESTS, TRAINING_SEED, Row, nrmse
from equations import Equation, test_set, training_set


def work(out: Path, name: str) -> Row:
    """Simulate and store both sets."""
    equation = ALL[name]
    began = time.monotonic()
    data, known = training_set(equation, TRAINING_SEED)
    _store(out / name / "train.npz", equation, data, known)
    frames = OBSERVED + PREDICTED
    test, drawn = test_set(equation, TESTS, TEST_SEED, frames)
    _store(out / name / "test.npz", equation, test, drawn)
    copies = [np.broadcast_to(u[OBSERVED - 1], u[OBSERVED:].shape) for u in test]
    copying = [nrmse(c, u[OBSERVED:]) for c, u in zip(copies, test, strict=True)]
    return {
        "n": len(test),
        "shape": list(data.shape),
        "terms": {k: m.text for k, m in equation.mechanisms.items()},
        "copying": float(np.mean(copying)),
        "copying_errors": copying,
        "seconds": time.monotonic() - began,
    }


def _store(file: Path, equation: Equation, data: np.ndarray, known: dict[str, np.ndarray]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        file,
        data=data,
        times=np.arange(data.shape[1]) * equation.dt,
        extent=np.array(equation.box),
        boundary=np.array([equation.walls] * equation.ndim),
        channels=np.array(equation.channels),
        **{f"coefficient.{k}": v for k, v in known.items()},
    )
