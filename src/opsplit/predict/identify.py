"""Write the identified coefficients as an equation."""

from __future__ import annotations

from collections.abc import Mapping


def equation(
    coefficients: Mapping[str, float],
    terms: Mapping[str, str],
    intervals: Mapping[str, tuple[float, float]] | None = None,
) -> str:
    """A right-hand side from coefficients and the terms they multiply.

    `equation({"c": 0.5, "D": 0.3}, {"c": "-u_x", "D": "u_xx"})` is `u_t = -0.5 u_x + 0.3 u_xx`;
    with intervals the half width of each follows its coefficient, `(0.5 ± 0.01)`.
    """
    words = ""
    for name, value in coefficients.items():
        term = terms.get(name, name)
        negative = term.startswith("-")
        signed = -value if negative else value
        sign = "-" if signed < 0 else "+"
        number = f"{abs(signed):.4g}"
        if intervals and name in intervals:
            low, high = intervals[name]
            number = f"({number} ± {(high - low) / 2:.1g})"
        words += f" {sign} {number} {term.lstrip('-')}"
    if not words:
        return "u_t = (no coefficients known)"
    return "u_t = " + (words[3:] if words.startswith(" +") else "-" + words[3:])
