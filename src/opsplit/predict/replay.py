"""A search that is over: its result, and the units in which it was found."""

from __future__ import annotations

from typing import Self

from opsplit.errors import OpsplitError
from opsplit.predict.units import Units
from opsplit.search import SearchResult, Strategy
from opsplit.search.objective import Objective
from opsplit.search.strategy import Record, Report


class Replay(Strategy):
    """Gives the stored result of another strategy, in the units of that result."""

    result: SearchResult
    units: Units
    before: Strategy

    @classmethod
    def of(cls, before: Strategy, result: SearchResult, units: Units) -> Self:
        """The replay of a strategy."""
        made = cls()
        for name, value in {"before": before, "result": result, "units": units}.items():
            object.__setattr__(made, name, value)
        return made

    @property
    def name(self) -> str:
        return self.before.name

    @property
    def fits_strengths(self) -> bool:
        return self.before.fits_strengths

    def explore(self, objective: Objective, records: list[Record], report: Report) -> None:
        raise OpsplitError("A stored search cannot be run again.")

    def run(self, objective: Objective, report: Report | None = None) -> SearchResult:
        return self.result
