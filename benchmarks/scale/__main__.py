"""Many trajectories, many processes: what is lost, what it costs, what it would cost at 15 TB.

Every part is a module of this folder: `run(args)` measures and returns plain values, `section`
writes Markdown from them. Results are kept in docs/results/scale/PART.json. `report` writes
docs/results/scale.md from all such files; it measures nothing.

    OMP_NUM_THREADS=1 python benchmarks/scale failures
    python benchmarks/scale report
"""

from __future__ import annotations

import argparse
import importlib
import os
import tempfile
import time
from pathlib import Path

from opsplit._files import read_json, write_json, write_text
from opsplit._origin import origin

PARTS = ("failures", "poison", "overhead", "throughput", "growth", "streaming")
FOLDER = Path(__file__).parents[2] / "docs" / "results"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=(*PARTS, "all", "report"))
    parser.add_argument("--n", type=int, help="items, instead of the usual number of the part")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of scale.md")
    args = parser.parse_args()
    chosen = PARTS if args.part == "all" else () if args.part == "report" else (args.part,)
    for name in chosen:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as place:
            found = importlib.import_module(name).run(Path(place), args.n)
        facts = {k: v for k, v in origin(0).items() if k != "command"}
        command = f"OMP_NUM_THREADS=1 python benchmarks/scale {name}"
        command += "" if args.n is None else f" --n {args.n}"
        facts |= {"command": command, "load": os.getloadavg()[0]}
        seconds = time.monotonic() - began
        write_json(args.out / "scale" / f"{name}.json", found | facts | {"seconds": seconds})
        print(f"{name}: {seconds:.0f} s")
    report(args.out)


def report(out: Path) -> None:
    """The page, from all results that are there."""
    lines = ["# Many trajectories, many processes", ""]
    lines += [
        "Everything here was measured on one machine. Scheduler, workers and client are separate "
        "processes that talk over the loopback. Every section names its command; `load` is the "
        "number of processes that were ready to run when it ended, other work of the machine "
        "included: times are upper bounds where it exceeds the number of cores.", "",
    ]  # fmt: skip
    held = {}
    for name in PARTS:
        file = out / "scale" / f"{name}.json"
        if file.exists():
            held[name] = read_json(file)
            module = importlib.import_module(name)
            lines += [*module.section(held[name]), "", made_by(held[name]), ""]
    lines += importlib.import_module("fifteen").section(held)
    write_text(out / "scale.md", "\n".join(lines).rstrip() + "\n")


def made_by(kept: dict) -> str:
    return (
        f"Written by `{kept['command']}`, commit {kept['commit']}, {kept['hardware']}, "
        f"load {kept['load']:.1f}."
    )


if __name__ == "__main__":
    main()
