"""How much a search may spend, and how much it spent."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from opsplit._deadline import time_is_up


class BudgetError(Exception):
    """A search reached its limit of time or evaluations; the message names the limit."""


class Meter:
    """Counts flows, evaluations and seconds, and stops a search at its limits."""

    def __init__(self) -> None:
        self.flows = 0
        """Flows of one operator on one state."""
        self.evaluations = 0
        """Evaluations of an operator's right-hand side on one state."""
        self._began = time.perf_counter()
        self._most_seconds = self._most_evaluations = math.inf

    @property
    def seconds(self) -> float:
        """Seconds since the counting began."""
        return time.perf_counter() - self._began

    def restart(self) -> None:
        """Count from zero."""
        self.flows = self.evaluations = 0
        self._began = time.perf_counter()

    @contextmanager
    def limited(self, seconds: float | None, evaluations: int | None) -> Iterator[None]:
        """Count from zero; `check` raises beyond these limits until the block ends."""
        self.restart()
        self._most_seconds = math.inf if seconds is None else seconds
        self._most_evaluations = math.inf if evaluations is None else evaluations
        try:
            yield
        finally:
            self._most_seconds = self._most_evaluations = math.inf

    def check(self) -> None:
        """Raise `BudgetError` if a limit is reached."""
        if self.evaluations >= self._most_evaluations:
            raise BudgetError(f"stopped by max_evaluations={self._most_evaluations:,}")
        if self.seconds >= self._most_seconds or time_is_up():
            raise BudgetError(f"stopped by max_seconds={self._most_seconds:g}")

    def count(self, states: int, evaluations: float) -> None:
        """One flow on so many states, each of so many evaluations on average."""
        self.flows += states
        self.evaluations += round(states * evaluations)
