"""Search strategies, by name."""

from __future__ import annotations

from typing import Protocol

from opsplit.errors import OpsplitError
from opsplit.search.beam import Beam
from opsplit.search.objective import Objective
from opsplit.search.result import Composition, Cost, SearchResult
from opsplit.search.uniform import Uniform


class Search(Protocol):
    """Anything that looks for the composition with the smallest fitting error."""

    @property
    def name(self) -> str: ...

    def run(self, objective: Objective) -> SearchResult: ...


SEARCHES: dict[str, type[Beam] | type[Uniform]] = {"beam": Beam, "uniform": Uniform}


def get_search(search: str | Search) -> Search:
    """A strategy from its name, with the paper's settings, or the strategy itself."""
    if not isinstance(search, str):
        return search
    if search not in SEARCHES:
        raise OpsplitError(f"Unknown search {search!r}; choose from {sorted(SEARCHES)}.")
    return SEARCHES[search]()


__all__ = [
    "SEARCHES",
    "Beam",
    "Composition",
    "Cost",
    "Objective",
    "Search",
    "SearchResult",
    "Uniform",
    "get_search",
]
