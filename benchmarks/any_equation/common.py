"""What all parts share: the list of equations, rows on disk, test windows, errors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from blind import BLIND
from equations import EQUATIONS, Equation
from fifth import FIFTH
from fourth import FOURTH
from seventh import SEVENTH
from sixth import SIXTH

from opsplit._origin import origin

ALL: dict[str, Equation] = {**EQUATIONS, **BLIND, **FOURTH, **FIFTH, **SIXTH, **SEVENTH}
REPOSITORY = Path(__file__).parents[2]
COMMITTED = REPOSITORY / "benchmarks" / "results" / "any_equation.json"
OBSERVED, PREDICTED = 16, 34
TESTS = 24
TRAINING_SEED, TEST_SEED = 11, 900
PARTS = ("data", "ours", "blind", "early", "given", "sindy", "former", "unet")

Row = dict[str, Any]


def row_file(out: Path, part: str, name: str) -> Path:
    return out / "rows" / f"{part}-{name}.json"


def keep(out: Path, part: str, name: str, work: Callable[[], Row], force: bool) -> None:
    """Do a piece of work unless its row is there; write the row."""
    file = row_file(out, part, name)
    if file.exists() and not force:
        return
    found = work()
    made = origin(TEST_SEED, program="python benchmarks/any_equation")
    row = {"part": part, "equation": name, **found, **made}
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(file.name + ".part")
    partial.write_text(json.dumps(row, indent=1))
    os.replace(partial, file)
    print(f"{part}: {name}: {shown(row)}", flush=True)


def shown(row: Row) -> str:
    """The plain numbers of a row."""
    numbers = {k: v for k, v in row.items() if isinstance(v, (int, float)) and k != "seed"}
    return ", ".join(f"{k} {v:.3g}" for k, v in numbers.items())


def read_rows(out: Path) -> dict[str, dict[str, Row]]:
    """Rows by part and equation: those on disk, then those that are committed."""
    found: dict[str, dict[str, Row]] = {part: {} for part in PARTS}
    if COMMITTED.exists():
        for row in json.loads(COMMITTED.read_text()):
            found[row["part"]][row["equation"]] = row
    for part in PARTS:
        for name in ALL:
            file = row_file(out, part, name)
            if file.exists():
                found[part][name] = json.loads(file.read_text())
    return found


def training_path(out: Path, name: str) -> Path:
    """What `--data` gets."""
    return out / name / {"npz": "train.npz", "netcdf": "train.nc", "csv": "train"}[ALL[name].file]


def test_data(out: Path, name: str, n: int = TESTS) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Test trajectories `(n, time, channel, *space)` and their coefficients."""
    with np.load(out / name / "test.npz") as file:
        names = [k for k in file if k.startswith("coefficient.")]
        known = {k.removeprefix("coefficient."): file[k][:n] for k in names}
        return file["data"][:n], known


def nrmse(predicted: np.ndarray, truth: np.ndarray) -> float:
    """The norm of the error over the norm of the truth; infinite where a forecast is not finite."""
    predicted = np.asarray(predicted, np.float64)
    truth = np.asarray(truth, np.float64)
    with np.errstate(all="ignore"):
        found = float(np.linalg.norm(predicted - truth) / np.linalg.norm(truth))
    return found if np.isfinite(found) else float("inf")


def summary(
    errors: Sequence[float], found: Sequence[Mapping[str, float]], truth: Mapping[str, np.ndarray]
) -> Row:
    """Mean and median error, and relative errors of coefficients, where any were found."""
    finite = [e for e in errors if np.isfinite(e)]
    each = {
        k: [
            abs(f[k] - float(v)) / abs(float(v))
            for f, v in zip(found, values, strict=True)
            if k in f
        ]
        for k, values in truth.items()
    }
    each = {k: v for k, v in each.items() if v}
    return {
        "n": len(errors),
        "nrmse": float(np.mean(finite)) if finite else None,
        "median": float(np.median(finite)) if finite else None,
        "worst": float(np.max(finite)) if finite else None,
        "diverged": len(errors) - len(finite),
        "errors": [e if np.isfinite(e) else None for e in errors],
        "coefficient_median": {k: float(np.median(v)) for k, v in each.items()},
        "coefficient_max": {k: float(np.max(v)) for k, v in each.items()},
    }
