"""Processor time of a search on advection-diffusion, beside the arithmetic it cannot avoid.

Windows of 16 frames on 256 points are fitted one by one, and many in one call, with one thread. The
arithmetic is that of the operators' evaluations: their floating-point operations over the rate at
which this machine transforms a batch of such fields, measured in the same run. The goals are 40 ms
per window one by one, 20 ms in one call, and in one call five times the windows of one-by-one fits.

    OMP_NUM_THREADS=1 python benchmarks/search_speed.py
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from pathlib import Path

import torch
from torch import Tensor

from opsplit import OperatorSplitter, OpsplitWarning, fit_many, get_physics, load_model
from opsplit._files import write_json
from opsplit._origin import origin
from opsplit.operators.flops import fft_flops

RESULTS = Path(__file__).parent / "results"
PHYSICS = "advection-diffusion"
GOALS = {"one by one": 40.0, "in one call": 20.0, "one by one over in one call": 5.0}
FIELDS = 4096


def transform_rate(points: int, repeats: int = 20) -> float:
    """Floating-point operations per second of forward and backward transforms of a batch."""
    u = torch.randn(FIELDS, points)
    seconds = []
    for _ in range(repeats):
        began = time.process_time()
        torch.fft.irfft(torch.fft.rfft(u), n=points)
        seconds.append(time.process_time() - began)
    return fft_flops((points,), 2 * FIELDS) / statistics.median(seconds)


def one_by_one(u: Tensor, dt: float, extent: tuple[float, ...]) -> tuple[list[float], list[int]]:
    """Processor seconds and floating-point operations of every fit."""
    model = load_model(PHYSICS)
    seconds, operations = [], []
    for frames in u:
        began = time.process_time()
        fitted = OperatorSplitter(model).fit(frames, dt, extent)
        seconds.append(time.process_time() - began)
        operations.append(fitted.search_result_.cost.flops)
    return seconds, operations


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=256, help="windows in one call")
    parser.add_argument("--alone", type=int, default=32, help="windows one by one, per column")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "search_speed.json")
    args = parser.parse_args()
    warnings.simplefilter("ignore", OpsplitWarning)
    torch.set_num_threads(1)
    physics = get_physics(PHYSICS)
    found: dict[str, object] = {}
    for column in ("A+D", "c", "D"):
        data = physics.generate(column, args.n, args.seed)
        u, extent = data.data[:, :16].clone(), data.grid.extent
        one_by_one(u[:2], data.dt, extent)
        rate = transform_rate(u.shape[-1])
        seconds, operations = one_by_one(u[: args.alone], data.dt, extent)
        began = time.process_time()
        fit_many(u, data.dt, extent, OperatorSplitter(load_model(PHYSICS)))
        together = (time.process_time() - began) / args.n
        arithmetic = statistics.mean(operations) / rate
        found[column] = {
            "one by one": 1e3 * statistics.median(seconds), "in one call": 1e3 * together,
            "one by one over in one call": statistics.mean(seconds) / together,
            "arithmetic": 1e3 * arithmetic, "GFLOP per s": rate / 1e9,
        }  # fmt: skip
        words = ", ".join(f"{k} {v:.3g}" for k, v in found[column].items())
        print(f"{column}: ms of processor time per window: {words}")
    facts = {"load": os.getloadavg()[0], "windows": args.n, "goals": GOALS}
    facts |= origin(args.seed, program="python benchmarks/search_speed.py")
    write_json(args.out, {"columns": found} | facts)


if __name__ == "__main__":
    main()
