"""Strangers' films: verdict against what the forecast and the coefficients turn out to be."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from impostors import IMPOSTORS
from kept import Kept, keep, number, read_kept, table
from scenarios import largest_error, road_words
from strangers import KNOWN, Plan

from opsplit import OperatorSplitter
from opsplit.errors import OpsplitError, no_warnings

ORDER = 48
N = 2
GOOD, CLOSE = 0.8, 0.1
"""An honest *explained* has a skill of at least so much on frames that it has not seen, and
coefficients with at most this relative error."""
SEEN = (
    "This seed is not blind: two of its films led to changes of the software (*still, with noise* "
    "and *dispersion* about a mean of 300 were explained wrongly), and these, with some others, "
    "were measured again afterwards."
)
TERMS = {
    "r": (0, 1), "c": (1, 1), "D": (2, 1), "delta": (3, 1), "kappa": (4, 1), "a": (1, 2),
    "b": (1, 3), "s": (0, 2), "q": (0, 3), "h": (2, 2),
}  # fmt: skip
"""Order and degree of the terms."""


def arguments(parser: argparse.ArgumentParser) -> None:
    words = "parts of the names of systems; the others keep their rows"
    parser.add_argument("--only", default="", help=words)


def run(args: argparse.Namespace) -> None:
    films = [(k, True, m) for k, m in KNOWN.items()] + [(k, False, m) for k, m in IMPOSTORS.items()]
    kept = read_kept(args.out, args.part) if args.only else None
    held: dict[tuple[str, int], dict[str, Any]] = {}
    if kept is not None and kept["seed"] == args.seed:
        held = {(row["system"], row["round"]): row for row in kept["rows"]}
    before = kept["command"] if held and kept else ""
    for i in range(args.n):
        for j, (name, said, make) in enumerate(films):
            if not any(part in name for part in args.only.split(",")):
                continue
            rng = np.random.default_rng([args.seed, i, j])
            row = {"system": name, "round": i, "known": said, **measured(make, rng)}
            held[name, i] = row
            print(name, row["verdict"], number(row.get("skill"), 3), kind(row), flush=True)
            keep(args, list(held.values()), before)


def measured(make: Any, rng: np.random.Generator) -> dict[str, Any]:
    """One film in random units, judged from its first half."""
    seen = int(rng.choice([6, 8, 16, 16, 16, 40]))
    ndim = make(Plan(4, 20, np.random.default_rng(0))).u.ndim - 1
    points = int(rng.choice([[48, 64, 128, 128, 256, 512], [32, 48, 64], [20, 24]][ndim - 1]))
    noise = float(rng.choice([0, 0, 0, 0.001, 0.01, 0.03]))
    film = make(Plan(2 * seen, points, rng))
    length, period, size = (float(10 ** rng.uniform(-6, 6)) for _ in range(3))
    mean = float(rng.choice([0, 0, 30, 300])) * film.shift
    mirror, sign = rng.random() < 0.5, float(rng.choice([1, 1, -1]))
    u = sign * film.u[:, ::-1] if mirror else sign * film.u
    u = size * (u + mean)
    size *= sign
    told = {**_told(film.true, mirror, length, period, size)}
    observed = u[:seen] + noise * u.std() * rng.standard_normal(u[:seen].shape)
    row = {"seen": seen, "points": points, "noise": noise, "mean": mean, "true": told}
    splitter = OperatorSplitter()
    cpu = time.process_time()
    try:
        with no_warnings():
            splitter.fit(observed, period * film.dt, length * film.length)
            made = np.asarray(splitter.predict(seen)).reshape(u[:seen].shape)
    except OpsplitError as reason:
        return {**row, "verdict": "refused", "words": str(reason)}
    future = u[seen : 2 * seen]
    error = float(np.linalg.norm(made - future))
    still = float(np.linalg.norm(future - u[seen - 1]))
    found = road_words({k: v for k, v in splitter.coefficients_.items() if v})
    skill = 1 - error / still if still > 0 else -np.inf
    best = splitter.ranking_[0].model if splitter.ranking_ else ""
    return {
        **row, "verdict": splitter.status_, "skill": skill if np.isfinite(skill) else -1e9,
        "coefficient_error": _error(told, found), "found": found, "model": best,
        "left": splitter.verdict_.unexplained, "judged": splitter.verdict_.skill,
        "intervals": len(splitter.coefficient_intervals_),
        "notes": [str(issue.code) for issue in splitter.issues_],
        "refinement": splitter.refinement_, "cpu": time.process_time() - cpu,
        "units": [length, period, size],
    }  # fmt: skip


def _told(
    true: Mapping[str, float], mirror: bool, length: float, period: float, size: float
) -> dict[str, float]:
    """The true coefficients in the units of the film."""
    out = {}
    for name, value in true.items():
        order, degree = TERMS[name.split("_")[0]]
        # Mirrored are the axes; only the first one of space is.
        odd = order % 2 and name[-2:] not in ("_y", "_z")
        out[name] = value * length**order / period / size ** (degree - 1) * (-1) ** (mirror and odd)
    return out


def _error(true: Mapping[str, float], found: Mapping[str, float]) -> float | None:
    """The largest relative error; isotropic coefficients stand for those of every axis."""
    if not true:
        return None
    named = dict(found)
    for name in true:
        word, _, axis = name.partition("_")
        if axis:
            # A term on all axes and one on this axis act together.
            named[name] = found.get(name, 0.0) + found.get(word, 0.0)
        elif name not in found:
            each = [v for k, v in found.items() if k.startswith(f"{name}_")]
            named[name] = float(np.mean(each)) if each else 0.0
    return largest_error(true, named)


def kind(row: Mapping[str, Any]) -> str:
    """What is to be said of a row, where something is."""
    if row["verdict"] != "explained":
        return "missed" if row["known"] and row["noise"] <= 0.01 else ""
    if row["skill"] < GOOD:
        return "wrong forecast"
    if row["known"] and (row["coefficient_error"] or 0) > CLOSE:
        return "wrong coefficients"
    return "" if row["known"] else "forecast right, term missing"


def section(kept: Kept) -> list[str]:
    rows = kept["rows"]
    counts = Counter((r["known"], r["verdict"], r.get("skill", -1) >= GOOD) for r in rows)
    body = []
    for said, words in ((True, "terms in the dictionary"), (False, "no such terms")):
        for verdict in ("explained", "partly", "unexplained", "refused"):
            good, bad = counts[said, verdict, True], counts[said, verdict, False]
            body.append((words, verdict, str(good + bad), str(good), str(bad)))
    listed = [(r, kind(r)) for r in rows]
    return [
        "## Strangers",
        "Films of solvers that are not ours, in random units, directions, grids, lengths and "
        "noise, most of them of systems that the dictionary cannot say. The first half of the "
        f"frames is observed. *Right* is a skill of at least {GOOD} on the second half. A forecast "
        "may be right although a term is missing, where others of the dictionary stand in for it.",
        *([SEEN] if kept["seed"] == 1 else []),
        table(("film", "verdict", "films", "forecast right", "wrong"), body),
        table(
            ("system", "what is wrong", "frames", "points", "noise", "skill", "coefficients"),
            (
                (r["system"], words, str(r["seen"]), str(r["points"]), number(r["noise"]),
                 number(r.get("skill"), 2), number(r.get("coefficient_error"), 2))
                for r, words in listed if words and (r["known"] or "right" not in words)
            ),
        ),
    ]  # fmt: skip
