"""Files as other groups write them, dropped without a word: verdict, forecast, coefficients."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from blind import _error
from kept import Kept, keep, number, read_kept, table
from pens import Pen
from scenarios import road_words
from shelf import KNOWN
from stray import UNKNOWN

from opsplit import OperatorSplitter
from opsplit.errors import OpsplitError, no_warnings

ORDER = 46
N = 1
GOOD, CLOSE = 0.8, 0.05
"""An honest *explained* has a skill of at least so much on the frames that follow, and
coefficients with at most this relative error."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="", help="parts of the names of films")


def run(args: argparse.Namespace) -> None:
    kept = read_kept(args.out, args.part)
    held = {row["film"]: row for row in kept["rows"]} if kept else {}
    before = kept["command"] if kept else ""
    for i, (name, pen) in enumerate([*KNOWN.items(), *UNKNOWN.items()]):
        if not any(part in name for part in args.only.split(",")):
            continue
        rng = np.random.default_rng([args.seed, i])
        row = {"film": name, "known": name in KNOWN, **measured(pen, rng)}
        # What was measured first stays beside what was measured after a change.
        earlier = held.get(name, row)
        held[name] = {**row, "first": earlier.get("first", _first(earlier))}
        print(name, {k: v for k, v in held[name].items() if k != "film"}, flush=True)
        keep(args, list(held.values()), before)


def measured(pen: Pen, rng: np.random.Generator) -> dict[str, Any]:
    """One film, read from its file and forecast."""
    with tempfile.TemporaryDirectory() as folder:
        told = pen(Path(folder) / "film", rng)
        splitter, cpu = OperatorSplitter(), time.process_time()
        try:
            with no_warnings():
                splitter.fit(told.path, **told.more)
                cpu = time.process_time() - cpu
                made = _frames(splitter.predict(len(told.future)))
        except OpsplitError as reason:
            return {"verdict": "refused", "words": str(reason), "true": dict(told.true)}
    found = road_words({k: v for k, v in splitter.coefficients_.items() if v})
    future, last = told.future, told.seen[-1]
    made = made.reshape(future.shape) if made.size == future.size else np.full(future.shape, np.nan)
    error, still = (float(np.linalg.norm(v - future)) for v in (made, last))
    skill = 1 - error / still
    return {
        "verdict": splitter.status_, "true": dict(told.true), "found": found,
        "coefficient_error": _error(told.true, found),
        "error": error / float(np.linalg.norm(future)),
        "copying": still / float(np.linalg.norm(future)),
        "skill": skill if np.isfinite(skill) else -1e9,
        "left": splitter.verdict_.unexplained, "judged": splitter.verdict_.skill,
        "intervals": len(splitter.coefficient_intervals_), "cpu_seconds": cpu,
        "notes": [str(issue.code) for issue in splitter.issues_],
    }  # fmt: skip


def _first(row: dict[str, Any]) -> dict[str, Any]:
    return {k: row.get(k) for k in ("verdict", "error", "coefficient_error")}


def _frames(made: Any) -> np.ndarray:
    """Frames first, whatever the file was."""
    data = made.data if hasattr(made, "data") else made
    found = np.asarray(data)
    return found[0] if found.ndim > 3 and found.shape[0] == 1 else found


def section(kept: Kept) -> list[str]:
    body = []
    for r in kept["rows"]:
        refused = r["verdict"] == "refused"
        off = r.get("coefficient_error")
        body.append([
            r["film"], "yes" if r["known"] else "no", r["first"]["verdict"], r["verdict"],
            "" if refused else number(r["copying"]), "" if refused else number(r["error"], 2),
            "" if off is None else f"{100 * off:.2g} %",
            "" if refused else number(r["cpu_seconds"], 2),
        ])  # fmt: skip
    return [
        "## Files of other groups",
        TEXT,
        table(("file", "terms known", "first", "verdict", "copying", "ours",
               "largest coefficient error", "CPU seconds"), body),
        _summary(kept["rows"]),
    ]  # fmt: skip


TEXT = f"""Twenty files of systems that the dictionary can say and eight of systems that it cannot,
in the conventions of published data sets, with solvers written for this table. Nothing but the file
is given (and, for plain arrays, the time step and the box): 16 frames, and the 16 that follow.
*First* is the verdict of the first run, before anything was changed. The first run had a rule for
substeps that missed the bistable fronts; the rule before and the one of now find them. Two rows
(heat) compared the axes in another order at first. A wrong *explained* has a skill below {GOOD} or
a coefficient more than {CLOSE:.0%} off."""


def _summary(rows: list[dict[str, Any]]) -> str:
    known = [r for r in rows if r["known"]]
    said = [r for r in rows if r["verdict"] == "explained"]
    right = [r for r in said if r["known"]]
    wrong = [r["film"] for r in said if r["skill"] < GOOD or (r["coefficient_error"] or 0) > CLOSE]
    other = [r["film"] for r in known if r["verdict"] != "explained"]
    told = [r["film"] for r in said if not r["known"]]
    but = f", not {', '.join(other)}" if other else ""
    return "\n".join([
        f"- explained: {len(right)} of {len(known)}{but}",
        f"- wrongly explained: {', '.join(wrong) or 'none'}",
        f"- explained without its terms: {', '.join(told) or 'none'}",
    ])  # fmt: skip
