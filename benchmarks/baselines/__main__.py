"""The paper's baselines: data, trainings, rows of the tables and the page about them.

    python benchmarks/baselines data            # training sets, into runs/data
    python benchmarks/baselines train --minutes 30
    python benchmarks/baselines rows
    python benchmarks/baselines report          # docs/results/baselines.md

Every part can be stopped and started again. `train` with more minutes continues the trainings that
are there. Minutes are those that one core works, however long they take on a clock; Zebra has twice
as many, for its two stages.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

import coarse_data
from report import page
from settings import COARSE, DATA, FLAGS, METHODS, RUNS, data_of

from opsplit._files import write_text
from opsplit.benchmark.tasks import COLUMNS
from opsplit.physics import get_physics

ROOT = Path(__file__).parents[2]
CURVES = ROOT / "benchmarks" / "results" / "baselines"
# Relative, as the folder of trainings is: the command is stored with every row.
ROWS = Path("benchmarks/rows")


def opsplit(*words: object) -> None:
    """Run a command of the package and stop if it fails."""
    subprocess.run([sys.executable, "-m", "opsplit", *map(str, words)], check=True)


def data(chosen: list[str]) -> None:
    """The training sets of equations that are not simulated while training."""
    for physics in chosen:
        if physics in COARSE and not data_of(physics).exists():
            coarse_data.main(physics, data_of(physics))
        elif get_physics(physics).per_environment and physics not in COARSE:
            opsplit("generate", physics, "--out", DATA)


def train(chosen: list[str], methods: list[str], minutes: float) -> None:
    """Train every method on every equation and keep its learning curve."""
    for physics in chosen:
        where = ["--data", data_of(physics)] if get_physics(physics).per_environment else []
        for method in methods:
            budget = minutes * (2 if method == "zebra" else 1)
            flags = FLAGS.get((physics, method), [])
            opsplit("pretrain", physics, "--method", method, "--minutes", budget, "--threads", 1,
                    *where, *flags)  # fmt: skip
            keep_curve(physics, method)


def keep_curve(physics: str, method: str) -> None:
    curve = RUNS / physics / method / "metrics.csv"
    if curve.exists():
        CURVES.mkdir(parents=True, exist_ok=True)
        shutil.copy(curve, CURVES / f"{physics}-{method}.csv")


def rows(chosen: list[str], methods: list[str], n: int | None) -> None:
    """Measure what is trained: 128 trajectories of a line, 32 of a plane."""
    for physics in chosen:
        line = get_physics(physics).grid.ndim == 1
        for method in methods:
            if (RUNS / physics / method / "metrics.json").exists():
                keep_curve(physics, method)
                opsplit("benchmark", physics, "--method", method, "--n",
                        n or (128 if line else 32), "--cache", ROWS, "--out", RUNS / "tables",
                        "--json")  # fmt: skip


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("part", choices=("data", "train", "rows", "report"))
    made.add_argument("--physics", default=",".join(COLUMNS))
    made.add_argument("--method", default=",".join(METHODS))
    made.add_argument("--minutes", type=float, default=30.0, help="processor minutes (default: 30)")
    made.add_argument("--n", type=int)
    return made


def main() -> None:
    given = parser().parse_args()
    chosen, methods = given.physics.split(","), given.method.split(",")
    if given.part == "data":
        data(chosen)
    elif given.part == "train":
        train(chosen, methods, given.minutes)
    elif given.part == "rows":
        rows(chosen, methods, given.n)
    else:
        write_text(ROOT / "docs" / "results" / "baselines.md", page(ROWS))


if __name__ == "__main__":
    main()
