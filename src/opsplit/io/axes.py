"""Which axis of an array is which: by name, or by a guess from the lengths."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from opsplit.errors import OpsplitError

WORDS = {"n": "trajectory", "t": "time", "c": "channel", "x": "x", "y": "y", "z": "z"}
SYNONYMS = {
    **{word: letter for letter, word in WORDS.items()},
    **dict.fromkeys(
        (
            "n",
            "trajectories",
            "sample",
            "samples",
            "batch",
            "member",
            "case",
            "run",
            "runs",
            "sim",
            "simulation",
            "simulations",
            "realization",
            "realisation",
            "trial",
            "trials",
            "experiment",
            "ensemble",
            "replicate",
        ),
        "n",
    ),
    **dict.fromkeys(("t", "times", "frame", "frames", "step", "steps"), "t"),
    **dict.fromkeys(
        (
            "position",
            "positions",
            "distance",
            "location",
            "place",
            "lon",
            "longitude",
            "easting",
            "xc",
        ),
        "x",
    ),
    **dict.fromkeys(("lat", "latitude", "northing", "yc"), "y"),
    "zc": "z",
    **dict.fromkeys(("c", "channels", "component", "components", "variable", "field"), "c"),
}
FEW = 4
"""An axis no longer than this may be one of channels and is hardly one of space."""


def letter_of(word: str) -> str | None:
    """The letter of an axis' name, if it is a usual one."""
    return SYNONYMS.get(word.strip().lower())


def parse_axes(axes: str | Sequence[str]) -> str:
    """`"t,x"`, `"time,channel,x"` or `"tx"` as letters out of `ntcxyz`."""
    text = axes if isinstance(axes, str) else ",".join(axes)
    words = text.split(",") if "," in text or letter_of(text) else list(text)
    letters = [letter_of(word) for word in words]
    known = "".join(letter for letter in letters if letter)
    space = "".join(sorted(set(known) & set("xyz")))
    if (
        None in letters
        or len(set(known)) != len(known)
        or "t" not in known
        or not space
        or space not in ("x", "xy", "xyz")
    ):
        raise OpsplitError(
            f"Axes {text!r} are not understood: name each axis of the array once, with t and x, "
            "such as t,x or n,t,c,x,y."
        )
    return known


def in_words(letters: str, shape: Sequence[int]) -> str:
    """`(time 50, x 256)`."""
    both = zip(letters, shape, strict=True)
    return "(" + ", ".join(f"{WORDS[letter]} {n}" for letter, n in both) + ")"


def guess_axes(
    shape: Sequence[int],
    lengths: Mapping[str, int],
    ndim: int | None,
    time_last: bool = False,
    known: tuple[int, Sequence[str]] = (1, ()),
) -> str | None:
    """The most plausible letters for an array of this shape, None where nothing is.

    Arguments:
        lengths: of axes that are known, such as `{"t": 101, "x": 256}`.
        time_last: whether MATLAB's habit `(x, t)` is the first guess.
        known: the fewest axes of space, and letters in the order that they have.
    """
    best = min(_layouts(shape, lengths, ndim, time_last, known), default=None)
    return None if best is None else best[1]


def _layouts(
    shape: Sequence[int],
    lengths: Mapping[str, int],
    ndim: int | None,
    time_last: bool,
    known: tuple[int, Sequence[str]],
) -> Iterator[tuple[float, str]]:
    """Every order of axes that is possible, with its cost."""
    fewest, orders = known
    counts = range(fewest, 4) if ndim is None else [ndim]
    spaces = [word for n in counts for word in dict.fromkeys(("xyz"[:n], "xyz"[:n][::-1]))]
    forms = ("nt{}c", "ntc{}", "nt{}", "t{}c", "tc{}", "t{}", "{}t", "n{}t", "{}tc", "c{}t")
    for space, form in product(spaces, forms):
        letters = form.format(space)
        if len(letters) != len(shape):
            continue
        size = dict(zip(letters, shape, strict=True))
        # An axis that is not there has length 1.
        if any(size.get(letter, 1) != n for letter, n in lengths.items()):
            continue
        if any("".join(a for a in letters if a in order) != order for order in orders):
            continue
        cost = 0.1 * len(space) + 0.3 * (space != "".join(sorted(space)))
        if "c" in size:
            named = size["c"] == lengths.get("c")
            cost += 0 if named or size["c"] <= FEW else 1 if size["c"] <= 2 * FEW else 5
            cost += 0.25 * (letters[-1] == "c")
        cost += sum(3 for letter in space if size[letter] <= FEW)
        # Boxes and pictures are rarely much longer than wide.
        sides = [size[letter] for letter in space]
        cost += min(1.0, math.log2(max(1, *sides) / max(1, min(sides)))) + 0.3 * (len(space) == 3)
        cost += 0.5 * ("n" in size)
        cost += 10 * (size["t"] < 2)
        # Without a known number of times, time first is the rule.
        last = letters.index("t") > min(letters.index(a) for a in space)
        cost += 0 if last == time_last else 0.05 if "t" in lengths else 20
        yield cost, letters
