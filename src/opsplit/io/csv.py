"""Tables of text: one row per point (long), or one row per time or place (wide)."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opsplit._deadline import check_time
from opsplit.errors import OpsplitError
from opsplit.io.arrays import of_plain
from opsplit.io.assemble import Flags, Raw
from opsplit.io.axes import letter_of
from opsplit.io.guard import reading
from opsplit.io.parts import array_part

LARGEST_MB = 256
"""Text is parsed whole."""
COLUMNS = 2_000_000
"""Most columns: every name of one takes memory of its own."""
MOST = 0.05
"""Rows that may be missing, as a share of those that are there."""
PIECE = 2**23
"""Characters that are read between two looks at the clock, about."""
LONGEST = 1000
"""Characters of a name or a comment that are looked at."""
COMMENTS = 100_000
"""Most lines before the first row."""
SUFFIX = re.compile(r"^(.+)[_ ]([npumck]?m|[nmu]?s|sec|min|h|hr|hours?|d|days?|yr|years?)$", re.I)
"""An axis and its unit without brackets: `x_km`, `time_s`."""
DATE = re.compile(
    r"^(\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?)(?:Z|([+-])(\d\d):?(\d\d))?$"
)
"""A date and time as pandas and others write it, perhaps with its distance from UTC."""
STATED = re.compile(r"(?<!\w)([A-Za-z_]\w*)\s*[=:]\s*([-+0-9.eE]+)(?=[\s,;]|$)")
"""`dt = 0.1` in a line that begins with #. Only words as a whole: a line of one takes no longer."""


def of_csv(path: Path, flags: Flags) -> Raw:
    """A table with a line of names, or a bare matrix.

    Long: columns `t`, `x` (and `y`, `z`, `n`) and one column per channel, rows in any order.
    Wide: the first column is `t` and the other names are the places, or the other way round.
    Lines that begin with # may say `dt = 0.1`, `dx = 0.5` or a coefficient.
    """
    with reading(path, "as CSV"):
        size = path.stat().st_size
        if size > LARGEST_MB * 2**20:
            raise OpsplitError(
                f"{path}: {size / 2**20:.0f} MB of text are more than {LARGEST_MB} MB; save the "
                "array by numpy.save."
            )
        beside, names, table, said = _parsed(path)
    if not table.size:
        raise OpsplitError(f"{path} holds no numbers.")
    if not names:
        raw = of_plain(str(path), "csv", table.shape, table.dtype, table.__getitem__, beside, flags)
        return replace(raw, said=(*raw.said, *said))
    if not names[0] or names[0].startswith("Unnamed"):
        # pandas writes the numbers of its rows into a column without a name.
        counted = bool((table[:, 0] == np.arange(len(table))).all())
        if counted and {"t", "x"} <= _axis_columns([_bare(name) for name in names]).keys():
            names, table = names[1:], table[:, 1:]
        else:
            names = ["t", *names[1:]]
    found = [_with_unit(name) if len(name) <= LONGEST else None for name in names]
    units = dict(both for both in found if both)
    names = [both[0] if both else name for both, name in zip(found, names, strict=True)]
    if len(names) != table.shape[1] or len(set(names)) != len(names):
        raise OpsplitError(
            f"{path}: {table.shape[1]} columns need as many different names, got {len(names)}."
        )
    letters = _axis_columns(names)
    if "t" in letters and "x" in letters:
        raw = _long(path, beside, names, table, flags)
    else:
        raw = _wide(path, beside, names, table, flags)
    words = [f"{k} in {v!r}" for k, v in units.items()]
    said += [f"Units: {', '.join(words)}."] if words else []
    return replace(raw, said=(*raw.said, *said))


