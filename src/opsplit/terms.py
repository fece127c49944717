"""What is known about the terms of an equation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from opsplit.settings import Between, Printable, Settings


@dataclass(frozen=True)
class Term(Settings):
    """The right-hand-side term that a coefficient multiplies.

    A coefficient of order `p` and degree `q` scales with the units of length and of the field as
    `length**p / field**(q - 1)`.

    Arguments:
        text: the term as it is printed, such as `-u_x`.
        order: its space derivatives (None: unknown, or several).
        degree: its power of the field (None: unknown, or several).
        signed: whether its coefficient may have either sign, as that of a directed term may.
    """

    text: Annotated[str, Printable()]
    order: Annotated[int, Between(-4, 16)] | None = None
    degree: Annotated[int, Between(0, 16)] | None = None
    signed: bool = False
