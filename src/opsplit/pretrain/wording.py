"""Learned terms in words: the printed form of what a mechanism was found to be."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from opsplit.operators.spectral.filters import added_to, order_of, parts_of
from opsplit.operators.spectral.products import parse
from opsplit.terms import Term

NEAR = 2e-3
"""Numbers this close to a round one are printed as the round one."""


def learned_term(
    weights: Mapping[tuple[str, bool], np.ndarray], channels: Sequence[str], ndim: int,
    scale: float = 1.0,
) -> Term:  # fmt: skip
    """The term of a coefficient from its weights per unit of the coefficient.

    Arguments:
        weights: for every term (text, whether it is linear) one number per channel, in the units
            of the data.
        channels: their names.
        scale: fields were divided by this number before denominators were formed.
    """
    lines = []
    for c, channel in enumerate(channels):
        words = ""
        for (text, linear), values in weights.items():
            value = float(values[c])
            if value:
                what = _linear(text, channel) if linear else _product(text, channels, scale)
                words += _signed(value, what)
        lines.append(words[3:] if words.startswith(" + ") else words.replace(" - ", "-", 1))
    orders = {order_of(t) if linear else parse(t).order for t, linear in weights}
    degrees = {1 if linear else _degree(t) for t, linear in weights}
    whole = len(orders) == 1 and float(next(iter(orders))).is_integer()
    order = int(orders.pop()) if whole else None
    if ndim == 1:
        lines = [_on_a_line(line) for line in lines]
    text = lines[0] if len(lines) == 1 else f"({', '.join(line or '0' for line in lines)})"
    return Term(
        (text or "0")[:200],
        order,
        degrees.pop() if len(degrees) == 1 else None,
        signed=order is not None and order % 2 == 1,
    )


def _degree(text: str) -> int | None:
    """The power of the field that a product is; None if a denominator adds a number to it."""
    term = parse(text)
    whole = term.degree >= 0 and not any(added_to(name) for _, name in term.factors)
    return term.degree if whole else None


def _on_a_line(words: str) -> str:
    """On one axis the Laplacian is the second derivative."""
    for power, axes in (("^3", "xxxxxx"), ("^2", "xxxx"), ("", "xx")):
        words = re.sub(rf"lap{re.escape(power)} (\([^()]*\)|\w+)", rf"\1_{axes}", words)
    return words.replace("_x_xx", "_xxx")


def _signed(value: float, what: str) -> str:
    sign, size = ("-", -value) if value < 0 else ("+", value)
    number = _round(size)
    if number == "1" and what:
        return f" {sign} {what}"
    return f" {sign} {number} {what}".rstrip()


def _round(size: float) -> str:
    """A number in a few digits; a nearly round one is round, a nearly third or sixth one too."""
    for digits in (1, 2):
        short = float(f"{size:.{digits}g}")
        if math.isclose(short, size, rel_tol=NEAR):
            return f"{short:g}"
    for parts in (3, 6):
        whole = round(size * parts)
        if 0 < whole < 10 and math.isclose(whole / parts, size, rel_tol=NEAR):
            return f"{whole}/{parts}"
    short = float(f"{size:.3g}")
    return f"{short:g}" if math.isclose(short, size, rel_tol=NEAR) else f"{size:.4g}"


def _linear(text: str, channel: str) -> str:
    return _derivative(text, channel)


def _derivative(name: str, what: str) -> str:
    axes, before = "", ""
    for part in parts_of(name):
        if part[1]:
            axes += part[1]
        elif part[2]:
            before += "lap" + (f"^{part[3]}" if part[3] else "") + " "
        elif part[4]:
            before += f"|k|{'^' + part[5] if part[5] else ''} "
        elif part[7]:
            before += "|k|^(1/2) "
        else:
            axes += part[6]
            before += "lap^-1 "
    whole = f"({what})" if name and (" " in what or "^" in what) else what
    return before + (f"{whole}_{axes}" if axes else whole)


def _product(text: str, channels: Sequence[str], scale: float) -> str:
    term = parse(text)
    counts: dict[str, int] = {}
    below = ""
    for channel, name in term.factors:
        if (added := added_to(name)) is not None:
            bottom = f"({_round(added * scale)} + {channels[channel]})"
            below += f" / {bottom if added else channels[channel]}"
            continue
        factor = _derivative(name, channels[channel])
        counts[factor] = counts.get(factor, 0) + 1
    what = " ".join(f if n == 1 else f"{f}^{n}" for f, n in counts.items())
    what = f"{what or '1'}{below}" if below else what
    return _derivative(term.outer, what)