def _parsed(path: Path) -> tuple[dict[str, np.ndarray], list[str], np.ndarray, list[str]]:
    """Numbers stated in comments, the names of the columns if there are any, the table, and what
    is to be said about it."""
    beside: dict[str, np.ndarray] = {}
    head, skipped, said = "", 0, list[str]()
    with open(path, encoding="utf-8-sig") as stream:
        for line in stream:
            skipped += 1
            if skipped > COMMENTS:
                raise OpsplitError(f"{path} has more than {COMMENTS} lines before its first row.")
            if line.startswith("#"):
                stated = STATED.findall(line[:LONGEST])
                beside |= {k: np.array([float(v)]) for k, v in stated}
                head = line if head == "" else head
            elif line.strip():
                break
        else:
            return beside, [], np.zeros((0, 0)), said
    # Where both are there, commas are decimal points.
    mark = next((c for c in ";\t," if c in line), None)
    if line.count(mark or " ") >= COLUMNS:
        raise OpsplitError(f"{path} has more than {COLUMNS} columns; save it by numpy.save.")
    names = [word.strip().strip("\"'") for word in line.split(mark)]
    points = mark not in (",", None)
    if all(_is_number(word.replace(",", ".") if points else word) for word in names):
        # A file of numpy.savetxt has its names in a comment.
        told = [word.strip() for word in head.lstrip("# ").strip().split(mark)]
        names, skipped = (told if len(told) == len(names) > 1 else []), skipped - 1
    first = _row(path, skipped, mark)
    more: dict[str, Any] = {}
    if comma := points and any("," in w and _is_number(w.replace(",", ".")) for w in first):
        more["comma"] = True
        said.append("Commas are read as decimal points.")
        names = [n.replace(",", ".") if _is_number(n.replace(",", ".")) else n for n in names]
    # Lines may end with a mark.
    if names and not names[-1] and not first[-1]:
        names, first = names[:-1], first[:-1]
        more["usecols"] = range(len(names))
    kinds = [_kind(word.replace(",", ".") if comma else word) for word in first]
    axes = [i for i, name in enumerate(names) if letter_of(_bare(name))]
    kept = [i for i, kind in enumerate(kinds) if kind != "text" or i in axes]
    if names and len(names) == len(kinds) and 1 < len(kept) < len(kinds):
        names, more["usecols"] = [names[i] for i in kept], kept
    dates = {i: _seconds for i in kept if kinds[i] == "date"}
    if dates:
        more["converters"] = dates
    rows = partial(_table, path, skipped, mark, max(1, min(PIECE // 20, PIECE // len(line))))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        try:
            table = rows(**more)
        except ValueError:
            # An empty cell is a missing value.
            empty = {i: lambda word: float(word.strip() or "nan") for i in kept} | dates
            table = rows(**{**more, "converters": empty})
    for i in (kept.index(i) for i in dates):
        earliest = float(np.nanmin(table[:, i], initial=np.inf))
        table[:, i] -= earliest
        if len(names) > i and math.isfinite(earliest):
            names[i] = f"{_bare(names[i])} [s after {np.datetime64(int(earliest), 's')}]"
    return beside, names, table, said


def _row(path: Path, skipped: int, mark: str | None) -> list[str]:
    """The words of the first row of numbers."""
    with open(path, encoding="utf-8-sig") as stream:
        for _ in range(skipped):
            stream.readline()
        line = next((line for line in stream if line.strip()), "")
    return [word.strip().strip("\"'") for word in line.split(mark)]


def _is_number(word: str) -> bool:
    return _number(word) is not None


def _kind(word: str) -> str:
    """What a cell holds: a number (or nothing), a date, or text."""
    if not word or _is_number(word):
        return "number"
    return "date" if DATE.match(word[:LONGEST]) else "text"


def _seconds(word: str) -> float:
    """A date as seconds."""
    found = DATE.match(word.strip().strip("\"'"))
    if found is None:
        return math.nan
    ahead = 60 * int(found[3]) + int(found[4]) if found[2] else 0
    seconds = float(np.datetime64(found[1].replace(" ", "T"), "us").astype(np.int64)) / 1e6
    return seconds - 60 * (-ahead if found[2] == "-" else ahead)


def _table(
    path: Path, skipped: int, mark: str | None, most: int, comma: bool = False, **more: Any
) -> np.ndarray:
    """The numbers after so many lines, read in pieces of rows: there may be a limit of time."""
    pieces: list[np.ndarray] = []
    with open(path, encoding="utf-8-sig") as stream:
        for _ in range(skipped):
            stream.readline()
        lines: Any = (line.replace(",", ".") for line in stream) if comma else stream
        while not pieces or len(pieces[-1]) == most:
            check_time(path)
            pieces.append(np.loadtxt(lines, delimiter=mark, ndmin=2, max_rows=most, **more))
    widths = {piece.shape[1] for piece in pieces if len(piece)}
    if len(widths) > 1:
        raise ValueError(f"its rows have {min(widths)} to {max(widths)} columns")
    return np.concatenate([piece for piece in pieces if len(piece)] or pieces[:1])


def _with_unit(name: str) -> tuple[str, str] | None:
    """A column's name and its unit, if it has one: `x [m]`, `u (K)`, `time_s`."""
    if name.endswith(("]", ")")):
        # A pattern would take hours for names with many brackets.
        at = min((i for i in (name.find("["), name.find("(")) if i >= 0), default=-1)
        if at >= 0:
            return name[:at].rstrip(), name[at + 1 : -1].strip()
    axis = SUFFIX.match(name)
    return (axis[1], axis[2]) if axis and letter_of(axis[1]) in tuple("txyz") else None


def _bare(name: str) -> str:
    """A column's name without its unit."""
    found = _with_unit(name) if len(name) <= LONGEST else None
    return found[0] if found else name


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _place(word: str) -> float | None:
    """A coordinate in a column's name: `0.5`, `x=0.5`, `x_0.5` or `x5`."""
    return _number(re.sub(r"^[A-Za-z]+\s*[=_:]?\s*", "", word))


def _axis_columns(names: Sequence[str]) -> dict[str, str]:
    """The column of every axis. Beside `t` or `time` a column `T` is a field, such as a
    temperature."""
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name != name.lower()):
        letter = letter_of(name)
        if letter in tuple("ntxyz"):
            found.setdefault(letter, name)
    return found


def _long(
    path: Path,
    beside: Mapping[str, np.ndarray],
    names: Sequence[str],
    table: np.ndarray,
    flags: Flags,
) -> Raw:
    columns = dict(zip(names, table.T, strict=True))
    axes = _axis_columns(names)
    fields = [k for k in names if k not in axes.values()]
    if not fields or len(axes) + len(fields) < len(names):
        raise OpsplitError(f"{path}: of the columns {', '.join(names)} none is a field.")
    letters = "".join(a for a in "ntxyz" if a in axes)
    points, places = {}, []
    for a in letters:
        points[a], place = np.unique(columns[axes[a]], return_inverse=True)
        places.append(place)
    shape = tuple(len(v) for v in points.values())
    gone = math.prod(shape) - len(table)
    if not 0 <= gone <= MOST * len(table):
        raise OpsplitError(
            f"{path}: {', '.join(f'{len(v)} values of {a}' for a, v in points.items())} need "
            f"{math.prod(shape)} rows, it has {len(table)}; write one row for each point and time."
        )
    where = np.ravel_multi_index(places, shape)
    if len(np.unique(where)) < len(where):
        raise OpsplitError(f"{path}: two rows are of the same point and time.")
    values = np.full((math.prod(shape), len(fields)), np.nan)
    values[where] = np.stack([columns[k] for k in fields], 1)
    others = {k: v for k, v in beside.items() if k not in ("t", *"xyz")}
    others |= {a: v for a, v in points.items() if a != "n"}
    stated = Flags(axes=letters + "c", ndim=flags.ndim)
    array = values.reshape(*shape, len(fields))
    raw = of_plain(str(path), "csv", array.shape, array.dtype, array.__getitem__, others, stated)
    part = array_part(array, letters + "c", fields)
    said = (f"One row per point: {', '.join(fields)} over {', '.join(letters)}.", *raw.said)
    said += (f"{gone} rows are missing.",) if gone else ()
    return replace(
        raw, parts=lambda i: ((part,), i), channels=tuple(fields), named=True, said=said,
        axes=letters + "c",
    )  # fmt: skip


def _wide(
    path: Path,
    beside: Mapping[str, np.ndarray],
    names: Sequence[str],
    table: np.ndarray,
    flags: Flags,
) -> Raw:
    first = letter_of(re.split(r"[\\/|]", names[0])[0])
    across = [_place(name) for name in names[1:]]
    if first not in ("t", "x") or None in across:
        raise OpsplitError(
            f"{path} has the columns {', '.join(names)[:120]}; name them t, x and the fields (one "
            "row per point), or t and then the places (one row per time)."
        )
    other = "x" if first == "t" else "t"
    points = {first: table[:, 0], other: np.asarray(across, dtype=np.float64)}
    values = np.ascontiguousarray(table[:, 1:])
    others = {**beside, **points}
    stated = replace(flags, axes=first + other)
    raw = of_plain(str(path), "csv", values.shape, values.dtype, values.__getitem__, others, stated)
    return replace(raw, said=(*raw.said, f"One row per {first}, one column per {other}."))
