"""Facts of the terms that equations are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from opsplit.settings import Between, Printable, Settings


@dataclass(frozen=True)
class Term(Settings):
    """One term of a right-hand side, without its coefficient.

    Arguments:
        text: the term as it is printed: `"-u_x"`.
        order: the number of space derivatives; an inverse derivative counts as minus one.
        degree: the power of the field; none if the term is not a pure power.
        signed: whether the coefficient may have either sign. The term changes its sign if an axis
            or the field does, and is no less stable then.

    In other units of length and amplitude a coefficient is multiplied by
    `length^order / amplitude^(degree - 1)`.
    """

    text: Annotated[str, Printable()]
    order: Annotated[int, Between(-8, 8)] | None = None
    degree: Annotated[int, Between(0, 16)] | None = None
    signed: bool = False

    def __str__(self) -> str:
        return self.text
