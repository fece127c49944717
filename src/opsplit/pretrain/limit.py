"""How long work may last; work that was left out is remembered."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Limit:
    """A moment at which work must end.

    Arguments:
        seconds: from now on (default: no end).
        now: what counts as time.
    """

    def __init__(
        self, seconds: float = math.inf, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.now, self.end, self.seconds = now, now() + seconds, seconds
        self.hit = False
        """Whether anything was left out."""

    def left(self) -> float:
        """Seconds until the end."""
        return self.end - self.now()

    def used(self) -> float:
        """The share of the time that has passed; zero if there is no end."""
        return 1 - self.left() / self.seconds if 0 < self.seconds < math.inf else 0.0

    def over(self) -> bool:
        """Whether the end has come; whoever asks leaves the rest of the work out then."""
        if self.left() > 0:
            return False
        self.hit = True
        return True

    def part(self, share: float) -> Limit:
        """An earlier end: after this share of the time that is left."""
        return Limit(share * self.left() if self.end < math.inf else math.inf, self.now)
