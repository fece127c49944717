"""Training and test data of an equation."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from common import (
    ALL,
    OBSERVED,
    PREDICTED,
    TEST_SEED,
    TESTS,
    TRAINING_SEED,
    Row,
    nrmse,
    training_path,
)
from equations import Equation, test_set, training_set


def work(out: Path, name: str) -> Row:
    """Simulate and store both sets."""
    equation = ALL[name]
    began = time.monotonic()
    data, known = training_set(equation, TRAINING_SEED)
    store_training(out, name, data, known)
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


def store_training(out: Path, name: str, data: np.ndarray, known: dict[str, np.ndarray]) -> None:
    """The training file in the format of the equation, and always as `npz`."""
    equation, place = ALL[name], training_path(out, name)
    _store(out / name / "train.npz", equation, data, known)
    if equation.file == "netcdf":
        _netcdf(place, equation, data, known)
    if equation.file == "csv":
        _tables(place, equation, data, known)


def _netcdf(file: Path, equation: Equation, data: np.ndarray, known: dict[str, np.ndarray]) -> None:
    import xarray

    axes = "xyz"[: equation.ndim]
    places = {
        a: np.arange(n) * length / n
        for a, n, length in zip(axes, equation.shape, equation.lengths, strict=True)
    }
    fields = {
        name: (("run", "time", *axes), data[:, :, c]) for c, name in enumerate(equation.channels)
    }
    values = {k: ("run", v) for k, v in known.items()}
    times = np.arange(data.shape[1]) * equation.dt
    xarray.Dataset(fields | values, {"time": times, **places}).to_netcdf(file)


def _tables(
    folder: Path, equation: Equation, data: np.ndarray, known: dict[str, np.ndarray]
) -> None:
    """One table per trajectory on a line; some have fewer frames than others."""
    folder.mkdir(parents=True, exist_ok=True)
    n = equation.shape[0]
    x = np.arange(n) * equation.lengths[0] / n
    for i, u in enumerate(data):
        frames = len(u) - 4 * (i % 3)
        t = np.repeat(np.arange(frames) * equation.dt, n)
        columns = [t, np.tile(x, frames), *(u[:frames, c].ravel() for c in range(u.shape[1]))]
        head = "".join(f"# {k} = {float(v[i])!r}\n" for k, v in known.items())
        head += ",".join(["t", "x", *equation.channels])
        np.savetxt(
            folder / f"run-{i:03d}.csv", np.stack(columns, 1), "%.9g", ",", header=head, comments=""
        )


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
        **_terms(equation),
    )


def _terms(equation: Equation) -> dict[str, np.ndarray]:
    texts = {k: m.text for k, m in equation.mechanisms.items()}
    return {"terms": np.array(json.dumps(texts))} if equation.told else {}
