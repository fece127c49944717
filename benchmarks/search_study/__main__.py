"""The study behind the search `Pursuit`: cost, growth, scaling, sensitivity, robustness, noise.

Every part appends lines of JSON to docs/results/search/PART.jsonl, one per piece of work. What
has a line for the same n, seed and model is not done again, so a part that was stopped goes on
where it was. `report` reads all lines and writes docs/results/search.md, search.json and the
figures; nothing is measured by it.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from common import RESULTS

from opsplit.errors import OpsplitError

PARTS = {
    "cost": (8, "what pursuit and beam search spend"),
    "growth": (1, "time and memory against operators, parts, trajectories"),
    "scaling": (32, "the paper's scaling figures: error against trials and FLOPs"),
    "sensitivity": (32, "size of the dictionary and length of the window"),
    "robustness": (
        128,
        "a Burgers term that no operator knows (beam search makes it the longest part)",
    ),
    "noise": (32, "noisy observations, beside least squares and weak SINDy"),
    "report": (0, "tables and figures from what was measured"),
}
EXAMPLES = """examples:
  OMP_NUM_THREADS=1 python benchmarks/search_study noise --n 8 --out runs/try
  OMP_NUM_THREADS=1 python benchmarks/search_study cost
  python benchmarks/search_study report
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python benchmarks/search_study",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = made.add_subparsers(dest="part", required=True, metavar="PART")
    for name, (n, words) in PARTS.items():
        part = parts.add_parser(name, help=words, description=words)
        if n > 1:
            part.add_argument("--n", type=int, default=n, help=f"trajectories (default: {n})")
        part.add_argument("--seed", type=int, default=0, help="of trajectories (default: 0)")
        part.add_argument(
            "--out", type=Path, default=RESULTS / "search", help="folder of the lines"
        )
        if name != "report":
            part.add_argument("--force", action="store_true", help="measure all again")
        if name == "growth":
            part.add_argument("--measure-memory", nargs=4, help=argparse.SUPPRESS)
        part.set_defaults(n=n)
    return made


def main() -> None:
    args = parser().parse_args()
    try:
        importlib.import_module(args.part).run(args)
    except OpsplitError as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
