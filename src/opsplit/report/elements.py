"""Pieces of HTML: numbers, lists, tables, drawings."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from opsplit.report.animation import Colours, data_uri

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def exact(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:.9g}" if math.isfinite(value) else ""


def number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else "–"
    return escape("" if value is None else str(value))


def bullets(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(x)}</li>' for x in lines)}</ul>" if lines else ""


def table(head: Sequence[str], rows: Iterable[Sequence[Any]], name: str) -> str:
    """A table in a box of its own that scrolls; a row marked `pick` stands out."""

    def cell(value: Any) -> str:
        kind = ' class="n"' if isinstance(value, int | float) else ""
        return f"<td{kind}>{number(value)}</td>"

    top = "".join(f'<th scope="col">{escape(h)}</th>' for h in head)
    top = f"<thead><tr>{top}</tr></thead>" if any(head) else ""
    body = "".join(
        f"<tr{' class=pick' if row[0] == 'pick' else ''}>{''.join(map(cell, row))}</tr>"
        for row in rows
    )
    made = f'<table class="{name}">{top}<tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{made}</div>'


def drawing(figure: Figure, words: str) -> str:
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=160)
    said = escape(words)
    uri = data_uri(stream.getvalue())
    return f'<figure><img src="{uri}" alt="{said}"><figcaption>{said}</figcaption></figure>'


def scale(colours: Colours) -> str:
    more = " (values beyond have the colours of the ends)" if colours.cut else ""
    return (
        f'<p class="scale">{colours.low:.4g} <img src="{colours.bar()}" alt="colours from '
        f'{colours.low:.4g} to {colours.high:.4g}"> {colours.high:.4g}{more}</p>'
    )
