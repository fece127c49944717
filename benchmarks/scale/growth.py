"""Seconds and memory against the number of trajectories."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from data import command, write_files

SIZES = (1, 10, 100, 1000, 10_000)
MOST = 1000

MEASURED = """
import json, resource, sys
from opsplit.cli import main
try:
    main(json.loads(sys.argv[1]))
except SystemExit as end:
    assert not end.code, end.code
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu": used.ru_utime + used.ru_stime, "mb": used.ru_maxrss / 1024}))
"""


def run(place: Path, n: int | None) -> dict:
    found = {}
    for size in [s for s in SIZES if s <= (n or MOST)]:
        data = write_files(place / str(size), size, 50)
        words = command(data, place / str(size) / "out")[3:]
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, json.dumps(words)], capture_output=True, text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True,
        )  # fmt: skip
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        bytes_written = sum(f.stat().st_size for f in (place / str(size)).rglob("*.npz"))
        found[size] = lines[-1] | {"wall": lines[0]["seconds"], "bytes": bytes_written}
    return {"sizes": found}


def exponent(kept: dict, name: str, least: int) -> tuple[float, float]:
    """Slope and factor of a straight line through logarithms, from `least` items on."""
    held = {int(k): v[name] for k, v in kept["sizes"].items() if int(k) >= least}
    if len(held) < 2:
        return math.nan, math.nan
    slope, start = np.polyfit(np.log(list(held)), np.log(list(held.values())), 1)
    return float(slope), float(np.exp(start))


def per_item(kept: dict) -> float:
    """CPU seconds of one more trajectory."""
    sizes = sorted(int(k) for k in kept["sizes"])
    low, high = kept["sizes"][str(sizes[-2])], kept["sizes"][str(sizes[-1])]
    return (high["cpu"] - low["cpu"]) / (sizes[-1] - sizes[-2])


def section(kept: dict) -> list[str]:
    cpu, memory = exponent(kept, "cpu", 100)[0], exponent(kept, "mb", 1)[0]
    return [
        "## Growth", "",
        "`opsplit predict` in one process: fits, forecasts, rows, table and page.", "",
        "| trajectories | CPU seconds | peak MB |", "|---|---|---|",
        *(f"| {int(size):,} | {one['cpu']:.1f} | {one['mb']:.0f} |"
          for size, one in kept["sizes"].items()), "",
        f"CPU time grows with the power {cpu:.2f} of the number (from 100 on, where the start no "
        f"longer counts), memory with the power {memory:.2f}. One more trajectory costs "
        f"{1e3 * per_item(kept):.0f} ms.",
    ]  # fmt: skip
