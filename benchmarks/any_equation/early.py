"""When the first usable model and the last operators are there, in seconds of one processor.

Wall time on a shared machine says how busy it was; the time that the processor worked does not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from common import ALL, TRAINING_SEED, Row, training_path
from data import store_training
from equations import training_set
from ours import _structure

FLAGS = ["--minutes", "1", "--processor-time", "--threads", "1", "--steps", "1"]
"""One minute of one thread; the encoder, which comes after the operators, makes one step."""


def work(out: Path, name: str) -> Row:
    """Train once, and read when what was there."""
    file, folder = training_path(out, name), out / name / "early"
    if not file.exists():
        store_training(out, name, *training_set(ALL[name], TRAINING_SEED))
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-m", "opsplit", "pretrain", name, "--data", str(file), *FLAGS,
         "--out", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    seconds = time.monotonic() - began
    if run.returncode:
        return {"failure": (run.stderr.strip().splitlines() or ["no message"])[-1]}
    structure = _structure(folder)
    assert structure is not None
    first = structure.get("first", {})
    return {
        "flags": FLAGS,
        "training_seconds": seconds,
        "first_seconds": first.get("processor_seconds", structure["processor_seconds"]),
        "first_worst": first.get("worst", max(m["worst"] for m in structure["mechanisms"])),
        "last_seconds": structure["processor_seconds"],
        "last_worst": max(m["worst"] for m in structure["mechanisms"]),
        "structure": structure,
    }
