"""The page of the appendix' tables, from the lines of all parts; nothing is measured here."""

from __future__ import annotations

import argparse
from pathlib import Path

import flow
from common import Row, read_rows, summary
from writing import NOT, cell, error, origin, pick, records, table

from opsplit._files import write_text
from opsplit.benchmark.run import Cell, Runner
from opsplit.benchmark.tasks import COLUMNS
from opsplit.commands.benchmark import MANY

ROWS = Path(__file__).parents[1] / "rows"
FRESH = 34904
"""A seed of test trajectories that no choice has seen."""
PUBLISHED_SPLITTING = (
    (50, 5.39e-05, 1.47e-03, 1.24e-03, 1.22e-01),
    (150, 3.45e-05, 1.02e-03, 8.46e-04, 1.02e-01),
    (250, 2.08e-05, 6.18e-04, 6.55e-04, 9.90e-02),
    (350, 5.84e-06, 1.52e-04, 1.93e-04, 2.73e-02),
    (500, 2.59e-06, 8.95e-05, 8.26e-05, 8.85e-03),
)
PUBLISHED_MIXED = {
    ("mixed-0.5", 64): (0.098, 0.097),
    ("mixed-0.5", 256): (0.097, 0.057),
    ("mixed-1.0", 64): (0.313, 0.267),
    ("mixed-1.0", 256): (0.278, 0.190),
}
PUBLISHED_RECIPE = {
    "A+D": (0.015, 0.026),
    "c": (0.052, 0.406),
    "D": (0.002, 0.012),
    "NS": (0.066, 0.563),
}
PUBLISHED_SWEEP = {
    "N": {16: 0.037, 32: 0.035, 64: 0.017, 256: 0.015},
    "L": {2: 0.011, 4: 0.013, 8: 0.013, 16: 0.015},
}
PUBLISHED_GEPS = {
    (100, "A+D"): "0.265, 3.5 s",
    (100, "c"): "1.129, 3.5 s",
    (100, "D"): "0.599, 3.5 s",
    (500, "A+D"): "0.103, 15 s",
    (500, "c"): "0.847, 15 s",
    (500, "D"): "0.268, 15 s",
    (2000, "A+D"): "0.034, 57 s",
    (2000, "c"): "diverged",
    (2000, "D"): "diverged",
}
PUBLISHED_BEAM = {"A+D": "0.015, 21 s", "c": "0.052, 26 s", "D": "0.002, 26 s"}
KNOWN = (
    ("persistence", "nothing", "nothing"),
    ("terms-given", "all terms of the equation, and the solver that made the data", "nothing"),
    ("sindy", "products of powers and derivatives; the terms are among them", "nothing"),
    (
        "direct, uniform, beam, pursuit with spectral operators",
        "derivatives and products of fields as building blocks; the terms can be made of them",
        "single mechanisms",
    ),
    (
        "direct, uniform, beam, pursuit with U-Nets",
        "no term; additions such as conservation and units",
        "single mechanisms",
    ),
    ("fno, mpp, zebra", "no term", "single mechanisms"),
    ("geps, disco", "no term", "single mechanisms, and which trajectories share one"),
)


def run(args: argparse.Namespace) -> None:
    lines = [
        "# The tables of the paper's appendix",
        "",
        "Written by `python benchmarks/paper_study report` from the lines of its parts; "
        "[all tables and figures](index.md) are listed with their commands. Cells are mean NRMSE "
        "over test trajectories with the median in round brackets, and the number of forecasts "
        "that blew up in square brackets (each counts as 1); lower is better. Trainings here are "
        "short: what they took stands beside the numbers. Those of the paper had 100,000 to "
        "300,000 steps on a GPU.",
    ]
    grids = (sizes, resolution, flow.section)
    for part in (known, splitting, mixed, recipe, sweeps, wallclock, *grids, faithful, fresh):
        lines += ["", *part(args.out)]
    write_text(args.out.parent / "paper.md", "\n".join(lines) + "\n")


