"""Searches for the composition of operators that explains observed frames."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opsplit.search.registry import SEARCHES, get_search, search_names

if TYPE_CHECKING:
    from opsplit.search.beam import Beam as Beam
    from opsplit.search.objective import Objective as Objective
    from opsplit.search.pursuit import Pursuit as Pursuit
    from opsplit.search.result import Composition as Composition
    from opsplit.search.result import Cost as Cost
    from opsplit.search.result import SearchResult as SearchResult
    from opsplit.search.strategy import Strategy as Strategy
    from opsplit.search.uniform import Uniform as Uniform

# These import torch, so they wait until they are used.
_HOME = {
    "Beam": "opsplit.search.beam",
    "Composition": "opsplit.search.result",
    "Cost": "opsplit.search.result",
    "Objective": "opsplit.search.objective",
    "Pursuit": "opsplit.search.pursuit",
    "SearchResult": "opsplit.search.result",
    "Strategy": "opsplit.search.strategy",
    "Uniform": "opsplit.search.uniform",
}

__all__ = ["SEARCHES", "get_search", "search_names", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'opsplit.search' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
