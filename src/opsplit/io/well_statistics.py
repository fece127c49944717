"""`stats.yaml`, by which The Well's reader normalises fields."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from opsplit._files import write_text
from opsplit.io.well import opened_well

FieldSums = dict[str, np.ndarray]
"""Of every field the count, sum and sum of squares, then the same of its steps in time."""


def field_sums(path: Path) -> FieldSums:
    """Sums over a file of ours that add up over files; reading it proves its checksums."""
    # Sums of a simulation that diverged are for the caller to notice.
    with opened_well(path) as file, np.errstate(over="ignore", invalid="ignore"):
        sums = {}
        for name in file["t0_fields"].attrs["field_names"]:
            field, total = file["t0_fields"][name], np.zeros(6)
            for i in range(len(field)):
                u = field[i].astype(np.float64)
                steps = np.diff(u, axis=0)
                total += [
                    u.size, u.sum(), np.square(u).sum(),
                    steps.size, steps.sum(), np.square(steps).sum(),
                ]  # fmt: skip
            sums[str(name)] = total
        return sums


def write_statistics(sums: FieldSums, path: Path) -> None:
    """`stats.yaml`: mean, deviation and root mean square of fields and of their steps."""
    lines = []
    for suffix, begin in (("", 0), ("_delta", 3)):
        table: dict[str, dict[str, float]] = {"mean": {}, "std": {}, "rms": {}}
        for name, numbers in sums.items():
            count, total, squares = numbers[begin : begin + 3].tolist()
            mean, square = total / count, squares / count
            table["mean"][name] = mean
            table["std"][name] = math.sqrt(max(0.0, square - mean * mean))
            table["rms"][name] = math.sqrt(square)
        for key, values in table.items():
            lines.append(f"{key}{suffix}:")
            lines += [f"  {json.dumps(name)}: {value!r}" for name, value in values.items()]
    write_text(path, "\n".join(lines) + "\n")
