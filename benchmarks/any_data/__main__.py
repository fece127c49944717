"""Any data: units, orientation, walls, dimensions, and a dictionary that needs no training.

Every part is a module of this folder with two functions: `run(args)` measures, and `section(kept)`
writes Markdown from what was measured. A part keeps its results in docs/results/any-data/PART.json.
`report` writes docs/results/any-data.md from all such files; it measures nothing.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType

from kept import FOLDER, write_page

from opsplit.errors import OpsplitError

HELPERS = ("__main__", "kept")
"""Modules of this folder that are no parts."""
EXAMPLES = """examples:
  OMP_NUM_THREADS=1 python benchmarks/any_data invariance --n 2 --out runs/any-data
  python benchmarks/any_data report
"""


def parts() -> dict[str, ModuleType]:
    """The parts by name, in the order of their `ORDER` on the page."""
    here = Path(__file__).parent
    names = [file.stem for file in here.glob("*.py") if file.stem not in HELPERS]
    found = {name.replace("_", "-"): importlib.import_module(name) for name in names}
    found = {name: module for name, module in found.items() if hasattr(module, "section")}
    return dict(sorted(found.items(), key=lambda item: (item[1].ORDER, item[0])))


def main() -> None:
    known = parts()
    parser = argparse.ArgumentParser(
        prog="python benchmarks/any_data",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    chosen = parser.add_subparsers(dest="part", required=True, metavar="PART")
    for name, module in known.items():
        words = (module.__doc__ or "").strip().splitlines()[0]
        part = chosen.add_parser(name, help=words, description=words)
        part.add_argument("--n", type=int, default=module.N, help="trajectories per case")
        part.add_argument("--seed", type=int, default=0, help="of trajectories (default: 0)")
        if hasattr(module, "arguments"):
            module.arguments(part)
    chosen.add_parser("report", help="the page, from all results that are there")
    for part in chosen.choices.values():
        part.add_argument("--out", type=Path, default=FOLDER, help="folder of the results")
    args = parser.parse_args()
    try:
        if args.part == "report":
            write_page(args.out, known)
        else:
            known[args.part].run(args)
    except OpsplitError as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
