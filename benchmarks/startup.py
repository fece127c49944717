"""Processor time of `opsplit predict` on a short 1-D file, beside that of `import torch`.

The file holds 16 frames of advection-diffusion on 256 points. The forecast is made with the default
flags: search, table, numbers and picture. The commands run in turns, each in a fresh process, and
the table shows medians of user plus system time. The goal is a ratio of at most 1.6.

    python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from opsplit._files import write_json
from opsplit._origin import origin
from opsplit.physics import get_physics

RESULTS = Path(__file__).parent / "results"
GOAL = 1.6
HEAVY = ("torch._dynamo", "torch.utils.flop_counter", "sympy", "h5py", "xarray", "pandas", "scipy")
"""Modules that a forecast of a `.npy` file has no use for."""


def write_frames(path: Path, seed: int) -> float:
    """Write the observed frames; the time between them."""
    physics = get_physics("advection-diffusion")
    initial = physics.initial_fields(1, torch.Generator().manual_seed(seed), "A+D")
    coefficients = {k: torch.tensor([v]).double() for k, v in (("c", 0.5), ("D", 0.3))}
    times = torch.arange(16, dtype=torch.float64) * physics.dt
    np.save(path, physics.solve(initial, coefficients, times)[0, :, 0].float().numpy())
    return physics.dt


def run(command: list[str], folder: str) -> tuple[float, float]:
    """Processor seconds and seconds of a command in a fresh process."""
    # Compiled modules are kept, as they are for everyone who installed the package.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    child = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{shlex.join(command)} ended with exit code {child.returncode}.")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def heavy_imports(predict: list[str], folder: str) -> list[str]:
    """Heavy modules that the forecast imports although it has no use for them."""
    code = (
        "import sys; from opsplit.cli import main; main(sys.argv[1:]);"
        f"print(*(m for m in {HEAVY} if m in sys.modules), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *predict]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stderr.split("\n")[-2].split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="runs of every command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "startup.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dt = write_frames(Path(folder) / "frames.npy", args.seed)
        predict = ["predict", "frames.npy", "--dt", f"{dt:.6g}", "--force"]
        commands = {
            "import torch": [sys.executable, "-c", "import torch"],
            "opsplit --help": [sys.executable, "-m", "opsplit", "--help"],
            "opsplit predict": [sys.executable, "-m", "opsplit", *predict],
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for repeat in range(args.repeats + 1):
            for name, command in commands.items():
                found = run(command, folder)
                # The first round compiles modules and fills the cache of the disk.
                if repeat:
                    taken[name].append(found)
        heavy = heavy_imports(predict, folder)
    base = statistics.median(cpu for cpu, _ in taken["import torch"])
    rows = {}
    print(f"{'command':<18}{'CPU s':>8}{'from':>8}{'to':>8}{'ratio':>8}{'wall s':>8}")
    for name, times in taken.items():
        cpu, wall = zip(*times, strict=True)
        median = statistics.median(cpu)
        rows[name] = {
            "cpu_seconds": median,
            "cpu_seconds_least": min(cpu),
            "cpu_seconds_most": max(cpu),
            "ratio": median / base,
            "seconds": statistics.median(wall),
        }
        print(
            f"{name:<18}{median:>8.3f}{min(cpu):>8.3f}{max(cpu):>8.3f}"
            f"{median / base:>8.2f}{statistics.median(wall):>8.3f}"
        )
    ratio = rows["opsplit predict"]["ratio"]
    print(f"goal: at most {GOAL:g} times `import torch`; {'met' if ratio <= GOAL else 'missed'}")
    print(f"needless imports: {', '.join(heavy) or 'none'}")
    facts = {
        **origin(args.seed, program="python benchmarks/startup.py"),
        "load_average": os.getloadavg()[0],
        "repeats": args.repeats,
    }
    write_json(args.out, {**facts, "goal": GOAL, "needless_imports": heavy, "commands": rows})


if __name__ == "__main__":
    main()
