"""Write the identified coefficients as an equation."""

from __future__ import annotations

import re
from collections.abc import Mapping

from opsplit.predict.equations import Equation

LEADING = re.compile(r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?)(?:/([1-9]\d*))?(?: (.+))?")
"""A term with a number or a fraction in front of it, or a number alone."""


def equation(
    coefficients: Mapping[str, float],
    terms: Mapping[str, str],
    intervals: Mapping[str, tuple[float, float]] | None = None,
) -> Equation:
    """A right-hand side from coefficients and the terms they multiply.

    `equation({"c": 0.5, "D": 0.3}, {"c": "-u_x", "D": "u_xx"})` is `u_t = -0.5 u_x + 0.3 u_xx`;
    with intervals the half width of each follows its coefficient, `(0.5 ± 0.01)`. A coefficient
    without a known term multiplies a function of its name, `f_r(u)`. Terms that do not act are left
    out.
    """
    words = ""
    acting = {name: value for name, value in coefficients.items() if value != 0}
    for name, value in (acting or coefficients).items():
        factor, term = _parts(terms.get(name, f"f_{name}(u)"))
        signed = factor * value
        sign = "-" if signed < 0 else "+"
        number = f"{abs(signed):.4g}"
        if intervals and name in intervals:
            low, high = intervals[name]
            number = f"({number} ± {abs(factor) * (high - low) / 2:.1g})"
        words += f" {sign} {number} {term}".rstrip()
    if not words:
        return Equation("u_t = (no coefficients known)")
    return Equation("u_t = " + (words[3:] if words.startswith(" +") else "-" + words[3:]))


def _parts(text: str) -> tuple[float, str]:
    """The factor in front of a term, and the term; a sum stands in brackets."""
    depth, several = 0, False
    for i, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        several |= depth == 0 and i > 0 and text[i : i + 3] in (" + ", " - ")
    if several:
        return 1.0, f"({text})"
    sign, rest = (-1.0, text[1:]) if text.startswith("-") else (1.0, text)
    found = LEADING.fullmatch(rest)
    if not found:
        return sign, rest
    return sign * float(found[1]) / int(found[2] or 1), found[3] or ""
