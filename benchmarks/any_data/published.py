"""Data shaped as other groups publish them: boxes, steps, dtypes and repeated end points."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from kept import Kept, keep, missed, number, table
from scenarios import OBSERVED, PREDICTED, Scenario, largest_error, road_words, simulate, told

import opsplit
from opsplit.errors import no_warnings

ORDER = 45
N = 1
ORDER4 = {"order": 4}
SETS = {
    "Burgers on [-1, 1], end point repeated (PINN papers)": Scenario(
        "Burgers", "Burgers", {"diffusivity": 0.01 / np.pi * 4, **ORDER4},
        {"a": 1.0, "D": 0.04 / np.pi}, extent=2.0, points=256, dt=0.01, settle=5),
    "KdV on [-1, 1], complex numbers (PINN papers)": Scenario(
        "KdV", "KortewegDeVries",
        {"convection_scale": 1.0, "dispersivity": 0.0025, "hyper_diffusivity": 0.0, **ORDER4},
        {"a": 1.0, "delta": 0.0025}, extent=2.0, points=256, dt=0.005, substeps=400),
    "Kuramoto-Sivashinsky on [0, 32 pi], `(x, t)` (PDE-FIND)": Scenario(
        "KS", "KuramotoSivashinskyConservative", ORDER4,
        {"a": 1.0, "D": -1.0, "kappa": 1.0}, extent=32 * np.pi, points=512, dt=0.4, settle=200),
    "Allen-Cahn on [-1, 1], r = 5 (PINN papers)": Scenario(
        "Allen-Cahn", "reaction.AllenCahn",
        {"diffusivity": 0.002, "first_order_coefficient": 5.0, "third_order_coefficient": -5.0,
         **ORDER4},
        {"r": 5.0, "q": -5.0, "D": 0.002}, extent=2.0, points=256, dt=0.005, settle=10),
}  # fmt: skip


def run(args: argparse.Namespace) -> None:
    rows = []
    for name, scenario in SETS.items():
        for i in range(args.n):
            rows.append(measured(name, scenario, args.seed + i))
            print(rows[-1], flush=True)
            keep(args, rows)


def measured(name: str, scenario: Scenario, seed: int) -> dict[str, Any]:
    """Write a MATLAB file in the group's convention, read it, forecast."""
    from scipy.io import savemat

    u = simulate(scenario, seed)[:, 0]
    x = np.arange(scenario.points) * scenario.extent / scenario.points
    x = x - 1 if scenario.extent == 2.0 else x
    seen, points = u[:OBSERVED], x
    if "end point" in name:
        seen, points = np.concatenate([seen, seen[:, :1]], 1), np.append(x, 1.0)
    if "complex" in name:
        seen = seen + 0j
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.mat"
        savemat(path, {"usol": seen.T, "x": points[:, None],
                       "t": scenario.dt * np.arange(OBSERVED)[:, None]})  # fmt: skip
        began, cpu = time.perf_counter(), time.process_time()
        splitter = opsplit.OperatorSplitter()
        with no_warnings():
            splitter.fit(path)
    made = np.asarray(splitter.predict(PREDICTED))[:, 0, : scenario.points]
    future = u[OBSERVED:]
    found = road_words({k: v for k, v in splitter.coefficients_.items() if v})
    size = np.linalg.norm(future)
    return {
        "data": name, "true": dict(scenario.true), "found": found,
        "coefficient_error": largest_error(scenario.true, found), "verdict": splitter.status_,
        "error": float(np.linalg.norm(made - future) / size),
        "copying": float(np.linalg.norm(u[OBSERVED - 1] - future) / size),
        "seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu,
        "cores": os.cpu_count(),
    }  # fmt: skip


def section(kept: Kept) -> list[str]:
    def listed(values: dict[str, float]) -> str:
        return ", ".join(f"{k} {v:.4g}" for k, v in values.items())

    rows = [told(row) for row in kept["rows"]]
    body = (
        [
            row["data"], row["verdict"], number(row["copying"]), number(row["error"], 2),
            listed(row["true"]), listed(row["found"]), f"{100 * row['coefficient_error']:.2g} %",
            number(row["cpu_seconds"], 2),
        ]
        for row in rows
    )  # fmt: skip
    return [
        "## Data in the conventions of other groups",
        "Made by exponax with the boxes, steps and conventions of published data sets, not the "
        "data sets themselves. Each is a MATLAB file with `usol`, `x` and `t`; 16 frames are "
        "observed and 34 predicted, with default settings.",
        table(
            ("data", "verdict", "copying", "ours", "true", "found", "largest error", "CPU seconds"),
            body,
        ),
        "\n".join([
            missed("explained", (r["data"] for r in rows if r["verdict"] != "explained")),
            missed("every coefficient within 2 %", (
                r["data"] for r in rows if r["coefficient_error"] > 0.02)),
            missed("error at most a twentieth of copying", (
                r["data"] for r in rows if 20 * r["error"] > r["copying"])),
            missed("at most 5 s of computing", (r["data"] for r in rows if r["cpu_seconds"] > 5)),
        ]),
    ]  # fmt: skip
