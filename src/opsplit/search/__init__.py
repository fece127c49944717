"""Search strategies, by name."""

from __future__ import annotations

from opsplit.errors import OpsplitError
from opsplit.search.beam import Beam
from opsplit.search.objective import Objective
from opsplit.search.pursuit import Pursuit
from opsplit.search.result import Composition, Cost, SearchResult
from opsplit.search.strategy import Strategy
from opsplit.search.uniform import Uniform

SEARCHES: dict[str, type[Strategy]] = {"pursuit": Pursuit, "beam": Beam, "uniform": Uniform}


def get_search(search: str | Strategy) -> Strategy:
    """A strategy from its name, with its default settings, or the strategy itself."""
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
    "Pursuit",
    "SearchResult",
    "Strategy",
    "Uniform",
    "get_search",
]