def known(folder: Path) -> list[str]:
    """What is known in advance, and what equal and unequal minutes give."""
    lines = ["## What each method knows in advance", ""]
    lines += table(["method", "built in", "trained on"], ([*row] for row in KNOWN))
    rows = read_rows("minutes", folder)
    lines += ["", "After nearly equal minutes of one core, advection-diffusion, pursuit; the "
              "spectral row is that of the bundled model in the main table:", ""]  # fmt: skip
    columns = ("A+D", "c", "D")
    ours = [next((r for r in records() if (r["column"], r["method"], r["family"])
                  == (c, "pursuit", "spectral")), None) for c in columns]  # fmt: skip
    nets = [pick(rows, family="unet", column=c, method="pursuit") for c in columns]
    body = []
    for family, found in (("spectral", ours), ("unet", nets)):
        one = next((r for r in found if r), None)
        spent = (one.get("training_minutes") or one["item"]["minutes"]) if one else None
        body.append([family, f"{spent:.1f}" if spent else NOT, str(one["n"]) if one else "",
                     *map(cell, found)])  # fmt: skip
    lines += table(["family", "minutes", "n", *columns], body)
    lines += origin("minutes", rows)
    lines += ["", "The bundled models, pursuit, mean over the columns of an equation (from "
              "`method.json`):", ""]  # fmt: skip
    body = []
    for physics in dict.fromkeys(r["physics"] for r in records()):
        for family in ("spectral", "unet"):
            mine = [r for r in records() if (r["physics"], r["family"], r["method"])
                    == (physics, family, "pursuit")]  # fmt: skip
            if mine:
                mean = sum(r["nrmse"] for r in mine) / len(mine)
                minutes = mine[0]["training_minutes"]
                counts = sorted({r["n"] for r in mine})
                body.append([physics, family, f"{minutes:.0f}" if minutes else "",
                             error(mean), " to ".join(map(str, counts))])  # fmt: skip
    return lines + table(["equation", "family", "training minutes", "NRMSE", "n"], body)


def splitting(folder: Path) -> list[str]:
    rows = read_rows("splitting", folder)
    most = max((r["item"]["of"] for r in rows), default=0)
    rows = [r for r in rows if r["item"]["of"] == most]
    head = ["training", "heat", "dispersion", "both, one step", "both, 250 steps"]
    body = [[f"published, epoch {epoch}", *(f"{x:.2e}" for x in numbers)]
            for epoch, *numbers in PUBLISHED_SPLITTING]  # fmt: skip
    for r in rows:
        words = f"step {r['item']['step']}, {r['core_minutes']:.1f} minutes of one core"
        numbers = (r[k] for k in ("heat", "dispersion", "next", "rollout"))
        body.append([words, *(f"{x:.2e}" for x in numbers)])
    n = rows[0]["item"]["n"] if rows else 0
    return ["## Splitting accuracy and the quality of operators (Table 3)", "",
            "Plain U-Nets for heat (beta = 0.2) and dispersion (gamma = 0.5), one each, composed "
            f"by Strang splitting; mean NRMSE over {n} test fields.", "",
            *table(head, body), *origin("splitting", rows)]  # fmt: skip


def mixed(folder: Path) -> list[str]:
    rows = read_rows("mixed", folder)
    head = ["training", "operators", "direct, published", "beam, published", "direct", "beam",
            "pursuit", "n", "trained"]  # fmt: skip
    body = []
    for (split, size), published in PUBLISHED_MIXED.items():
        found = [pick(rows, split=split, operators=size, method=m)
                 for m in ("direct", "beam", "pursuit")]  # fmt: skip
        body.append([split, str(size), *(f"{x:.3f}" for x in published), *map(cell, found),
                     *facts(found)])  # fmt: skip
    return ["## Training on mixed physics (Table 5)", "",
            "Advection-diffusion with spectral operators, tested on c and D in [0.01, 2].", "",
            *table(head, body), *origin("mixed", rows)]  # fmt: skip


def facts(found: list[Row | None]) -> list[str]:
    """Trajectories and training of a row of a table."""
    one = next((r for r in found if r), None)
    if one is None:
        return ["", ""]
    minutes = one.get("core_minutes")
    spent = f", {minutes:.1f} minutes of one core" if minutes else ""
    return [str(one["n"]), f"{one['item']['steps']} steps{spent}"]


def recipe(folder: Path) -> list[str]:
    rows = read_rows("recipe", folder)
    head = ["column", "published", "published, without", "beam", "beam, without", "pursuit",
            "pursuit, without", "n", "trained"]  # fmt: skip
    body = []
    for column, published in PUBLISHED_RECIPE.items():
        with_, without = ("codebook", "in-context") if column == "NS" else ("in-context", "plain")
        found = [pick(rows, column=column, recipe=r, method=m)
                 for m in ("beam", "pursuit") for r in (with_, without)]  # fmt: skip
        body.append([column, *(f"{x:.3f}" for x in published), *map(cell, found), *facts(found)])
    return ["## The recipe of the training (Table 6)", "",
            "*Without*: no in-context pairs (A+D, c, D), no codebook (NS). Spectral operators, "
            "equal steps. Trainings of a minute and a few trajectories do not tell the recipes "
            "apart; the default settings of the command take more of both.",
            "", *table(head, body), *origin("recipe", rows)]  # fmt: skip


