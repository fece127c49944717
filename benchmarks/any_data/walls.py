"""Between walls: rods, a plate and two species with fixed or insulated ends."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from kept import Kept, keep, missed, number, table

from opsplit import OperatorSplitter
from opsplit.errors import OpsplitError, no_warnings
from opsplit.grid import Grid
from opsplit.physics import GrayScott

ORDER = 40
N = 8
"""Systems per case."""
OBSERVED, HORIZON = 16, 16
DIFFUSIVITY, DT, POINTS = 0.1, 0.004, 64
NOISE = 0.01
Made = tuple[np.ndarray, dict[str, float]]
"""Frames `(time, ...)` and the true coefficients."""


@dataclass(frozen=True)
class Case:
    """One kind of walls."""

    name: str
    boundary: str
    """What the frames must be recognised as, axis by axis with commas."""
    make: Callable[[np.random.Generator], Made]
    extent: tuple[float, ...]
    dt: float = DT
    noise: float = 0.0
    scalar: bool = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="advection-diffusion", help="for the scalar cases")


def points(layout: str) -> np.ndarray:
    every = np.linspace(0, 1, POINTS + 1)
    return {"nodes": every, "cells": (every[1:] + every[:-1]) / 2, "inside": every[1:-1]}[layout]


def series(kind: str, x: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """The exact solution of the heat equation on [0, 1]: eight modes of random sizes."""
    times = DT * np.arange(OBSERVED + HORIZON)
    total = np.zeros((len(times), len(x)))
    for n in range(1, 9):
        k = np.pi * (n - 0.5 if ":" in kind else n)
        wave = np.sin if kind.startswith("dirichlet") else np.cos
        decay = np.exp(-DIFFUSIVITY * k**2 * times)[:, None]
        total += draw.normal() / n * wave(k * x) * decay
    return total


def rod(kind: str, layout: str) -> Callable[[np.random.Generator], Made]:
    return lambda draw: (series(kind, points(layout), draw), {"D": DIFFUSIVITY})


def hot_and_cold(draw: np.random.Generator) -> Made:
    x = points("nodes")
    return 300 + 200 * x + 50 * series("dirichlet", x, draw), {"D": DIFFUSIVITY}


def plate(draw: np.random.Generator) -> Made:
    """Fixed at zero along x, insulated along y."""
    x = points("nodes")[::2]
    times = DT * np.arange(OBSERVED + HORIZON)
    total = np.zeros((len(times), len(x), len(x)))
    for n in range(1, 4):
        for m in range(4):
            decay = np.exp(-DIFFUSIVITY * np.pi**2 * (n * n + m * m) * times)
            wave = np.sin(np.pi * n * x)[:, None] * np.cos(np.pi * m * x)
            total += draw.normal() / (n + m) * decay[:, None, None] * wave
    return total, {"D": DIFFUSIVITY}


def species(draw: np.random.Generator) -> Made:
    """Two species in an insulated box: a quarter of an even field on a box of twice the length."""
    half = GrayScott(grid=Grid((32, 32), (0.5, 0.5)))
    seed = int(draw.integers(2**31))
    generator = torch.Generator().manual_seed(seed)
    quarter = half.initial_fields(1, generator)
    even = torch.cat([quarter, quarter.flip(2)], 2)
    even = torch.cat([even, even.flip(3)], 3)
    whole = GrayScott(grid=Grid((64, 64), (1.0, 1.0)))
    known = whole.sample_coefficients("GS", 1, generator)
    # The seam of the reflected fields is smoothed before frames are taken.
    times = torch.arange(OBSERVED + HORIZON, dtype=torch.float64) + 20
    frames = whole.solve(even, known, times)[0, :, :, :32, :32]
    return frames.numpy(), {name: float(v[0]) for name, v in known.items()}


def cases() -> list[Case]:
    out = [
        Case(f"rod, {kind}, points {where}", kind, rod(kind, layout), (1.0,))
        for kind in ("dirichlet", "neumann", "dirichlet:neumann")
        for layout, where in (("nodes", "on the walls"), ("cells", "half a cell away"))
    ]
    line = (1.0,)
    return [
        *out,
        Case("rod, dirichlet, points inside only", "dirichlet", rod("dirichlet", "inside"), line),
        Case("rod, dirichlet, 1 % noise", "dirichlet", rod("dirichlet", "nodes"), line, DT, NOISE),
        Case("rod from 300 to 500", "dirichlet=300:dirichlet=500", hot_and_cold, line),
        Case("plate, fixed along x, insulated along y", "dirichlet,neumann", plate, (1.0, 1.0)),
        Case("two species, insulated box", "neumann,neumann", species, (0.5, 0.5), 1.0, 0.0, False),
    ]  # fmt: skip


def run(args: argparse.Namespace) -> None:
    rows = [
        measure(case, number, args.seed, args.model)
        for case in cases()
        for number in range(args.n if case.scalar else min(args.n, 4))
    ]
    keep(args, rows, model=args.model)


def measure(case: Case, number: int, seed: int, model: str) -> dict[str, Any]:
    """One system: nothing is said about its walls."""
    draw = np.random.default_rng([seed, number, len(case.name)])
    u, true = case.make(draw)
    noise = case.noise * u.std() * draw.normal(size=u.shape)
    observed, future = (u + noise)[:OBSERVED], u[OBSERVED:]
    began = time.perf_counter()
    row: dict[str, Any] = {"case": case.name, "number": number, "true": true}
    chosen = model if case.scalar else "gray-scott"
    try:
        with no_warnings():
            found = OperatorSplitter(chosen).fit(observed, case.dt, case.extent)
            forecast = np.asarray(found.predict(HORIZON)).reshape(future.shape)
    except OpsplitError as reason:
        return row | {"failed": str(reason)}
    size = np.linalg.norm(future)
    return row | {
        "recognised": ",".join(found.observed_.grid.boundary) == case.boundary,
        "boundary": list(found.observed_.grid.boundary),
        "coefficients": found.coefficients_,
        "error": float(np.linalg.norm(forecast - future) / size),
        "copying": float(np.linalg.norm(u[OBSERVED - 1] - future) / size),
        "verdict": found.status_,
        "seconds": time.perf_counter() - began,
    }


def section(kept: Kept) -> list[str]:
    body = []
    for case in dict.fromkeys(row["case"] for row in kept["rows"]):
        rows = [row for row in kept["rows"] if row["case"] == case]
        done = [row for row in rows if "failed" not in row]
        recognised = sum(row["recognised"] for row in done)
        off = {
            name: max(abs(r["coefficients"].get(name, 0.0) / r["true"][name] - 1) for r in done)
            for name in rows[0]["true"]
            if done
        }
        body.append([
            case, f"{recognised} of {len(rows)}",
            ", ".join(f"{name} {100 * x:.2g} %" for name, x in off.items()),
            number(_median([r["error"] for r in done])),
            number(max((r["error"] for r in done), default=None)),
            number(_median([r["copying"] for r in done])),
            number(_median([r["seconds"] for r in done]), 2),
        ])  # fmt: skip
    head = ["walls", "recognised", "worst coefficient error", "error", "worst", "copying", "s"]
    return [
        "## Walls",
        f"Arrays between walls, of which nothing is said: {OBSERVED} frames observed, {HORIZON} "
        "predicted, exact series as the truth (two species: a quarter of an even field on a "
        "periodic box). *Recognised*: the kind of both ends of every axis, and their values. "
        "Errors are relative, medians over systems; lower is better. Scalar cases: "
        f"`{kept['model']}`, two species: `gray-scott`.",
        table(head, body),
        missed("recognised", (
            f"{row['case']} ({row['number']})" for row in kept["rows"] if not row.get("recognised")
        )),
    ]  # fmt: skip


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
