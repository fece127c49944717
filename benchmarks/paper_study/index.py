"""The list of the paper's tables and figures: where ours are, by which command, in what state."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from common import RESULTS, Row, read_rows
from writing import line

from opsplit._files import read_json, write_text
from opsplit.baselines import TRAINED

BENCHMARK = "opsplit benchmark --n 128 --n-unet 24 --cache benchmarks/rows --readme README.md"
STUDY, SEARCH = "python benchmarks/paper_study", "python benchmarks/search_study"
PAPER_METHODS = ("fno", "mpp", "zebra", "geps", "disco", "direct", "uniform", "beam")
COLUMNS = {
    "Table 1": ("A+D", "NA+D", "NA+Disp", "D+Disp", "all3", "GS", "NS"),
    "Table 2": ("c", "D", "alpha", "gamma"),
}
PARTS = {
    "Table 3": ("Splitting accuracy and quality of operators", "splitting", 5),
    "Table 5": ("Training on mixed physics", "mixed", 12),
    "Table 6": ("Recipe of the training", "recipe", 16),
    "Table 9": ("Wall clock beside GEPS", "wallclock", 21),
}
SWEPT = {"Table 7": ("Size of the dictionary", "N"), "Table 8": ("Length of the window", "L")}
FIGURES = {
    "Figure 2": ("Gray-Scott: forecast, truth, two training mechanisms", "rollout-GS-1.png"),
    "Figure 3": ("Errors over advection and diffusion", "contour.png"),
    "Figure 6": ("Diffusion + dispersion, 100 frames", "rollout-D+Disp.png"),
    "Figure 7": ("Nonlinear advection + dispersion, 100 frames", "rollout-NA+Disp.png"),
    "Figure 8": ("All three, 100 frames", "rollout-all3.png"),
    "Figure 9": ("Nonlinear advection + diffusion, 100 frames", "rollout-NA+D.png"),
    "Figure 10": ("Gray-Scott, both channels and training mechanisms", "rollout-GS-1.png"),
    "Figure 11": ("Gray-Scott, first sample", "rollout-GS-1.png"),
    "Figure 12": ("Gray-Scott, second sample", "rollout-GS-2.png"),
    "Figure 13": ("Gray-Scott, third sample", "rollout-GS-3.png"),
    "Figures 14, 15": ("Navier-Stokes, nu = 1e-2, beam and direct", "rollout-NS-1.png"),
    "Figures 16, 17": ("Navier-Stokes, nu = 1e-3, beam and direct", "rollout-NS-2.png"),
}


def run(args: argparse.Namespace) -> None:
    rows = {**tables(args.out), **figures()}
    names = sorted(rows, key=lambda name: (name.startswith("F"), number(name)))
    lines = [
        "# Tables and figures of the paper",
        "",
        f"Written by `{STUDY} index`. `make results` runs all of these commands in this order; "
        "every one goes on where it was stopped. A state counts what is stored.",
        "",
        line(["paper", "content", "ours", "command", "state"]),
        "|---|---|---|---|---|",
        *(line([name, *rows[name]]) for name in names),
        "",
        "Beyond the paper: [any equation](any-equation.md), [growth, noise and intervals of the "
        "search](search.md).",
    ]
    write_text(RESULTS / "index.md", "\n".join(lines) + "\n")


def number(name: str) -> int:
    return int("".join(c for c in name.split(",")[0] if c.isdigit()))


def tables(folder: Path) -> dict[str, list[str]]:
    out = {}
    for name, columns in COLUMNS.items():
        title = "Unseen compositions" if name == "Table 1" else "Unseen ranges"
        place = title.lower().replace(" ", "-")
        out[name] = [title, f"[method.md](method.md#{place})", f"`{BENCHMARK}`", cells(columns)]
    for name, (title, part, of) in PARTS.items():
        found = read_rows(part, folder)
        where = f"[paper.md](paper.md), {title.lower()}"
        out[name] = [title, where, f"`{STUDY} {part}`", counted(found, of)]
    robust = read_lines("robustness")
    out["Table 4"] = ["A term that no operator knows",
                      "[search.md](search.md#a-term-that-no-operator-knows)",
                      f"`{SEARCH} robustness`", measured(robust, "spectral")]  # fmt: skip
    sensitive, unets = read_lines("sensitivity"), read_rows("unets", folder)
    for name, (title, axis) in SWEPT.items():
        mine = [r for r in unets if r["item"]["axis"] == axis]
        state = f"{measured(sensitive, 'spectral')}; U-Nets: {counted(mine, 8)}"
        out[name] = [title, "[search.md](search.md#sensitivity), [paper.md](paper.md)",
                     f"`{SEARCH} sensitivity`, `{STUDY} unets`", state]  # fmt: skip
    return out


def figures() -> dict[str, list[str]]:
    out = {"Figure 1": ["The method", "", "", "a drawing without numbers"]}
    folder = RESULTS / "figures"
    drawn = {}
    for shown in held(folder / "rollouts.json").get("columns", {}).values():
        drawn |= {one.get("picture"): one for one in shown}
    for name, (title, file) in FIGURES.items():
        only, state = "rollouts", "not drawn"
        if file in drawn:
            methods = ", ".join(m for m in drawn[file]["nrmse"] if m != "persistence")
            state = f"{drawn[file]['frames']} frames: {methods}"
        if file == "contour.png":
            only, map_ = "contour", held(folder / "contour.json")
            if "nrmse" in map_:
                points = len(next(iter(map_["nrmse"].values())))
                state = f"{points} x {points} points, {map_['n']} trajectories each"
            elif map_:
                state = f"{len(map_['points'])} points so far"
        link = f"[{file}](figures/{file})" if state != "not drawn" else ""
        out[name] = [title, link, f"`opsplit figures --only {only}`", state]
    scaling = read_lines("scaling")
    for name, title, file in (
        ("Figure 4", "Errors against trials of uniform search", "scaling_trials.png"),
        ("Figure 5", "Errors against FLOPs", "scaling_flops.png"),
    ):
        out[name] = [title, f"[{file}](search/{file})", f"`{SEARCH} scaling`, `{SEARCH} report`",
                     measured(scaling, "spectral")]  # fmt: skip
    return out


def held(file: Path) -> Row:
    return read_json(file) if file.exists() else {}


def read_lines(part: str) -> list[Row]:
    return read_rows(part, RESULTS / "search")


def counted(rows: list[Row], of: int) -> str:
    """How much of a table is measured, and on how many trajectories."""
    if not rows:
        return "not measured"
    n = sorted({r.get("n") or r["item"]["n"] for r in rows})
    return f"{min(len(rows), of)} of {of} cells, {' to '.join(map(str, n))} trajectories"


def measured(rows: list[Row], family: str) -> str:
    counts = sorted({r["n"] for r in rows})
    words = " to ".join(str(c) for c in counts)
    return f"{family}: {len(rows)} lines, {words} trajectories" if rows else "not measured"


def cells(columns: tuple[str, ...]) -> str:
    """Which methods of the paper have rows in all, some or none of the columns."""
    file = RESULTS / "method.json"
    records = json.loads(file.read_text()) if file.exists() else []
    full, some, none = [], [], []
    for method in PAPER_METHODS:
        found = {r["column"] for r in records if r["method"] == method}
        there = sum(c in found for c in columns)
        (full if there == len(columns) else some if there else none).append(method)
    words = [("measured", full), ("in part", some), ("not measured", none)]
    minutes = [r["training_minutes"] for r in records
               if r["method"] in TRAINED and r["column"] in columns]  # fmt: skip
    shown = [f"{word}: {', '.join(names)}" for word, names in words if names]
    if minutes:
        shown.append(f"baselines trained for {min(minutes):.0f} to {max(minutes):.0f} minutes")
    return "; ".join(shown)