def sweeps(folder: Path) -> list[str]:
    rows = read_rows("unets", folder)
    lines = ["## Dictionary size, window length and trials with U-Nets (Tables 7 and 8)", "",
             "Advection + diffusion with the bundled U-Nets; the same for spectral operators on 32 "
             "trajectories: [the search, measured](search.md#sensitivity).", ""]  # fmt: skip
    body = []
    for axis, published in PUBLISHED_SWEEP.items():
        for at, value in published.items():
            found = [pick(rows, axis=axis, at=at, method=m) for m in ("beam", "pursuit")]
            n = next((str(r["n"]) for r in found if r), "")
            body.append([f"{axis} = {at}", f"{value:.3f}", *map(cell, found), n])
    lines += table(["setting", "beam, published", "beam", "pursuit", "n"], body)
    trials = [r for r in rows if r["item"]["axis"] == "trials"]
    if trials:
        lines += ["", *table(["trials of uniform search", "fit", "forecast", "n"], (
            [str(r["item"]["at"]), f"{r['fit_error']:.4f}", cell(r), str(r["n"])]
            for r in trials))]  # fmt: skip
    return lines + origin("unets", rows)


def wallclock(folder: Path) -> list[str]:
    rows = read_rows("wallclock", folder)
    columns = ("A+D", "c", "D")

    def timed(row: Row | None) -> str:
        return NOT if row is None else f"{cell(row)}, {row['seconds']:.2f} s"

    body = []
    for steps in (100, 500, 2000):
        body.append(
            [f"GEPS, {steps} steps, published", *(PUBLISHED_GEPS[steps, c] for c in columns)]
        )
    body.append(["beam, published", *(PUBLISHED_BEAM[c] for c in columns)])
    for steps in (100, 500, 2000):
        found = [pick(rows, column=c, method="geps", steps=steps) for c in columns]
        body.append([f"GEPS, {steps} steps", *map(timed, found)])
    for family in ("spectral", "unet"):
        for method in ("beam", "pursuit"):
            found = [pick(rows, column=c, method=method, family=family) for c in columns]
            body.append([f"{method}, {family}", *map(timed, found)])
    n = rows[-1]["n"] if rows else 0
    minutes = next((r["core_minutes"] for r in rows if r["item"]["method"] == "geps"), 0.0)
    return ["## Seconds per trajectory beside adaptation by gradient (Table 9)", "",
            "Published times are those of an A100, ours the seconds that one core worked. "
            f"Trajectories per cell: {n}, enough for seconds, not for errors: see the [main table]"
            "(method.md) and the [table of baselines](baselines.md). GEPS was trained for "
            f"{minutes:.1f} minutes of one core, hence its errors.",
            "", *table(["method", *columns], body), *origin("wallclock", rows)]  # fmt: skip


def sizes(folder: Path) -> list[str]:
    """The grids of the paper beside those of the main table."""
    rows = read_rows("sizes", folder)
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for r in rows:
        points = " x ".join(map(str, r["item"]["points"]))
        groups.setdefault((r["item"]["column"], points, r["item"]["method"]), []).append(r)
    body = []
    for (column, points, method), group in groups.items():
        found = summary([r["nrmse"] for r in group])
        misses = [f"{name} {error(sum(r['coefficient_mae'][name] for r in group) / len(group))}"
                  for name in group[0]["coefficient_mae"]]  # fmt: skip
        seconds = sum(r["seconds"] for r in group) / len(group)
        small = next((r for r in records() if (r["column"], r["method"], r["family"] or "")
                      == (column, method, "spectral" if misses else "")), None)  # fmt: skip
        body.append([column, points, method, cell(found), str(found["n"]), ", ".join(misses),
                     f"{seconds:.1f}",
                     f"{cell(small)}, {small['n']}" if small else NOT])  # fmt: skip
    head = ["column", "points", "method", "NRMSE", "n", "coefficient errors", "s",
            "small grid, n"]  # fmt: skip
    return ["## Gray-Scott and Navier-Stokes on the grids of the paper", "",
            "The bundled spectral models, which were trained on 64 x 64 and 128 x 128 points; the "
            "last column is the main table, with those points. Seconds are those that one core "
            "worked. Pursuit chooses its substeps, as it does by default; beam takes two, for fast "
            "flows cross many of the finer cells from frame to frame. The published beam has 0.089 "
            "(GS) and 0.066 (NS).", "",
            *table(head, body), *origin("sizes", rows)]  # fmt: skip


