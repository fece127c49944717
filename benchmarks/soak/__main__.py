"""Many fits and forecasts in one process: does memory grow, does anything carry over?

Every call loads the bundled model of advection-diffusion, fits 16 frames of the column A+D by
pursuit and forecasts 8 more. Windows differ from call to call; the last call repeats the first
and has to give the same numbers, bit by bit. Memory is read after every call, as it goes up and
down by a few per cent; the median of the last tenth of the calls is held against that of the
second tenth, the first being the warm-up.

    OMP_NUM_THREADS=1 python benchmarks/soak --calls 2000
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsplit import OperatorSplitter
from opsplit._files import write_json
from opsplit._origin import origin
from opsplit.benchmark.tasks import columns, test_windows

RESULTS = Path(__file__).parents[2] / "docs" / "results"
GROWTH = 0.05
"""The largest share by which memory may grow after the warm-up."""
STEPS = 8
WINDOWS = 64
"""Different windows that the calls take in turns."""


def resident_mb() -> float:
    """Memory in use by this process; not a number where there is no /proc."""
    status = Path("/proc/self/status")
    if not status.exists():
        return math.nan
    lines = status.read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmRSS"))
    return int(kilobytes) / 1024


def call(window: Tensor, dt: float, extent: Sequence[float]) -> dict[str, Any]:
    """One fit and one forecast, all that a user would look at."""
    splitter = OperatorSplitter("advection-diffusion").fit(window, dt, extent)
    forecast = splitter.forecast(STEPS)
    return {
        "frames": forecast.frames.numpy().tobytes(),
        "coefficients": splitter.coefficients_,
        "intervals": splitter.coefficient_intervals_,
        "composition": splitter.composition_.label,
        "fit_error": splitter.fit_error_,
    }


def soak(calls: int, seed: int = 0, say: bool = True) -> dict[str, Any]:
    """What `calls` calls leave behind: memory over calls, and whether the last is the first."""
    observed, _ = test_windows(columns("advection-diffusion")["A+D"], min(WINDOWS, calls), seed)
    tenth, every = max(1, calls // 10), max(1, calls // 40)
    memory: list[float] = []
    first: dict[str, Any] = {}
    began = time.perf_counter()
    for number in range(calls):
        index = 0 if number == calls - 1 else number % len(observed)
        last = call(observed.data[index], observed.dt, observed.grid.extent)
        first = first or last
        memory.append(resident_mb())
        if say and len(memory) % every == 0:
            print(f"{len(memory):>6} calls  {memory[-1]:.1f} MB", flush=True)
    early, late = (statistics.median(part) for part in (memory[tenth : 2 * tenth], memory[-tenth:]))
    return {
        "calls": calls,
        "windows": len(observed),
        "warm_up": tenth,
        "growth": late / early - 1,
        "identical": last == first,
        "fit_error": last["fit_error"],
        "seconds": time.perf_counter() - began,
        "memory_mb": {"after warm-up": early, "at the end": late, "most": max(memory)},
        "memory_mb_every": {"calls": every, "values": [round(x, 1) for x in memory[::every]]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/soak", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--calls", type=int, default=2000, help="fits and forecasts (2000)")
    parser.add_argument("--seed", type=int, default=0, help="of the windows (0)")
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.json")
    args = parser.parse_args()
    if args.calls < 2:
        sys.exit("The last call repeats the first: --calls must be at least 2.")
    found = soak(args.calls, args.seed)
    passed = found["identical"] and not found["growth"] > GROWTH
    record = {
        "what": f"fit 16 frames by pursuit, forecast {STEPS}; memory after the warm-up",
        **origin(args.seed, program="python benchmarks/soak"),
        "threads": torch.get_num_threads(),
        "passed": passed,
        "growth_allowed": GROWTH,
        **found,
    }
    write_json(args.out, record)
    same = "identical" if found["identical"] else "DIFFERENT"
    print(f"memory grew by {found['growth']:.2%}, first and last result {same}: {args.out}")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
