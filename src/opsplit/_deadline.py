"""A limit of time that everything inside a block shares, reading of files included."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from opsplit.errors import OpsplitError

_deadline: ContextVar[float] = ContextVar("opsplit-deadline", default=math.inf)


@contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Everything inside shares so much time: each search gets what those before it left."""
    until = math.inf if seconds is None else time.perf_counter() + seconds
    token = _deadline.set(min(until, _deadline.get()))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left() -> float:
    """Seconds of the enclosing `within`; infinite outside of any."""
    return max(0.0, _deadline.get() - time.perf_counter())


def time_is_up() -> bool:
    """Whether the time of the enclosing `within` is over."""
    return time.perf_counter() >= _deadline.get()


def check_time(what: object, done: str = "read") -> None:
    """Raise if the time is over before something is read, or whatever else was to be done."""
    if time_is_up():
        raise OpsplitError(
            f"max_seconds was over before {what} was {done}; allow more seconds, or read less of "
            "it."
        )
