"""In space: the operators of the square on cubes, by coarse-to-fine search."""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from kept import Kept, keep, missed, number, table

from opsplit import Grid, OperatorSplitter
from opsplit.errors import no_warnings
from opsplit.metrics import nrmse
from opsplit.physics import GrayScott3D
from opsplit.predict import coarse, questions

ORDER = 50
N = 3
"""Systems per size."""
SPACING = 1 / 64
SIZES, WHOLE = (40, 64), 24
"""Points per axis; of the cube on which the whole search is compared."""
OBSERVED, HORIZON = 16, 16


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="points per axis")
    parser.add_argument("--one", type=int, nargs=2, help="measure one size and system alone")


def run(args: argparse.Namespace) -> None:
    if args.one:
        print(json.dumps(measure(*args.one, args.seed)))
        return
    rows = [alone(size, system, args) for size in (WHOLE, *args.sizes) for system in range(args.n)]
    keep(args, rows)


def alone(size: int, system: int, args: argparse.Namespace) -> dict[str, Any]:
    """A process of its own, for its peak memory."""
    here = str(Path(__file__).parent)
    command = [sys.executable, here, "three-d", "--one", str(size), str(system)]
    done = subprocess.run(
        [*command, "--seed", str(args.seed)], capture_output=True, text=True, check=True
    )
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(row["points"], system, f"error {row['error']:.2g}", f"{row['seconds']:.1f} s")
    return row


def measure(size: int, system: int, seed: int) -> dict[str, Any]:
    grid = Grid((size,) * 3, (size * SPACING,) * 3)
    physics = GrayScott3D(grid)
    whole = physics.generate("GS", 1, 1000 * seed + 17 * system + 3, OBSERVED + HORIZON)
    observed, future = whole.windows(OBSERVED, 0), whole.windows(HORIZON, OBSERVED)
    row: dict[str, Any] = {"points": size}
    if size == WHOLE:
        questions.LARGE = 10**9
        row["whole pick"] = _fitted(observed)[0].composition_.label
        questions.LARGE, coarse.COARSE = 1000, 4000
    found, seconds, cpu = _fitted(observed)
    truth = future.data
    frames = found.predict(HORIZON).data
    return row | {
        "pick": found.composition_.label,
        "true": {k: float(v[0]) for k, v in whole.coefficients.items()},
        "coefficients": found.coefficients_,
        "error": float(nrmse(frames, truth)),
        "copying": float(nrmse(observed.data[:, -1:].expand_as(truth), truth)),
        "seconds": seconds,
        "cpu": cpu,
        "operators": len(found._found.objective.dictionary),
        "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def _fitted(observed: Any) -> tuple[OperatorSplitter, float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    with no_warnings():
        found = OperatorSplitter("gray-scott").fit(observed)
    return found, time.perf_counter() - began, time.process_time() - cpu


def section(kept: Kept) -> list[str]:
    body = []
    for size in dict.fromkeys(row["points"] for row in kept["rows"]):
        rows = [row for row in kept["rows"] if row["points"] == size]
        off = {
            name: max(abs(r["coefficients"][name] / r["true"][name] - 1) for r in rows)
            for name in rows[0]["true"]
        }
        same = ""
        if "whole pick" in rows[0]:
            same = f"{sum(r['pick'] == r['whole pick'] for r in rows)} of {len(rows)}"
        body.append([
            f"{size}^3", number(max(r["error"] for r in rows)),
            number(max(r["copying"] for r in rows)),
            ", ".join(f"{name} {100 * x:.2g} %" for name, x in off.items()),
            number(max(r["seconds"] for r in rows)), number(max(r["cpu"] for r in rows)),
            number(max(r["gb"] for r in rows), 2), same,
        ])  # fmt: skip
    head = [
        "points", "error", "copying", "coefficient error", "s", "s of processor", "GB",
        "same pick as the whole search",
    ]  # fmt: skip
    return [
        "## In space",
        "The 40 operators of `gray-scott`, trained on squares, on periodic cubes at the same "
        f"spacing: {OBSERVED} frames observed, {HORIZON} predicted, the worst of {kept['n']} "
        "systems. Seconds are those of the whole fit (search, substeps, verdict), as the clock "
        "shows them and as two threads spend them; memory is the peak of the process.",
        table(head, body),
        missed("at most 10 s for 40^3 and 60 s and 4 GB for 64^3, on two idle cores", (
            f"{r['points']}^3" for r in kept["rows"]
            if r["seconds"] > {40: 10, 64: 60}.get(r["points"], math.inf) or r["gb"] > 4)),
    ]  # fmt: skip
