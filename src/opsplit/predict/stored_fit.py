"""What the file of a saved splitter may say: every number has a range, as in all settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from opsplit._text import lines, printable
from opsplit.dictionary import OperatorDictionary
from opsplit.search import Composition, SearchResult, Strategy
from opsplit.search.result import Cost
from opsplit.settings import AtMost, Between, Printable, Settings
from opsplit.splitting import MOST_SUBSTEPS, Scheme

LARGEST = 1.7e308
Finite = Annotated[float, Between(-LARGEST, LARGEST)]
Positive = Annotated[float, Between(1e-300, 1e300)]
Error = Annotated[float, Between(0.0, LARGEST)] | None
"""JSON has no infinity: the error of what diverges is null."""
Spent = Annotated[int, Between(0, LARGEST)]
Axes = Annotated[tuple[int, ...], AtMost(3), Between(0, 2)]
Substeps = Annotated[int, Between(1, MOST_SUBSTEPS)]
MOST_PARTS = 1000


@dataclass(frozen=True)
class StoredUnits(Settings):
    """The units in which the result was found."""

    length: Positive
    time: Positive
    amplitude: Positive
    mean: Annotated[tuple[float, ...], AtMost(1000), Between(-LARGEST, LARGEST)] = ()


@dataclass(frozen=True)
class StoredChanges(Settings):
    """How the points of the data differ from those that were fitted."""

    repeated: Axes = ()
    turned: Axes = ()


@dataclass(frozen=True)
class StoredComposition(Settings):
    """A composition, by the positions of its operators in the dictionary."""

    operators: Annotated[tuple[int, ...], AtMost(MOST_PARTS), Between(0, LARGEST)]
    strengths: Annotated[tuple[float, ...], AtMost(MOST_PARTS), Between(0.0, LARGEST)]
    fit_error: Error
    coefficients: Mapping[str, Finite]
    label: str
    free_run_error: Error = None

    def found(self) -> Composition:
        """The composition itself."""
        error = math.inf if self.fit_error is None else self.fit_error
        return Composition(
            self.operators, self.strengths, error, dict(self.coefficients),
            printable(self.label), self.free_run_error,
        )  # fmt: skip


@dataclass(frozen=True)
class StoredCost(Settings):
    """What the search spent."""

    flows: Spent
    evaluations: Spent
    seconds: Annotated[float, Between(0.0, LARGEST)]
    flops: Spent = 0


@dataclass(frozen=True)
class StoredResult(Settings):
    """The result of a search, as `SearchResult.to_dict` gives it, with a few facts more."""

    strategy: Annotated[str, Printable()]
    pick: StoredComposition
    ranked: tuple[StoredComposition, ...]
    finalists: tuple[StoredComposition, ...]
    status: str
    cost: StoredCost
    spread: Mapping[str, Error]
    evaluation_flops: Spent
    alike: Annotated[tuple[tuple[str, str], ...], AtMost(1000)] = ()
    remark: str = ""
    identified: Any = None

    def check(self) -> None:
        for pair in self.alike:
            Printable().check(pair, "alike")

    def found(self, operators: OperatorDictionary) -> SearchResult:
        """The result itself."""
        pick = self.pick.found()

        def each(stored: tuple[StoredComposition, ...]) -> tuple[Composition, ...]:
            found = [one.found() for one in stored]
            # The pick is known by identity.
            return tuple(pick if one == pick else one for one in found)

        spent = self.cost
        return SearchResult(
            self.strategy, pick, each(self.ranked), each(self.finalists),
            printable(self.status),
            Cost(spent.flows, spent.evaluations, spent.seconds, self.evaluation_flops),
            {name: math.inf if v is None else v for name, v in self.spread.items()},
            operators, self.alike, lines(self.remark),
        )  # fmt: skip


@dataclass(frozen=True)
class StoredParameters(Settings):
    """Arguments of the splitter."""

    model: str | None
    search: Mapping[str, Any]
    family: str | None = None
    scheme: Scheme = "strang"
    refinement: Substeps | Literal["auto"] = "auto"
    window: Annotated[int, Between(2, LARGEST)] | None = 16
    denoise: bool | None = None
    device: str = "cpu"
    memory_mb: Annotated[float, Between(0.0, LARGEST)] = 4096.0

    def arguments(self, where: str) -> dict[str, Any]:
        """The arguments by name, with the search itself."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**given, "search": Strategy.from_json(dict(self.search), f"{where}: search")}


@dataclass(frozen=True)
class StoredFit(Settings):
    """The file as a whole, without its format and what is only a name."""

    parameters: StoredParameters
    model: tuple[str, str | None] | None
    refinement: Substeps
    units: StoredUnits
    result: StoredResult
    understood: str
    equation: str
    intervals: Mapping[str, tuple[Finite, Finite]]
    notes: tuple[str, ...]
    given: bool
    changes: StoredChanges = StoredChanges()
