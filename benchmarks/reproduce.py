"""Measure stored rows of the benchmark again, and say how far the numbers are apart.

    python benchmarks/reproduce.py --family spectral --method pursuit --rows 6

Rows are taken evenly from every equation, family and method. Two numbers agree if they differ by
at most `--tolerance` of the first. Stored rows may come from another processor, where rounding
differs, and a search passes rounding on to its result. `--reference FILE` therefore compares with
other code on this machine as well: a list of rows (`physics`, `column`, `family`, `method`,
`trajectory`, `nrmse`). Both counts are printed; the exit code is that of the reference, if given.

`--adopt` gives the rows of a cell the mark of the bundled model, if they have another one and all
that were measured again agree.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from opsplit._files import write_json
from opsplit._origin import origin
from opsplit.benchmark.baselines import BASELINES
from opsplit.benchmark.rows import Row, RowTable, Series
from opsplit.benchmark.run import Cell, Runner, known_cells

HERE = Path(__file__).parent
KEY = ("physics", "column", "family", "method", "trajectory")


def chosen(rows: dict[int, Row], n: int) -> list[Row]:
    """`n` rows, evenly."""
    numbers = sorted(rows)
    picks = torch.linspace(0, len(numbers) - 1, min(n, len(numbers))).long().tolist()
    return [rows[numbers[i]] for i in picks]


def stored(table: RowTable, series: Series) -> tuple[Series, dict[int, Row]]:
    """The rows of a cell under its mark, or under the one that is there."""
    everything = table.all()
    if series in everything:
        return series, everything[series]
    for other, rows in everything.items():
        mine = (other.column, other.method, other.family, other.seed)
        if mine == (series.column, series.method, series.family, series.seed):
            return other, rows
    return series, {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--physics", default="all", help="equations, separated by commas")
    parser.add_argument("--family", default="spectral,unet")
    parser.add_argument("--method", default="pursuit")
    parser.add_argument("--rows", type=int, default=3, help="per equation, family and method")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--cache", type=Path, default=HERE / "rows")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "reproduce.json")
    parser.add_argument("--reference", type=Path, help="the same rows, measured by other code")
    parser.add_argument("--adopt", action="store_true")
    words = parser.parse_args()
    given = json.loads(words.reference.read_text()) if words.reference else []
    reference = {tuple(row[k] for k in KEY): row["nrmse"] for row in given}
    runner, found = Runner(words.cache), []
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in known_cells(1):
        wanted = cell.method in words.method.split(",") and cell.method not in BASELINES
        wanted = wanted and (words.physics == "all" or cell.physics in words.physics.split(","))
        if wanted and cell.family in words.family.split(","):
            groups.setdefault((cell.physics, cell.family, cell.method), []).append(cell)
    print(f"{'equation':20} {'column':8} {'family':9} {'method':8} {'row':>4} {'stored':>11} "
          f"{'now':>11} {'apart':>8} {'from reference':>14}")  # fmt: skip
    for cells in groups.values():
        found += measured(cells, runner, reference, words)
    counts = {
        "agree with the stored": sum(row["agrees_with_stored"] for row in found),
        "agree with the reference": sum(row.get("agrees_with_reference", False) for row in found),
        "have a reference": sum("reference" in row for row in found),
        "all": len(found),
    }
    write_json(words.out, {"tolerance": words.tolerance, "counts": counts, "rows": found}
               | origin(0, program="python benchmarks/reproduce.py"), indent=1)  # fmt: skip
    print(", ".join(f"{name}: {n}" for name, n in counts.items()))
    sys.exit(not found or not all(agrees(row) for row in found))


def agrees(row: dict[str, Any]) -> bool:
    """With the reference on this machine, or without one with the stored number."""
    return bool(row.get("agrees_with_reference", row["agrees_with_stored"]))


def measured(
    cells: list[Cell],
    runner: Runner,
    reference: dict[tuple[Any, ...], float],
    words: argparse.Namespace,
) -> list[dict[str, Any]]:
    """Rows of one equation, family and method, spread over its columns."""
    found = []
    for i, cell in enumerate(cells):
        table, series = RowTable(words.cache, cell.physics), runner.series(cell)
        held, rows = stored(table, series)
        share = words.rows // len(cells) + (i < words.rows % len(cells))
        mine = []
        for row in chosen(rows, share):
            now = runner.measure(cell, row.trajectory).nrmse
            names = (cell.physics, cell.column, cell.family, cell.method, row.trajectory)
            one: dict[str, Any] = dict(zip(KEY, names, strict=True))
            one |= {"stored": row.nrmse, "now": now, "apart": abs(now - row.nrmse) / row.nrmse}
            one["agrees_with_stored"] = one["apart"] <= words.tolerance
            if names in reference:
                one["reference"] = reference[names]
                one["apart_from_reference"] = abs(now - reference[names]) / reference[names]
                one["agrees_with_reference"] = one["apart_from_reference"] <= words.tolerance
            mine.append(one)
            beside = one.get("apart_from_reference")
            print(f"{cell.physics:20} {cell.column:8} {cell.family:9} {cell.method:8} "
                  f"{row.trajectory:4} {row.nrmse:11.6g} {now:11.6g} {one['apart']:8.1e} "
                  f"{'' if beside is None else f'{beside:14.1e}'}", flush=True)  # fmt: skip
        found += mine
        if words.adopt and held != series and mine and all(agrees(row) for row in mine):
            table.replace({series if s == held else s: r for s, r in table.all().items()})
            print(f"{cell.physics} {cell.column} {cell.method}: {len(rows)} rows adopted")
    return found


if __name__ == "__main__":
    main()
