"""A process of its own that takes inputs, one JSON line each, and says how each of them ended.

A damaged file may crash a C library, hang, or ask for all memory: here that ends this process.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import opsplit
from opsplit import cli
from opsplit.errors import OpsplitError
from opsplit.io import load_trajectories, read_well
from opsplit.model import Model
from opsplit.trajectories import Trajectories

ROOM = 2_000_000_000
"""Bytes beyond those of the imports."""


def read(path: str, **flags: Any) -> None:
    """All that a user does with a file: open it, look at it, load it."""
    recording = opsplit.read(path, **flags)
    repr(recording)
    recording.frames(0, slice(0, 2))
    repr(recording.load())


def command(arguments: list[str]) -> None:
    """A command line; what it must do if it fails is what the package says of itself."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main(arguments)
    except SystemExit as end:
        said = err.getvalue()
        # 3: the fit explains nothing, and says so.
        if end.code not in (0, None, 2, 3) or "Traceback" in said:
            raise RuntimeError(f"exit code {end.code}: {said[-500:]}") from None
        if end.code == 2:
            if not said.strip():
                raise RuntimeError("exit code 2 without a word") from None
            raise OpsplitError(f"opsplit: {' '.join(said.split())}") from None


JOBS: dict[str, Callable[..., Any]] = {
    "read": read,
    "well": lambda path: read_well([path]),
    "stored": lambda path: repr(load_trajectories(path)),
    "trajectories": lambda path: repr(Trajectories.load(path)),
    "model": lambda path: Model.load(path),
    "command": command,
}


def attempt(job: str, given: Any, flags: dict[str, Any]) -> tuple[str, str]:
    try:
        JOBS[job](given, **flags)
    except OpsplitError as reason:
        words = str(reason)
        named = job == "command" or Path(given).name in words
        if job != "command" and (not named or "\n" in words or len(words) > 3000):
            return "failed", f"not one sentence that names the file: {words!r}"
        return "refused", words
    except BaseException:
        return "failed", traceback.format_exc()[-3000:]
    return "accepted", ""


def main() -> None:
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    # Once through everything that is imported late, before memory is counted.
    for line in sys.stdin:
        task = json.loads(line)
        if task["job"] == "limit":
            (kilobytes,) = (
                row.split()[1]
                for row in Path("/proc/self/status").read_text().splitlines()
                if row.startswith("VmSize")
            )
            size = int(kilobytes) * 1024 + ROOM
            resource.setrlimit(resource.RLIMIT_AS, (size, size))
            outcome = ("accepted", "")
            began = time.process_time()
        else:
            began = time.process_time()
            outcome = attempt(task["job"], task["given"], task["flags"])
        spent = time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answers.write(json.dumps([*outcome, spent, peak]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
