"""Text from files that are not ours, made safe for terminals, spreadsheets and JSON."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that begins with one of these for a formula."""


def printable(words: str) -> str:
    """The words with a question mark for every character that a terminal might obey."""
    return "".join(c if c.isprintable() else "?" for c in words)


def lines(words: str) -> str:
    """The same of several lines, which stay lines."""
    return "\n".join(map(printable, words.split("\n")))


def plain(words: str, most: int = 600) -> str:
    """One line of printable characters of reasonable length."""
    seen = printable(words)
    return seen if len(seen) <= most else f"{seen[: most - 40]} ... {seen[-35:]}"


def safe_streams() -> None:
    """Make the standard streams of a command take any text, closed and ASCII ones too."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # A file that is opened later must not become the error stream of a C library.
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w"), "utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(words: object, stream: TextIO | None = None) -> None:
    """Print lines of printable characters."""
    print(lines(str(words)), file=stream or sys.stdout, flush=True)


def percent(share: float) -> str:
    """A share in percent with two digits, never as a power of ten where it is large.

    Examples:
        >>> from opsplit._text import percent
        >>> percent(0.9996), percent(0.01234), percent(12.0)
        ('100', '1.2', '1200')
    """
    hundredth = 100 * share
    return f"{hundredth:.0f}" if hundredth >= 99.5 else f"{hundredth:.2g}"


def in_percent(share: float) -> str:
    """An error for people who know none of our words: never a power of ten."""
    if not share < math.inf:
        return "more than any number"
    return f"{percent(share)} %" if share >= 1e-5 else "less than 0.001 %"


def cell(value: Any) -> Any:
    """A cell of a CSV file: text that looks like a formula gets an apostrophe before it."""
    if isinstance(value, str):
        seen = printable(value)
        return f"'{seen}" if seen.startswith(FORMULA) else seen
    return value


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON as its standard has it: numbers that are NaN or infinite become null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(held) for held in value]
    return value