def resolution(folder: Path) -> list[str]:
    """How well the frames of the main table are resolved."""
    rows = sorted(read_rows("resolution", folder), key=lambda r: r["nu"])
    body = [[f"{r['nu']:.1e}", error(r["nrmse"])] for r in rows]
    return ["## How well the Navier-Stokes frames are resolved", "",
            "The frames of the main table are simulated on 256 x 256 points, of which products "
            "keep two thirds of the modes, and stored on 128 x 128. At low viscosity this is "
            "coarse: the frames to predict differ from those of a simulation on 384 x 384 points "
            "as follows. A forecast below these errors follows the solver of the data more closely "
            "than the equation. Pursuit does so, for it compares ways to go on by the observed "
            "frames alone: more points or twice as many with dealiased products, whichever "
            "explains them better. The rule was chosen on windows of seed 7.", "",
            *table(["nu", "NRMSE of the frames to predict"], body),
            *origin("resolution", rows)]  # fmt: skip


def faithful(folder: Path) -> list[str]:
    """The paper's networks and recipe after the minutes that they had, beside published."""
    rows = read_rows("faithful", folder)
    lines = ["## The paper's own networks", "",
             "Plain U-Nets without additions, by the paper's recipe, with a smaller encoder, after "
             "the minutes of one core beside them. All searches take one substep. Pursuit is ours; "
             "the published rows are of a GPU and 100,000 steps or more. The clock decided how "
             "many trajectories a row has.", ""]  # fmt: skip
    body = []
    newest = {r["item"]["physics"]: r["item"]["mark"] for r in rows}
    for physics, mark in newest.items():
        mine = [r for r in rows if r["item"]["mark"] == mark]
        training = mine[-1]["training"]
        words = f"{training['minutes']:.0f} minutes, {training['steps']:,} steps"
        for column in dict.fromkeys(r["item"]["column"] for r in mine):
            for method in ("direct", "uniform", "beam", "pursuit"):
                errors = [r["nrmse"] for r in mine if (r["item"]["column"], r["item"]["method"])
                          == (column, method)]  # fmt: skip
                if errors:
                    found = summary(errors)
                    published = COLUMNS[physics][column].published.get(method)
                    body.append([column, method, f"{published:.3f}" if published else "",
                                 cell(found), str(found["n"]), words])  # fmt: skip
    lines += table(["column", "method", "published", "NRMSE", "n", "training"], body)
    return lines + origin("faithful", rows)


def fresh(folder: Path) -> list[str]:
    """Pursuit on trajectories that no setting was chosen on."""
    runner, body, last = Runner(ROWS, FRESH), [], None
    for physics, named in COLUMNS.items():
        for name, column in named.items():
            found = runner.record(Cell(physics, name, "pursuit", "spectral", MANY), True)
            usual = next((r for r in records() if (r["column"], r["method"], r["family"])
                          == (name, "pursuit", "spectral")), None)  # fmt: skip
            last, published = found or last, column.published["beam"]
            body.append([name, f"{published:.3f}",
                         *(f"{cell(r)}, {r['n']}" if r else NOT for r in (usual, found)),
                         f"{found['nrmse'] / published:.2g}" if found else NOT])  # fmt: skip
    head = ["column", "beam, published", "main table, n", f"seed {FRESH}, n", "over published"]
    made = "" if last is None else f" Commit {last['commit']}, {last['hardware']}."
    return ["## A seed that no choice has seen", "",
            "Pursuit with the bundled spectral models and the search of now, measured once, with a "
            "seed that was drawn at random. The main table has seed 0, on which some early choices "
            "were made, and some of its rows are of older searches.", "",
            *table(head, body), "",
            f"`opsplit benchmark --method pursuit --family spectral --seed {FRESH} --n 32 --cache "
            f"benchmarks/rows --out runs/fresh`; the cells say how many.{made}"]  # fmt: skip
