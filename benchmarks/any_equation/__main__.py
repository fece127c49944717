"""Equations that nobody tuned anything for: train on each with default flags, then forecast.

Every part keeps one file of results per equation in the folder `--out`; what is there is not done
again, so a run that was stopped goes on where it was. `report` reads all results and writes
benchmarks/results/any_equation.json, docs/results/any-equation.md and its figure.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from blind import FIRST, SECOND, THIRD
from common import ALL, EQUATIONS, PARTS, REPOSITORY, keep
from fifth import FIFTH
from fourth import FOURTH
from seventh import SEVENTH
from sixth import SIXTH

WORDS = {
    "data": "simulate training and test trajectories with the independent solver",
    "ours": "train one minute with default flags, forecast with defaults",
    "blind": "the same, kept as the first measurement of equations that are new",
    "early": "processor time until the first usable model, and until all operators",
    "given": "a physicist who knows the terms: least squares, then shooting",
    "sindy": "PySINDy on the observed frames",
    "former": "the former default, gated products, 10 minutes",
    "unet": "the U-Net family, 10 minutes",
    "report": "tables and figure from what was measured",
}
GROUPS = {
    "ten": [*EQUATIONS],
    "first": [*FIRST],
    "second": [*SECOND],
    "third": [*THIRD],
    "fourth": [*FOURTH],
    "fifth": [*FIFTH],
    "sixth": [*SIXTH],
    "seventh": [*SEVENTH],
    "blind": [*FIRST, *SECOND, *THIRD, *FOURTH, *FIFTH, *SIXTH, *SEVENTH],
    "all": [*ALL],
}
EXAMPLES = """examples:
  OMP_NUM_THREADS=1 python benchmarks/any_equation data ours --equations allen-cahn
  OMP_NUM_THREADS=1 python benchmarks/any_equation data ours given sindy report
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/any_equation",
        description=__doc__,
        epilog="parts:\n"
        + "".join(f"  {name:8s}{words}\n" for name, words in WORDS.items())
        + "\n"
        + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="+", choices=[*WORDS], metavar="PART")
    parser.add_argument(
        "--equations", nargs="+", default=[*EQUATIONS], metavar="NAME",
        choices=[*ALL, *GROUPS],
        help=f"one of {', '.join(ALL)}, or a group: {', '.join(GROUPS)} (default: ten)",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=0.0, help="of training (ours: 1, rivals: 10)"
    )
    parser.add_argument("--tests", type=int, default=0, help="test trajectories (default: 24)")
    parser.add_argument("--out", type=Path, default=REPOSITORY / "runs" / "any-equation")
    parser.add_argument("--force", action="store_true", help="measure all again")
    args = parser.parse_args()
    names = [n for chosen in args.equations for n in GROUPS.get(chosen, [chosen])]
    for part in args.parts:
        if part == "report":
            import report

            report.write(args.out)
            continue
        for name in names:
            keep(args.out, part, name, lambda p=part, n=name: _work(p, n, args), args.force)


def _work(part: str, name: str, args: argparse.Namespace) -> dict[str, object]:
    if part not in PARTS:
        sys.exit(f"There is no part {part}.")
    if part == "data":
        import data

        return data.work(args.out, name)
    if part == "early":
        import early

        return early.work(args.out, name)
    if not (args.out / name / "test.npz").exists():
        keep(args.out, "data", name, lambda: _work("data", name, args), force=True)
    if part in ("ours", "blind", "former", "unet"):
        import ours

        return ours.work(args.out, name, part, args.minutes, args.tests)
    if part == "given":
        import given

        return given.work(args.out, name, args.tests)
    import sindy

    return sindy.work(args.out, name, args.tests)


if __name__ == "__main__":
    main()
