"""How much of a budget is used, over all the times that a run was started."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from lightning_fabric import Fabric

from opsplit.pretrain.config import Budget


class Clock:
    """Steps and seconds against their budgets.

    Arguments:
        before: seconds that earlier parts of the run took.
        now: what counts as time: seconds that pass (default), or that processors work.
    """

    def __init__(
        self,
        budget: Budget,
        fabric: Fabric,
        before: float = 0.0,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.budget, self.fabric, self.before = budget, fabric, before
        self.now = now or time.monotonic
        self.began, self.saved = self.now(), time.monotonic()

    def seconds(self) -> float:
        """Training time so far."""
        return self.before + self.now() - self.began

    def done(self, step: int) -> float:
        """The used share of the budget that ends first."""
        limit = self.budget.minutes * 60 if self.budget.minutes else math.inf
        # The clock of the first process decides for all, so that they stop together.
        several = self.fabric.world_size > 1
        now = self.fabric.broadcast(self.seconds()) if several else self.seconds()
        return max(step / self.budget.steps, now / limit)

    def save_is_due(self, step: int) -> bool:
        """Whether it is time for a checkpoint; if so, the seconds are counted anew."""
        now, every = time.monotonic(), self.budget.checkpoint_steps
        due = bool(every and step % every == 0)
        if due or now - self.saved > self.budget.checkpoint_seconds:
            self.saved = now
            return True
        return False
