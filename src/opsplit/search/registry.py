"""The searches, by name. Nothing here imports torch, so the command line can list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opsplit.errors import OpsplitError
from opsplit.registry import Registry

if TYPE_CHECKING:
    from opsplit.search.strategy import Strategy

SEARCHES: Registry[type[Strategy]] = Registry(
    "search",
    "opsplit.searches",
    {
        "pursuit": "opsplit.search.pursuit:Pursuit",
        "beam": "opsplit.search.beam:Beam",
        "uniform": "opsplit.search.uniform:Uniform",
    },
)


def search_names() -> tuple[str, ...]:
    """The names of all searches, those of installed packages included."""
    return tuple(SEARCHES)


def get_search(search: str | Strategy) -> Strategy:
    """A strategy from its name, with its default settings, or the strategy itself."""
    if not (isinstance(search, str) or hasattr(search, "explore")):
        raise OpsplitError(
            f"search must be a name ({', '.join(SEARCHES)}) or a Strategy, got {search!r:.60}."
        )
    return SEARCHES[search]() if isinstance(search, str) else search
