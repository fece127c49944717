"""What a fit takes: frames, their copies, the search and the forecast share one limit.

Bytes are counted before there are arrays. What Python and its libraries take is not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opsplit.errors import OpsplitError

MB = 2**20
LARGE = 50_000
"""Frames with more numbers than this are screened first."""
PREPARED = 16
"""Bytes of every number of the frames while noise is taken out: twice in double precision."""
PIECE = 170
"""Bytes of every number of the few frames that are worked on at once."""
SINGLE = 4
"""Bytes of every number of the frames as operators see them."""
OPERATOR = 16
"""Bytes of every operator and number of a frame, while it is made for a grid."""
PURSUED = 32
"""The same while a search looks at the rates on a frame."""
SEARCH = 2.5
"""What a search takes, over the sizes that it counts: pieces are joined, and freed memory is not
given back at once."""
FORECAST = 56
"""Bytes of every number of a forecast, as operators give it and as it is returned with a band."""


@dataclass(frozen=True)
class Load:
    """The frames of a fit.

    Arguments:
        numbers: of all frames, continued beyond walls.
        frame: numbers of one of them.
        stored: bytes of one number as it was read.
        beside: bytes of what was read and is not among them.
    """

    numbers: int
    frame: int
    stored: int = 8
    beside: int = 0

    @property
    def preparing_mb(self) -> float:
        """While they are made ready for the operators."""
        from opsplit._tensors import AT_ONCE

        piece = min(self.numbers, max(AT_ONCE, self.frame))
        return (self.numbers * (self.stored + PREPARED) + piece * PIECE + self.beside) / MB

    @property
    def held_mb(self) -> float:
        """From then on."""
        return (self.numbers * (self.stored + SINGLE) + self.beside) / MB

    def check(self, limit_mb: float, operators: int) -> None:
        """Refuse frames that cannot be made ready within the limit."""
        if self.preparing_mb > limit_mb:
            search = self.held_mb + SEARCH * PURSUED * operators * self.frame / MB
            # Of large frames a coarser grid may do: what the search needs is known later.
            large = self.frame > LARGE
            refuse_memory(
                f"{self.numbers // self.frame} frames of {self.frame} numbers",
                self.preparing_mb if large else max(self.preparing_mb, search),
                limit_mb,
                least="at least " if large else "",
            )

    def check_forecast(self, frames: int, runs: int, limit_mb: float) -> None:
        """Refuse so many runs of so many frames that do not fit beside those that were observed."""
        needed = self.held_mb + FORECAST * runs * frames * self.frame / MB
        if needed > limit_mb:
            refuse_memory(f"A forecast of {frames} frames", needed, limit_mb, "frames")


def check_operators(count: int, frame: int, limit_mb: float, held_mb: float) -> None:
    """Refuse operators that cannot be made for a grid with so many numbers beside the frames."""
    if held_mb + SEARCH * OPERATOR * count * frame / MB > limit_mb:
        needed = held_mb + SEARCH * PURSUED * count * frame / MB
        refuse_memory(f"{count} operators on fields of {frame} numbers", needed, limit_mb)


def refuse_memory(
    what: str,
    needed_mb: float,
    limit_mb: float,
    fewer: str = "points or operators",
    least: str = "",
) -> None:
    raise OpsplitError(
        f"{what} need {least}{needed_mb:.0f} MB, the limit is {limit_mb:.0f} MB; add --memory-mb "
        f"{math.ceil(needed_mb)} (in Python memory_mb), or give fewer {fewer}."
    )
