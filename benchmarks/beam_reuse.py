"""What the exact shortcuts of beam search save, and the memory a search takes.

Beam search with the paper's settings (width 4, at most 5 parts, threshold 5 %) runs on windows of
the column A+D with and without prefix reuse and with and without screening, in turns. All four
have to pick the same composition. Memory is that of one search in a fresh process.

    python benchmarks/beam_reuse.py
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

from opsplit import Beam, Model, OperatorSplitter, Trajectories, load_model
from opsplit._files import write_json
from opsplit._origin import origin
from opsplit.benchmark.tasks import columns, test_windows
from opsplit.search import SearchResult

RESULTS = Path(__file__).parent / "results"
MEMORY_MB = OperatorSplitter().memory_mb
WAYS = {
    "neither": Beam(reuse=False, screen=False),
    "reuse": Beam(reuse=True, screen=False),
    "screening": Beam(reuse=False, screen=True),
    "both": Beam(reuse=True, screen=True),
}


def windows(n: int, seed: int) -> Trajectories:
    """Observed frames; the first windows are the same for every `n`."""
    return test_windows(columns("advection-diffusion")["A+D"], n, seed)[0]


def search(model: Model, beam: Beam, observed: Trajectories, memory_mb: float) -> SearchResult:
    splitter = OperatorSplitter(model, search=beam, memory_mb=memory_mb)
    splitter.fit(observed.data[0], observed.dt, observed.grid.extent)
    return splitter.search_result_


def size_mb(field: str) -> float:
    """`VmRSS`, the memory in use, or `VmHWM`, the most there was, of this process (Linux only).

    The `ru_maxrss` of getrusage will not do: a child begins with the peak of its parent.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith(field))
    return int(kilobytes) / 1024


def memory(args: argparse.Namespace, way: str, limit: float) -> dict[str, float]:
    """Peak of a fresh process, and how much of it the search added; empty without /proc."""
    if not Path("/proc/self/clear_refs").exists():
        return {}
    options = ["--model", args.model, "--seed", str(args.seed)]
    command = [sys.executable, __file__, "--measure-memory", way, str(limit), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measure_memory(model: Model, observed: Trajectories, way: str, limit: float) -> None:
    # One operator on one transition, so that what torch loads on first use is not counted.
    first = OperatorSplitter(model, search=Beam(max_parts=1), window=2)
    first.fit(observed.data[0], observed.dt, dictionary=model.dictionary.select([0]))
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
    before = size_mb("VmRSS")
    search(model, WAYS[way], observed, limit)
    print(json.dumps({"process_mb": size_mb("VmHWM"), "search_mb": size_mb("VmHWM") - before}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="advection-diffusion", help="bundled name or folder")
    parser.add_argument("--windows", type=int, default=4, help="test windows")
    parser.add_argument("--repeats", type=int, default=3, help="interleaved, the median counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "beam_reuse.json")
    parser.add_argument("--measure-memory", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    model = load_model(args.model)
    if args.measure_memory:
        way, limit = args.measure_memory
        measure_memory(model, windows(1, args.seed), way, float(limit))
        return

    observed = windows(args.windows, args.seed)
    print(f"{model}, {args.windows} windows, {torch.get_num_threads()} thread(s)")
    cost: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    picks = []
    for index in range(args.windows):
        one = observed[[index]]
        found: dict[str, list[SearchResult]] = {name: [] for name in WAYS}
        processor: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(args.repeats):
            for name, beam in WAYS.items():
                began = time.process_time()
                found[name].append(search(model, beam, one, MEMORY_MB))
                processor[name].append(time.process_time() - began)
        pick = found["neither"][0].pick
        for name, results in found.items():
            for result in results:
                assert result.pick.operators == pick.operators, f"{name} picked {result.pick}"
                assert abs(result.pick.fit_error / pick.fit_error - 1) < 1e-4
            cost[name].append(
                {
                    "evaluations": results[0].cost.evaluations,
                    "seconds": statistics.median(r.cost.seconds for r in results),
                    # Hardly minds what else the machine does.
                    "processor": statistics.median(processor[name]),
                }
            )
        picks.append({"operators": pick.operators, "fit_error": pick.fit_error})

    rows = []
    keys = ("evaluations", "seconds", "processor")
    print("mean per window, and as a share of the search without shortcuts")
    print(" " * 10 + "".join(f"{key:>13}{'':>8}" for key in keys) + f"{'memory':>11}")
    for name, values in cost.items():
        mean = {key: statistics.mean(v[key] for v in values) for key in keys}
        share = {key: mean[key] / statistics.mean(v[key] for v in cost["neither"]) for key in keys}
        used = memory(args, name, MEMORY_MB)
        rows.append({"shortcuts": name, **mean, "share_of_neither": share, **used, "each": values})
        shown = [
            f"{mean[key]:>13,.{0 if key == 'evaluations' else 3}f}{share[key]:>8.1%}"
            for key in keys
        ]
        print(f"{name:<10}{''.join(shown)}{used.get('search_mb', math.nan):>8.0f} MB", flush=True)
    limits = {limit: memory(args, "both", limit) for limit in (64.0, 128.0, 256.0, 512.0)}
    for limit, used in limits.items():
        print(f"memory_mb={limit:g}: a search adds {used.get('search_mb', math.nan):.0f} MB")
    record = {
        "what": "beam search, width 4, at most 5 parts, threshold 0.05; mean over windows",
        **origin(args.seed, program="python benchmarks/beam_reuse.py"),
        "threads": torch.get_num_threads(),
        "model": repr(model),
        "windows": args.windows,
        "rows": rows,
        "picks": picks,
        "memory_by_limit": limits,
    }
    write_json(args.out, record)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
