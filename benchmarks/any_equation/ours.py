"""Train with the real command, then forecast with default settings."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from common import ALL, OBSERVED, PREDICTED, TESTS, Row, nrmse, summary, test_data, training_path

SHARED = ["--processor-time"]
"""Other work on the machine takes none of the minutes."""
BRIEF = [*SHARED, "--steps", "20"]
"""The encoder, which these forecasts do not use, is hardly trained; the operators are those of the
same command without this flag."""
FLAGS = {
    "ours": BRIEF,
    "blind": BRIEF,
    "former": [*SHARED, "--operator", "gated-products"],
    "unet": [*SHARED, "--operator", "unet"],
}
MINUTES = {"ours": 1.0, "blind": 1.0, "former": 10.0, "unet": 10.0}


def work(out: Path, name: str, part: str = "ours", minutes: float = 0.0, tests: int = 0) -> Row:
    """Train and test; a failure is a row that says so."""
    minutes = minutes or MINUTES[part]
    folder = out / name / part
    command = ["pretrain", name, "--data", str(training_path(out, name)), "--minutes"]
    command += [f"{minutes:g}", "--threads", "1", "--out", str(folder), *FLAGS[part]]
    # A training that was stopped would go on, and its times would be wrong.
    shutil.rmtree(folder, ignore_errors=True)
    began, started = time.monotonic(), time.time()
    run = subprocess.run(
        [sys.executable, "-m", "opsplit", *command],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    row: Row = {
        "minutes": minutes,
        "flags": FLAGS[part],
        "training_seconds": time.monotonic() - began,
    }
    (out / name / f"{part}.log").write_text(run.stdout + run.stderr)
    if run.returncode:
        return {**row, "failure": (run.stderr.strip().splitlines() or ["no message"])[-1]}
    row |= {"curve": _curve(folder), "structure": _structure(folder)}
    row |= {"change": _change(out / name / "train.npz")}
    usable = folder / "structure" / "metrics.json"
    if usable.exists():
        row["usable_seconds"] = usable.stat().st_mtime - started
    try:
        return row | _forecasts(out, name, folder, tests or TESTS)
    except Exception as reason:
        traceback.print_exc()
        return {**row, "failure": f"{type(reason).__name__}: {reason}"}


def _change(file: Path) -> float:
    """How much the training fields change between frames, relative to their size."""
    with np.load(file) as stored:
        data = stored["data"]
    flat = data.reshape(*data.shape[:2], -1)
    size = np.linalg.norm(flat[:, 1:], axis=2)
    return float((np.linalg.norm(np.diff(flat, axis=1), axis=2) / size.clip(1e-30)).mean())


def _curve(folder: Path) -> list[dict[str, float]]:
    with (folder / "metrics.csv").open() as file:
        return [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]


def _structure(folder: Path) -> Row | None:
    return json.loads((folder / "metrics.json").read_text()).get("structure")


def _forecasts(out: Path, name: str, folder: Path, n: int) -> Row:
    from opsplit import Model, OperatorSplitter

    torch.set_num_threads(1)
    model, equation = Model.load(folder), ALL[name]
    data, truth = test_data(out, name, n)
    errors, copying, found, verdicts, seconds = [], [], [], [], []
    codes: Counter[str] = Counter()
    words = ""
    for u in torch.from_numpy(data):
        window, future = u[:OBSERVED], u[OBSERVED:].numpy()
        began = time.monotonic()
        splitter = OperatorSplitter(model)
        splitter.fit(
            window, dt=equation.dt, extent=equation.box, boundary=[equation.walls] * equation.ndim
        )
        seconds.append(time.monotonic() - began)
        errors.append(nrmse(splitter.predict(PREDICTED).numpy(), future))
        copying.append(nrmse(np.broadcast_to(window[-1].numpy(), future.shape), future))
        found.append(splitter.coefficients_)
        verdicts.append(splitter.status_)
        codes.update({issue.code for issue in splitter.issues_})
        words = words or splitter.equation_
    return {
        **summary(errors, found, truth),
        "copying": float(np.mean(copying)),
        "seconds": float(np.median(seconds)),
        "copying_errors": copying,
        "verdicts": dict(Counter(verdicts)),
        "verdict_of_each": verdicts,
        "coefficients_of_each": found,
        "issues": dict(codes),
        "words": words,
    }
