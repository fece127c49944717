"""Honest failures: data that no composition of the bundled operators can explain."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from kept import Kept, keep, number, table
from scenarios import OBSERVED

from opsplit import OperatorSplitter
from opsplit.errors import no_warnings

ORDER = 50
N = 1
POINTS, LENGTH, DT = 128, 10.0, 0.1


def run(args: argparse.Namespace) -> None:
    rows = []
    for i in range(args.n):
        rng = np.random.default_rng(args.seed + i)
        for name, make in CASES.items():
            rows.append(judged(name, make(rng)))
            print(rows[-1], flush=True)
    keep(args, rows)


def judged(name: str, u: np.ndarray) -> dict[str, Any]:
    """The verdict on 16 frames."""
    splitter = OperatorSplitter()
    with no_warnings():
        splitter.fit(u, DT, LENGTH)
    return {
        "case": name,
        "verdict": splitter.status_,
        "unexplained": splitter.verdict_.unexplained,
        "skill": splitter.verdict_.skill,
        "intervals": len(splitter.coefficient_intervals_),
        "equation": splitter.equation_,
    }


def standing_wave(rng: np.random.Generator) -> np.ndarray:
    """`u_tt = u_xx` from rest: the velocity that it needs is not in the frames."""
    x, t = _axes()
    k = 2 * np.pi * np.arange(1, 6) / LENGTH
    weight, phase = rng.standard_normal(5), rng.uniform(0, 2 * np.pi, 5)
    waves = np.cos(np.multiply.outer(t, k))[:, None] * np.sin(np.multiply.outer(x, k) + phase)
    return (weight * waves).sum(-1)


def delayed(rng: np.random.Generator) -> np.ndarray:
    """`u_t(t) = -6 u(t - 0.3)` at every point, by small steps, from random histories."""
    steps, lag = 20, 60
    h = DT / steps
    x, _ = _axes()
    fields = [_smooth(rng, x) for _ in range(2)]
    past = [fields[0] * np.cos(0.1 * i) + fields[1] * np.sin(0.1 * i) for i in range(lag + 1)]
    for _ in range(4 * OBSERVED * steps):
        past.append(past[-1] - 6 * h * past[-1 - lag])
    return np.stack(past[-OBSERVED * steps :: steps])


def noise(rng: np.random.Generator) -> np.ndarray:
    """Frames that have nothing to do with each other."""
    return rng.standard_normal((OBSERVED, POINTS))


def movie(rng: np.random.Generator) -> np.ndarray:
    """A pattern that jumps and changes its brightness: cuts of a film."""
    x, _ = _axes()
    scenes = [_smooth(rng, x) for _ in range(4)]
    place = rng.integers(0, POINTS, OBSERVED)
    return np.stack([
        rng.uniform(0.5, 1.5) * np.roll(scenes[i % 4], place[i]) for i in range(OBSERVED)
    ])  # fmt: skip


CASES = {
    "wave equation (second order in time)": standing_wave,
    "a delay": delayed,
    "pure noise": noise,
    "a movie of something else": movie,
}


def _axes() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(POINTS) * LENGTH / POINTS, np.arange(OBSERVED) * DT


def _smooth(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    k = 2 * np.pi * np.arange(1, 6) / LENGTH
    waves = np.sin(np.multiply.outer(x, k) + rng.uniform(0, 2 * np.pi, 5))
    found: np.ndarray = (rng.standard_normal(5) * waves).sum(-1)
    return found


def section(kept: Kept) -> list[str]:
    body = (
        [
            row["case"], row["verdict"], number(row["unexplained"], 2), number(row["skill"], 2),
            str(row["intervals"]),
        ]
        for row in kept["rows"]
    )  # fmt: skip
    wrong = [row["case"] for row in kept["rows"] if row["verdict"] != "unexplained"]
    said = f"Not recognised: {', '.join(dict.fromkeys(wrong))}." if wrong else "All are recognised."
    return [
        "## Honest failures",
        "Data of which no right-hand side exists. The right answer is *unexplained*, without an "
        "interval. *Skill* is one minus the error over that of copying the first frame.",
        table(("data", "verdict", "unexplained share", "skill", "intervals"), body),
        said,
    ]
