"""Flags of commands whose work is many independent items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opsplit.commands.common import Common
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.parallel import Where

YEAR = 366 * 24 * 60
"""Minutes; the clock that watches items counts no further."""


@dataclass(frozen=True)
class Spread(Common):
    """Where the items run; the result does not depend on it."""

    workers: int | None = None
    """Processes that share the work, one thread each (default: this process alone)."""
    cluster: str | None = None
    """Address of a Dask scheduler whose workers do the work, such as tcp://127.0.0.1:8786."""
    item_minutes: float = 60.0
    """With workers: an item that takes longer is tried once more and then given up."""

    def check(self) -> None:
        super().check()
        if self.workers is not None and self.cluster is not None:
            raise OpsplitError("Give --workers or --cluster, not both.")
        if self.item_minutes > YEAR:
            raise OpsplitError(f"--item-minutes must be at most a year, {YEAR} minutes.")

    def where(self, usual: int = 1) -> Where:
        """The workers that the flags describe; `usual` ones if they say nothing."""
        from opsplit.parallel import Where

        workers = self.workers or (1 if self.cluster else usual)
        return Where(workers, self.cluster, longest=60 * self.item_minutes)
