"""Learned terms in words: the printed form of what a mechanism was found to be."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np

from opsplit.operators.spectral.filters import (
    UNIT,
    added_to,
    has_length,
    order_of,
    parts_of,
    power_below,
)
from opsplit.operators.spectral.products import parse
from opsplit.terms import Term

NEAR = 2e-3
"""Numbers this close to a round one are printed as the round one."""


def learned_term(
    weights: Mapping[tuple[str, bool], np.ndarray], channels: Sequence[str], ndim: int,
    scale: float = 1.0, wavenumber: float = 1.0,
) -> Term:  # fmt: skip
    """The term of a coefficient from its weights per unit of the coefficient.

    Arguments:
        weights: for every term (text, whether it is linear) one number per channel, in the units
            of the data.
        channels: their names.
        scale: fields were divided by this number before denominators were formed.
        wavenumber: wavenumbers were divided by this number before filters were formed.
    """
    lines = []
    for c, channel in enumerate(channels):
        words = ""
        for (text, linear), values in weights.items():
            value = float(values[c])
            if value:
                what = (
                    _derivative(text, channel, wavenumber) if linear
                    else _product(text, channels, scale, wavenumber)
                )  # fmt: skip
                words += _signed(value, what)
        lines.append(words[3:] if words.startswith(" + ") else words.replace(" - ", "-", 1))
    orders = {order_of(t) if linear else parse(t).order for t, linear in weights}
    degrees = {1 if linear else _degree(t) for t, linear in weights}
    scaled = any(map(_has_length, weights))
    whole = len(orders) == 1 and float(next(iter(orders))).is_integer() and not scaled
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


def _has_length(key: tuple[str, bool]) -> bool:
    text, linear = key
    term = parse(text) if not linear else None
    names = (text,) if term is None else (*(name for _, name in term.factors), term.outer)
    return any(map(has_length, names))


def _degree(text: str) -> int | None:
    """The power of the field that a product is; None if a denominator adds a number to it."""
    term = parse(text)
    whole = term.degree >= 0 and not any(added_to(name) for _, name in term.factors)
    return term.degree if whole else None


def _on_a_line(words: str) -> str:
    """On one axis the Laplacian is the second derivative."""
    for power, axes in (("^3", "xxxxxx"), ("^2", "xxxx"), ("", "xx")):
        words = re.sub(rf"lap{re.escape(power)} (\([^()]*\)|\w+)", rf"\1_{axes}", words)
    words = words.replace("lap^2)^-1", "d_xxxx)^-1").replace("lap)^-1", "d_xx)^-1")
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


def _derivative(name: str, what: str, wavenumber: float) -> str:
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
        elif part[10] == "bell":
            width = _round(UNIT * int(part[11]) / wavenumber**2)
            before += f"exp({width} lap) ".replace("(1 lap", "(lap")
        elif part[10]:
            power = 2 if part[10] == "bihelm" else 1
            inverted = "+ {} lap^2" if power == 2 else "- {} lap"
            length = UNIT * int(part[11]) / wavenumber ** (2 * power)
            before += f"(1 {inverted.format(_round(length))})^-1 ".replace(" 1 lap", " lap")
        else:
            axes += part[6]
            before += "lap^-1 "
    whole = f"({what})" if name and (" " in what or "^" in what) else what
    return before + (f"{whole}_{axes}" if axes else whole)


def _product(text: str, channels: Sequence[str], scale: float, wavenumber: float) -> str:
    term = parse(text)
    counts: dict[str, int] = {}
    below = ""
    for channel, name in term.factors:
        if (added := added_to(name)) is not None:
            power = power_below(name)
            bottom = channels[channel] + (f"^{power}" if power > 1 else "")
            below += f" / ({_round(added * scale**power)} + {bottom})" if added else f" / {bottom}"
            continue
        factor = _derivative(name, channels[channel], wavenumber)
        counts[factor] = counts.get(factor, 0) + 1
    what = " ".join(f if n == 1 else f"{f}^{n}" for f, n in counts.items())
    what = f"{what or '1'}{below}" if below else what
    return _derivative(term.outer, what, wavenumber)
