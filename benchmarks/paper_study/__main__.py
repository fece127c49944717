"""Tables of the paper's appendix that `opsplit benchmark` and `search_study` do not make.

Every part appends lines of JSON to docs/results/paper/PART.jsonl, one per piece of work, and
models to runs/paper. Work that has a line for the same settings is not done again. `report` reads
all lines and writes docs/results/paper.md; `index` writes docs/results/index.md, the list of all
tables and figures of the paper with their commands and states.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from common import RESULTS

from opsplit.errors import OpsplitError

PARTS = {
    "splitting": (32, 2000, "splitting accuracy against the quality of operators"),
    "mixed": (32, 600, "training on mixed physics, advection-diffusion"),
    "recipe": (32, 600, "training without in-context pairs, and without a codebook"),
    "wallclock": (8, 0, "adaptation by gradient (GEPS) beside beam search and pursuit"),
    "unets": (32, 0, "size of the dictionary, length of the window and trials for U-Nets"),
    "sizes": (8, 0, "Navier-Stokes on 256 x 256 and Gray-Scott on 128 x 128 points"),
    "resolution": (4, 0, "frames of Navier-Stokes beside those of a finer simulation"),
    "flow": (8, 0, "where the error of the Navier-Stokes operators comes from"),
    "faithful": (8, 0, "the paper's own networks: plain U-Nets of a DISCO training"),
    "minutes": (8, 0, "U-Nets after as many minutes as the spectral model had"),
    "report": (0, 0, "the page from what was measured"),
    "index": (0, 0, "the list of the paper's tables and figures"),
}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python benchmarks/paper_study",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = made.add_subparsers(dest="part", required=True, metavar="PART")
    for name, (n, steps, words) in PARTS.items():
        part = parts.add_parser(name, help=words, description=words)
        part.add_argument("--out", type=Path, default=RESULTS / "paper", help="folder of the lines")
        if n:
            part.add_argument("--n", type=int, default=n, help=f"trajectories (default: {n})")
            part.add_argument("--seed", type=int, default=0, help="of trajectories (default: 0)")
            part.add_argument("--runs", type=Path, default=Path("runs/paper"), help="of models")
        if steps:
            part.add_argument("--steps", type=int, default=steps, help=f"default: {steps}")
        if name == "recipe":
            part.add_argument("--column", default="A+D,c,D,NS", help="columns (default: all)")
        if name == "faithful":
            part.add_argument("--physics", help="equations, separated by commas (default: all)")
            part.add_argument("--column", help="columns, separated by commas (default: all)")
        if name == "minutes":
            part.add_argument("--minutes", type=float, default=6.0, help="of one core (default: 6)")
    return made


def main() -> None:
    args = parser().parse_args()
    try:
        importlib.import_module(args.part).run(args)
    except OpsplitError as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
