"""Trajectories to fit, and the command that fits them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from opsplit import get_physics

PHYSICS = "advection-diffusion"
STEPS = 34


def write_files(place: Path, n: int, per_file: int = 8) -> Path:
    """`n` trajectories of unseen compositions in files of a few each."""
    physics, folder = get_physics(PHYSICS), place / "data"
    for number, begin in enumerate(range(0, n, per_file)):
        count = min(per_file, n - begin)
        physics.generate("A+D", count, 900 + number).save(folder / f"r{number:04d}.npz")
    return folder


def command(data: Path, out: Path, *flags: str) -> list[str]:
    return [
        sys.executable, "-m", "opsplit", "predict", str(data), "--out", str(out), "--model",
        PHYSICS, "--steps", str(STEPS), "--json", *flags,
    ]  # fmt: skip


def start(data: Path, out: Path, *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(data, out, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def finish(running: subprocess.Popen[str], seconds: float = 900.0) -> tuple[int, str]:
    """The exit code and what was said about errors."""
    _, said = running.communicate(timeout=seconds)
    return running.returncode, said


def rows(out: Path) -> list[dict]:
    """The rows of a run in the order of the items, without their times."""
    file = out / "rows.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return sorted(({**row, "seconds": 0} for row in found), key=lambda row: row["item"])


def forecasts(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "forecasts").iterdir())}
