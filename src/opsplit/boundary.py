"""Words for what happens at the two ends of an axis."""

from __future__ import annotations

import math
from typing import NamedTuple

from opsplit.errors import OpsplitError

PERIODIC, DIRICHLET, NEUMANN, OPEN = "periodic", "dirichlet", "neumann", "open"
SYNONYMS = {
    PERIODIC: ("cyclic", "circular", "wrap"),
    DIRICHLET: (
        "zero", "fixed", "fixed-value", "clamped", "absorbing", "isothermal", "no-slip", "noslip",
    ),
    NEUMANN: (
        "reflect", "reflecting", "reflective", "insulated", "insulating", "adiabatic",
        "zero-flux", "no-flux", "zero-gradient", "symmetric", "mirror", "impermeable", "wall",
    ),
    OPEN: ("outflow", "unknown"),
}  # fmt: skip
"""Other words for the four kinds of ends."""
KINDS = {word: kind for kind, words in SYNONYMS.items() for word in (kind, *words)}


class Side(NamedTuple):
    """One end of an axis."""

    kind: str
    """`"periodic"`, `"dirichlet"`, `"neumann"`, or `"open"`: nothing is known about it."""
    value: float = 0.0
    """The fixed value of a Dirichlet end."""

    def __str__(self) -> str:
        return f"{self.kind}={self.value:.17g}" if self.value else self.kind


def sides(word: str) -> tuple[Side, Side]:
    """The left and the right end of an axis: `"neumann"`, `"dirichlet=300"`, `"fixed:insulated"`.

    One word stands for both ends; a colon stands between two. A Dirichlet end is at zero, or at
    the value after `=`.
    """
    ends = [_side(part, word) for part in word.split(":")]
    if len(ends) > 2:
        raise OpsplitError(f"An axis has two ends, the boundary {word!r:.60} names {len(ends)}.")
    left, right = ends[0], ends[-1]
    if (left.kind == PERIODIC) != (right.kind == PERIODIC):
        raise OpsplitError(f"The boundary {word!r:.60} is periodic at one end only.")
    return left, right


def normal(word: str) -> str:
    """The boundary of an axis in the words of this package; synonyms are understood."""
    left, right = sides(word)
    return str(left) if left == right else f"{left}:{right}"


def rounded(word: str) -> str:
    """A boundary for people: five digits of every value.

    Examples:
        >>> from opsplit.boundary import rounded
        >>> rounded("dirichlet=20.00003907:neumann")
        'dirichlet=20:neumann'
    """
    ends = [f"{kind}={value:.5g}" if value else kind for kind, value in sides(word)]
    return ":".join(dict.fromkeys(ends))


def is_boundary(word: str) -> bool:
    """Whether a word says what the ends of an axis are."""
    try:
        sides(word)
    except OpsplitError:
        return False
    return True


def _side(text: str, whole: str) -> Side:
    name, _, number = text.partition("=")
    kind = KINDS.get(name.strip().lower().replace("_", "-").replace(" ", "-"))
    if kind is None:
        raise OpsplitError(
            f"Unknown boundary {whole!r:.60}; choose periodic, dirichlet (or dirichlet=300), "
            "neumann or open, with a colon between different ends."
        )
    if not number:
        return Side(kind)
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if kind != DIRICHLET or not math.isfinite(value):
        raise OpsplitError(
            f"The boundary {whole!r:.60}: only a fixed end has a value, a finite number such as "
            "dirichlet=300."
        )
    return Side(kind, value)
