"""The road dictionary on data of solvers that are not ours (exponax)."""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
from kept import Kept, keep, missed, number, read_kept, table
from rival import sindy
from scenarios import (
    OBSERVED,
    PREDICTED,
    Scenario,
    largest_error,
    road_words,
    scenarios,
    simulate,
    told,
)

from opsplit import OperatorSplitter
from opsplit.errors import no_warnings

ORDER = 40
N = 1
NOISE = (0.0, 0.01)
"""Standard deviation of white noise on the observed frames, over that of the frames."""
FEWER, CLOSE = 20.0, 0.02
"""Aims: the error of copying over ours, and the largest relative error of a coefficient."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", help="names of scenarios, such as 'Burgers 2-D'")
    parser.add_argument("--rival", type=int, default=2, help="PySINDy runs on so many axes")


def run(args: argparse.Namespace) -> None:
    chosen = [word.strip().lower() for word in args.only.split(",") if word.strip()]
    before = read_kept(args.out, args.part)
    known = {row["scenario"]: [] for row in before["rows"]} if before else {}
    earlier = before["command"] if before else ""
    for row in before["rows"] if before else ():
        known[row["scenario"]].append(row)
    for scenario in scenarios():
        if chosen and not any(word in scenario.title.lower() for word in chosen):
            continue
        rows = []
        for i in range(args.n):
            u = simulate(scenario, args.seed + i)
            for noise in NOISE:
                rows.append(measured(scenario, u, noise, args.seed + i, args.rival))
                print(shown(rows[-1]), flush=True)
        # What was measured stays, whenever the run is stopped.
        known[scenario.title] = rows
        order = [one.title for one in scenarios() if one.title in known]
        keep(args, [row for title in order for row in known[title]], earlier)


def measured(
    scenario: Scenario, u: np.ndarray, noise: float, seed: int, rival: int
) -> dict[str, Any]:
    """One forecast from 16 frames, ours and that of PySINDy."""
    rng = np.random.default_rng(seed)
    seen = u[:OBSERVED] + noise * u[:OBSERVED].std() * rng.standard_normal(u[:OBSERVED].shape)
    future, last = u[OBSERVED:], u[OBSERVED - 1 : OBSERVED]
    began, cpu = time.perf_counter(), time.process_time()
    splitter = OperatorSplitter()
    with no_warnings():
        splitter.fit(seen, scenario.dt, (scenario.extent,) * scenario.ndim)
    forecast = np.asarray(splitter.predict(PREDICTED))
    found = road_words({k: v for k, v in splitter.coefficients_.items() if v != 0})
    return {
        "scenario": scenario.title,
        "noise": noise,
        "true": dict(scenario.true),
        "found": found,
        "coefficient_error": largest_error(scenario.true, found),
        "error": relative(forecast, future),
        "copying": relative(last, future),
        "verdict": splitter.status_,
        "unexplained": splitter.verdict_.unexplained,
        "model": splitter.ranking_[0].model,
        "equation": splitter.equation_,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "sindy": sindy(scenario, u, seen, rival),
    }


def relative(made: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(made - true) / np.linalg.norm(true))


def shown(row: dict[str, Any]) -> str:
    return (
        f"{row['scenario']}, noise {row['noise']:g}: {row['verdict']}, error {row['error']:.2g}, "
        f"copying {row['copying']:.2g}, coefficients {row['coefficient_error']:.2g}, "
        f"{row['cpu_seconds']:.1f} s; PySINDy {row['sindy'].get('error', row['sindy'])}"
    )


def section(kept: Kept) -> list[str]:
    rows = [told(row) for row in kept["rows"]]
    text = [
        "## The road dictionary on data of another solver",
        TEXT.format(n=kept["n"], hardware=kept["hardware"]),
    ]
    there = {row["scenario"] for row in rows}
    missing = [one.title for one in scenarios() if one.title not in there]
    if missing:
        text.append(f"Not measured: {', '.join(missing)}.")
    for noise in NOISE:
        mine = [row for row in rows if row["noise"] == noise]
        if mine:
            text += [_heading(noise), table(HEAD, map(_line, mine)), _summary(mine)]
    return text


HEAD = ("scenario", "verdict", "copying", "ours", "copying / ours", "coefficients, true",
        "found", "largest error", "CPU seconds", "PySINDy", "its largest error")  # fmt: skip
TEXT = """The scenarios are those with which the dictionary and its search were developed, there
with seed 0; the initial fields of this table have the seed that stands below it.

`exponax` (ETDRK4 in JAX) makes the data, with scenarios named as in APEBench. Nothing was
trained on them: `OperatorSplitter()` observes 16 frames, tries all bundled models, and predicts
the next 34 frames; {n} trajectory per scenario. Errors are NRMSE over the predicted frames, smaller
is better. *PySINDy* has the same 16 frames, a library of all powers up to degree 3 times one
derivative up to order 4, its strong form and, on a line, its weak form, the best of several
thresholds; an empty cell diverged, failed, has no such term (a squared slope), or was not run
(`--rival`: on how many axes it runs). Coefficients: `r u`, `-c u_x`, `D lap u`,
`-delta u_xxx`, `-kappa lap^2 u`, `-a u u_x`, `s u^2`, `q u^3`, `h |grad u|^2`; an index is an
axis. exponax keeps the mean of the 2-D Kuramoto-Sivashinsky equation fixed and leaves mixed fourth
derivatives out. exponax 0.2.0 steps dispersive equations with first order only; KdV takes 1280
steps per frame."""


def _heading(noise: float) -> str:
    return "### Clean frames" if noise == 0 else f"### Frames with {noise:.0%} white noise"


def _line(row: dict[str, Any]) -> list[str]:
    rival = row["sindy"]
    known = {k: v for k, v in rival.get("coefficients", {}).items() if v is not None}
    whole = len(known) == len(row["true"]) and rival.get("error") is not None
    return [
        row["scenario"], row["verdict"], number(row["copying"]), number(row["error"], 2),
        number(row["copying"] / row["error"], 2), _listed(row["true"]), _listed(row["found"]),
        f"{100 * row['coefficient_error']:.2g} %", number(row["cpu_seconds"], 2),
        number(rival.get("error"), 2),
        f"{100 * largest_error(row['true'], known):.2g} %" if whole else "",
    ]  # fmt: skip


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{k} {v:.4g}" for k, v in values.items())


def _summary(rows: list[dict[str, Any]]) -> str:
    """Which aims were met, said plainly."""
    aims = {
        "explained": lambda r: r["verdict"] == "explained",
        "error at most a twentieth of copying": lambda r: r["copying"] >= FEWER * r["error"],
        "every coefficient within 2 %": lambda r: r["coefficient_error"] <= CLOSE,
        "at most 5 s of computing on a line, 20 s on a plane": lambda r: (
            r["cpu_seconds"] <= {"1": 5.0, "2": 20.0}.get(r["scenario"][-3], math.inf)
        ),
        "better than PySINDy, where it has a forecast": lambda r: (
            r["sindy"].get("error") is None or r["error"] < r["sindy"]["error"]
        ),
    }
    lines = []
    for words, met in aims.items():
        lines.append(missed(words, (row["scenario"] for row in rows if not met(row))))
    return "\n".join(lines)
