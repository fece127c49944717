"""What all parts share: lines on disk, trainings, and searches on test windows."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from opsplit import Model
from opsplit._origin import origin
from opsplit.benchmark.methods import make_method
from opsplit.benchmark.run import BLOWN_UP
from opsplit.benchmark.tasks import Column, test_window
from opsplit.dictionary import OperatorDictionary
from opsplit.metrics import nrmse
from opsplit.physics import get_physics

RESULTS = Path(__file__).parents[2] / "docs" / "results"
Row = dict[str, Any]


def read_rows(part: str, folder: Path) -> list[Row]:
    """All lines of a part; none if it was never run."""
    file = folder / f"{part}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def keep(part: str, args: argparse.Namespace, item: Row, work: Callable[[], Row]) -> Row:
    """The line of an item; measured now, unless it is there."""
    rows = {json.dumps(row["item"]): row for row in read_rows(part, args.out)}
    key = json.dumps(item)
    if key not in rows:
        print(f"{part}: {item}", flush=True)
        rows[key] = {
            "item": item,
            **work(),
            "threads": torch.get_num_threads(),
            **origin(args.seed, program="python benchmarks/paper_study"),
        }
        args.out.mkdir(parents=True, exist_ok=True)
        file = args.out / f"{part}.jsonl"
        partial = file.with_name(file.name + ".part")
        partial.write_text("".join(json.dumps(row) + "\n" for row in rows.values()))
        os.replace(partial, file)
    return rows[key]


def measure(
    model: Model | None,
    method: str,
    column: Column,
    args: argparse.Namespace,
    dictionary: OperatorDictionary | None = None,
    settings: Row | None = None,
) -> Row:
    """Mean, median and blown-up forecasts of a method on the test windows of a column.

    Seconds are those that the processor worked, search and forecast, per trajectory.
    """
    run = make_method(method, get_physics(column.physics), model, dictionary, "cpu", settings)
    errors, seconds = [], []
    for number in range(args.n):
        observed, future = test_window(column, number, args.seed, args.runs / "windows")
        began = time.process_time()
        outcome = run(observed, column.horizon, args.seed + number)
        seconds.append(time.process_time() - began)
        errors.append(float(nrmse(outcome.frames[None], future.data)))
    return {**summary(errors), "seconds": sum(seconds) / len(seconds)}


def summary(errors: list[float]) -> Row:
    """A forecast that blows up counts as 1, as in the tables of the benchmark."""
    each = torch.tensor(errors, dtype=torch.float64)
    blown = ~(each <= BLOWN_UP)
    each[blown] = 1.0
    spread = float(each.std() / len(each) ** 0.5) if len(each) > 1 else None
    return {
        "n": len(each),
        "nrmse": float(each.mean()),
        "standard_error": spread,
        "median": float(each.quantile(0.5)),
        "diverged": int(blown.sum()),
    }
