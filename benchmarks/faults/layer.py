"""A file layer that stops inside a chosen write and says so, for a kill to fall there.

It stands in for `opsplit._files.atomic` and for the file that measured rows are appended to, and
must be imported before the modules that use them. The plan comes from the environment, so that
worker processes follow it too:

    {"log": file, "write": number, "stage": "begin" | "half" | "end", "release": file}

Every write adds a line to the log. The chosen one adds `inside PID NAME STAGE` and waits until it
is killed or the file `release` is there.
"""

from __future__ import annotations

import builtins
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opsplit import _files

PLAN = "OPSPLIT_FAULT_PLAN"
STAGES = ("begin", "half", "end")
LONGEST = 300.0
"""Seconds after which a write that nobody kills goes on."""

_atomic = _files.atomic


def note(line: str) -> int:
    """Add a line to the log; the number of lines before it."""
    log = json.loads(os.environ[PLAN])["log"]
    handle = os.open(log, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        before = os.pread(handle, 10_000_000, 0).count(b"write ")
        os.write(handle, f"{line}\n".encode("utf-8", "replace"))
    finally:
        os.close(handle)
    return before


def chosen(path: Path) -> str:
    """At which stage this write is to stop; an empty word if it is not the one."""
    if PLAN not in os.environ:
        return ""
    plan = json.loads(os.environ[PLAN])
    return str(plan["stage"]) if note(f"write {path.name}") == plan["write"] else ""


def stop(path: Path, stage: str) -> None:
    """Say where we are and wait."""
    note(f"inside {os.getpid()} {path.name} {stage}")
    until = time.monotonic() + LONGEST
    release = Path(json.loads(os.environ[PLAN])["release"])
    while not release.exists() and time.monotonic() < until:
        time.sleep(0.005)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    stage = chosen(path)
    with _atomic(path) as partial:
        if stage == "begin":
            stop(path, stage)
        yield partial
        if stage == "half":
            content = partial.read_bytes()
            partial.write_bytes(content[: len(content) // 2])
            stop(path, stage)
            partial.write_bytes(content)
        if stage == "end":
            stop(path, stage)


class Appended:
    """A file whose chosen write stops in the middle."""

    def __init__(self, stream: Any, path: Path) -> None:
        self.stream, self.path = stream, path

    def write(self, content: bytes) -> int:
        stage = chosen(self.path)
        middle = {"": 0, "begin": 0, "half": len(content) // 2, "end": len(content)}[stage]
        self.stream.write(content[:middle])
        if stage:
            stop(self.path, stage)
        return middle + int(self.stream.write(content[middle:]))

    def __enter__(self) -> Appended:
        return self

    def __exit__(self, *reason: object) -> None:
        self.stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def open_rows(path: Path, mode: str, **more: Any) -> Appended:
    return Appended(builtins.open(path, mode, **more), path)


def answer_calls(connection: Any, workers: int) -> None:
    """What a worker of a pool does; it imports this module first, and so writes by it."""
    from opsplit.parallel import pool

    pool.answer_calls(connection, workers)


_files.atomic = atomic
