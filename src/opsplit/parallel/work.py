"""The side of the worker: what it is sent, what it does, what it answers."""

from __future__ import annotations

import faulthandler
import os
import pickle
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from opsplit._tensors import threads
from opsplit._version import __version__
from opsplit.errors import OpsplitError


@cache
def versions() -> dict[str, str]:
    """The versions that decide the numbers of a result."""
    found = {"opsplit": __version__, "Python": platform.python_version()}
    for name in ("torch", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "missing"
    return found


def check_versions(others: dict[str, str], who: str) -> None:
    """Refuse a worker whose versions are not ours."""
    different = [f"{k} {others.get(k)} instead of {v}" for k, v in versions().items()
                 if others.get(k) != v]  # fmt: skip
    if different:
        raise OpsplitError(
            f"{who} has {', '.join(different)}: install the same versions on all machines."
        )


@dataclass(frozen=True)
class Call:
    """What a worker is sent."""

    function: Callable[[Any, Any], Any]
    items: tuple[Any, ...]
    key: str
    """Of what is shared."""
    versions: dict[str, str] = field(repr=False)
    client: tuple[str, int]
    """Machine and process that asks."""
    longest: float
    threads: int | None
    shared: bytes | None = field(default=None, repr=False)
    """Pickled; None: the worker may have it already."""


@dataclass(frozen=True)
class Done:
    """What one item came to."""

    value: Any = None
    reason: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Reply:
    """What a worker answers."""

    results: tuple[Done, ...] = ()
    missing: bool = False
    """The worker does not have what is shared."""
    versions: dict[str, str] | None = None
    """The worker's, if they are not those of the client."""


_held: dict[str, Any] = {}
"""In a worker: what the items of the current run share."""


def work(call: Call) -> Reply:
    """Run items, in a worker."""
    if call.versions != versions():
        return Reply(versions=versions())
    if call.key not in _held:
        if call.shared is None:
            return Reply(missing=True)
        _held.clear()
        _held[call.key] = pickle.loads(call.shared)
    shared, results = _held[call.key], []
    # A thread of the client itself must not be ended.
    watched = nullcontext if call.client == here() else partial(_watched, call.longest)
    for item in call.items:
        with watched():
            results.append(attempt(call.function, shared, item, call.threads))
    return Reply(tuple(results))


def attempt(function: Callable[[Any, Any], Any], shared: Any, item: Any, count: int | None) -> Done:
    """What an item comes to on so many threads (None: as many as there are)."""
    begin = time.perf_counter()
    try:
        with nullcontext() if count is None else threads(count):
            value = function(shared, item)
        return Done(value, seconds=time.perf_counter() - begin)
    except (Exception, SystemExit) as reason:
        return Done(reason=words(reason), seconds=time.perf_counter() - begin)


def words(reason: BaseException) -> str:
    """A failure in one sentence."""
    if isinstance(reason, OpsplitError):
        return str(reason)
    if isinstance(reason, MemoryError) or "can't allocate memory" in str(reason):
        return "It needs more memory than its worker may take."
    said = " ".join(str(reason).split())[:300]
    return f"{type(reason).__name__}: {said}" if said else type(reason).__name__


def here() -> tuple[str, int]:
    return platform.node(), os.getpid()


@contextmanager
def _watched(longest: float) -> Iterator[None]:
    """End this process if the block takes longer; even code that never returns to Python ends."""
    try:
        stream: Any = sys.stderr
        stream.fileno()
    except (AttributeError, OSError, ValueError):
        stream = sys.__stderr__
    faulthandler.dump_traceback_later(longest, exit=True, file=stream)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
