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
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import opsplit
from opsplit import cli
from opsplit.errors import OpsplitError
from opsplit.io import load_trajectories, read_well
from opsplit.io.helper import HELPER
from opsplit.model import Model
from opsplit.pretrain import checkpoint
from opsplit.pretrain.files import read_settings
from opsplit.pretrain.recipes import Chain
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


def splitter(path: str) -> None:
    """A saved splitter: load it, show it, forecast with it."""
    found = opsplit.OperatorSplitter.load(path)
    if not str(found).replace("\n", "").isprintable():
        raise RuntimeError("a terminal would obey its words")
    found.predict(steps=2)


CANARY = 7777.0
"""Every number of a file that damaged files try to lead us to."""


def linked(path: str, **flags: Any) -> None:
    """A file that may point into another one, whose numbers must not come back."""
    found = opsplit.read(path, **flags)
    values = [
        found.times,
        *found.coefficients.values(),
        *(found.frames(i) for i in range(len(found))),
    ]
    if any(bool((np.asarray(v) == CANARY).any()) for v in values):
        raise RuntimeError("numbers of another file came back")


def folder(path: str, several: bool = False) -> None:
    """The folder of a file, or the file twice, as the trajectories of The Well."""
    recording = opsplit.read([path, path] if several else str(Path(path).parent))
    recording.frames(0, slice(0, 2))
    repr(recording.load())


def threads(path: str, **flags: Any) -> None:
    """Four threads read the file at once and must agree on it."""
    said: list[str] = []

    def work() -> None:
        try:
            read(path, **flags)
            said.append("")
        except OpsplitError as reason:
            said.append(str(reason))
        except BaseException:
            said.append(traceback.format_exc())

    started = [threading.Thread(target=work) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if any("Traceback" in words for words in said) or len({bool(words) for words in said}) > 1:
        raise RuntimeError(f"threads do not agree: {said}")
    if said[0]:
        raise OpsplitError(said[0])


@cache
def training() -> tuple[Any, Any]:
    """A network and its optimiser, as a small training has them."""
    network = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(network.parameters())
    network(torch.ones(1, 3)).sum().backward()
    optimiser.step()
    return network, optimiser


def resume(path: str) -> None:
    network, optimiser = training()
    average = {name: p.detach().clone() for name, p in network.named_parameters()}
    checkpoint.load_state(Path(path), network, average, optimiser)
    if not all(bool(p.isfinite().all()) for p in (*network.parameters(), *average.values())):
        raise RuntimeError("the training would go on with NaN")


def write_resume(path: str) -> None:
    network, optimiser = training()
    average = {name: p.detach().clone() for name, p in network.named_parameters()}
    facts = {"step": 3, "seconds": 1.0, "running": 0.1}
    checkpoint.save_state(Path(path), network, average, optimiser, facts)


def settings(path: str) -> None:
    """A file of settings, or a recipe: both are TOML."""
    if Path(path).name == "recipe.toml":
        Chain.read(path)
    else:
        read_settings(Path(path), None, None, stored=True)


def most_megabytes() -> float:
    """Of this process and of the one that examines files for it."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if HELPER._process is not None:
        with contextlib.suppress(OSError):
            rows = Path(f"/proc/{HELPER._process.pid}/status").read_text().splitlines()
            (held,) = (int(row.split()[1]) for row in rows if row.startswith("VmHWM"))
            found = max(found, held / 1024)
    return found


JOBS: dict[str, Callable[..., Any]] = {
    "read": read,
    "linked": linked,
    "folder": folder,
    "several": partial(folder, several=True),
    "threads": threads,
    "resume": resume,
    "write resume": write_resume,
    "settings": settings,
    "well": lambda path: read_well([path]),
    "stored": lambda path: repr(load_trajectories(path)),
    "trajectories": lambda path: repr(Trajectories.load(path)),
    "model": lambda path: Model.load(path),
    "splitter": splitter,
    "command": command,
}


def attempt(job: str, given: Any, flags: dict[str, Any]) -> tuple[str, str]:
    try:
        JOBS[job](given, **flags)
    except OpsplitError as reason:
        words = str(reason)
        place = Path(given if job != "folder" else Path(given).parent) if job != "command" else None
        named = place is None or place.name in words
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
        peak = most_megabytes()
        answers.write(json.dumps([*outcome, spent, peak]) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
