"""Arrays whose axes nobody named: in memory and in `.npy` files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from opsplit._files import regular
from opsplit._tensors import as_numpy
from opsplit.errors import OpsplitError
from opsplit.io.assemble import Flags, Raw
from opsplit.io.axes import guess_axes, in_words
from opsplit.io.beside import Beside, fields_among, is_beside, numbered, understood
from opsplit.io.guard import check_kind, check_small, reading
from opsplit.io.parts import Index, Part, array_part
from opsplit.io.stored import StoredArray
from opsplit.trajectories import Trajectories, unmasked

Read = Callable[[Index], np.ndarray]
FIELDS = ("usol", "u", "uu", "U", "sol", "Exact")
"""Usual names of the field; of several large arrays, the first that is there is read."""
MOST_CHANNELS = 16
"""More arrays of one shape are something else, such as frames."""


def of_array(array: Any, flags: Flags) -> Raw:
    """A numpy array or a torch tensor."""
    if hasattr(array, "detach"):
        array = as_numpy(array)

    def read(index: Index) -> np.ndarray:
        return unmasked(array[index])

    return of_plain("array", "array", array.shape, array.dtype, read, {}, flags)


def of_trajectories(given: Trajectories) -> Raw:
    """Trajectories in memory, which say everything."""
    axes = "ntc" + "xyz"[: given.grid.ndim]
    part = array_part(as_numpy(given.data), axes, given.channels)
    return Raw(
        "trajectories", "trajectories", axes, tuple(given.data.shape), lambda i: ((part,), i),
        given.channels, times=given.times.detach().cpu().numpy(), extent=given.grid.extent,
        boundary=tuple(given.grid.boundary),
        coefficients={k: v.cpu().double().numpy() for k, v in given.coefficients.items()},
        terms=given.terms,
    )  # fmt: skip


def of_npy(path: Path, flags: Flags) -> Raw:
    """A `.npy` file, read slice by slice."""
    with reading(path, "by numpy"):
        size = regular(path).st_size
        with open(path, "rb") as stream:
            head = read_header(stream, f"{path} cannot be read by numpy: it")
        if size < head.length + math.prod(head.shape) * head.dtype.itemsize:
            raise OpsplitError(
                f"{path} cannot be read by numpy: it is shorter than its header says."
            )
    array = StoredArray(path, head.length, head.shape, head.dtype, head.fortran)

    def read(index: Index) -> np.ndarray:
        with reading(path, "by numpy"):
            return array[index]

    return of_plain(str(path), "npy", head.shape, head.dtype, read, {}, flags)


class Header(NamedTuple):
    """What the header of a stored array says, and how long it is."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    length: int


def read_header(stream: IO[bytes], what: str) -> Header:
    """The header at the beginning of a stream in numpy's format."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version in ((2, 0), (3, 0)):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise OpsplitError(f"{what} is of version {version[0]}.{version[1]}, which is not known.")
    if dtype.hasobject:
        raise OpsplitError(f"{what} holds Python objects, which may run code.")
    if min(shape, default=0) < 0:
        raise OpsplitError(f"{what} has a shape with negative lengths.")
    return Header(tuple(shape), fortran, dtype, stream.tell())


def of_plain(
    source: str,
    form: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    read: Read,
    others: Mapping[str, np.ndarray],
    flags: Flags,
    time_last: bool = False,
) -> Raw:
    """One array and the small ones beside it, which may say times, coordinates, coefficients."""
    check_kind(source, dtype)
    beside = understood(others, shape)
    times, points, rest = beside.times, dict(beside.points), dict(beside.rest)
    lengths = {a: len(v) for a, v in points.items()}
    lengths |= {} if times is None else {"t": len(times)}
    lengths |= {} if flags.names is None else {"c": len(flags.names)}
    letters = flags.letters or _guess(shape, lengths, beside, flags.ndim, time_last)
    if letters is None or len(letters) != len(shape):
        has = f" with {', '.join(f'{n} values of {a}' for a, n in lengths.items())}"
        raise OpsplitError(
            f"{source}: An array of shape {tuple(shape)}{has if lengths else ''} cannot be read as "
            + (f"axes {','.join(letters)}" if letters else "fields over time")
            + "; name its axes in order, such as axes t,x or n,t,c,x,y."
        )
    size = dict(zip(letters, shape, strict=True))
    wrong = [a for a in lengths if size.get(a, 1) != lengths[a] and a != "c"]
    if wrong:
        raise OpsplitError(
            f"{source}: read as {in_words(letters, shape)}, but it has "
            f"{', '.join(f'{lengths[a]} values of {a}' for a in wrong)}."
        )
    named, words = numbered(beside, letters, shape)
    points |= {a: v for a, v in named.items() if a != "t"}
    times = named.get("t", times)
    rest = {k: v for k, v in rest.items() if not any(v is one for one in named.values())}
    n, count = size.get("n", 1), size.get("c", 1)
    names = ("u",) if count == 1 else tuple(f"u{i}" for i in range(count))
    check_small(f"{source}: the axis of channels", count)
    if times is None and beside.step is not None:
        with np.errstate(invalid="ignore"):
            times = np.arange(size["t"]) * beside.step
    check_small(f"{source}: coefficients of all trajectories", n * len(rest))
    coefficients = {k: np.broadcast_to(v, n).copy() for k, v in rest.items() if len(v) in (1, n)}
    said = [*beside.said, *words]
    said += [f"Its {', '.join(coefficients)} are taken as coefficients."] if coefficients else []
    unused = [k for k in rest if k not in coefficients]
    said += [f"Not used: {', '.join(unused)}."] if unused else []
    space = {a: n for a, n in size.items() if a in "xyz"}
    return Raw(
        source, form, letters, tuple(shape),
        lambda i: ((Part(read, letters, names),), i),
        names, named=False, times=times, coordinates=points,
        extent=beside.extent(space),
        coefficients=coefficients, said=tuple(said), guessed_axes=flags.letters is None,
        look_for_repeats=True,
    )  # fmt: skip


def chosen(where: str, shapes: Mapping[str, tuple[int, ...]], flags: Flags) -> list[str]:
    """The arrays that are read: those that are asked for, the one with a usual name, or all others
    of one shape, each of which is a channel."""
    asked = [k for k in flags.names or () if k in shapes]
    if asked and len(asked) == len(flags.names or ()):
        return asked
    large = fields_among(shapes) or [k for k in FIELDS if k in shapes]
    if not large and len(shapes) == 1:
        large = [k for k in shapes if not is_beside(k)]
    if not large:
        raise OpsplitError(
            f"{where} holds the arrays {sorted(shapes)}, none over space and time; call "
            "the field u."
        )
    usual = next((k for k in FIELDS if k in large), None)
    alike = [k for k in large if shapes[k] == shapes[usual or large[0]]]
    # A usual name stands alone, unless the others are like it: `u` and `v`, `A` and `B`.
    pair = len(alike) > 1 and all(len(k) == 1 for k in alike)
    if usual is not None and not pair:
        return [usual]
    if len(alike) < len(large) or len(alike) > MOST_CHANNELS:
        raise OpsplitError(
            f"{where} holds the arrays {sorted(shapes)}; name those to read, such as channels "
            f"{large[0]}."
        )
    return alike


def of_fields(
    source: str,
    form: str,
    fields: Mapping[str, tuple[tuple[int, ...], np.dtype, Read]],
    others: Mapping[str, np.ndarray],
    flags: Flags,
    time_last: bool = False,
) -> Raw:
    """One array, or several of one shape, each of which is a channel.

    Arguments:
        fields: shape, kind and slices of every array.
        others: the small ones beside them.
    """
    asked = flags.names is not None and set(flags.names) <= fields.keys()
    told = replace(flags, channels=None) if asked else flags
    shape, dtype, first = next(iter(fields.values()))
    raw = of_plain(source, form, shape, dtype, first, others, told, time_last)
    if "c" in raw.axes or (len(fields) == 1 and not asked):
        return raw
    parts = [Part(read, raw.axes, (name,)) for name, (_, _, read) in fields.items()]
    said = (*raw.said, f"Channels: {', '.join(fields)}.")
    return replace(raw, parts=lambda i: (parts, i), channels=tuple(fields), named=True, said=said)


def _guess(
    shape: tuple[int, ...],
    lengths: Mapping[str, int],
    beside: Beside,
    ndim: int | None,
    time_last: bool,
) -> str | None:
    # Arrays as long as the first axis are coefficients, which makes it one of trajectories.
    many = {len(v) for v in beside.rest.values()} - {1}
    with_n = {**lengths, "n": shape[0]} if many == set(shape[:1]) and many else lengths
    for known in (with_n, lengths):
        found = guess_axes(shape, known, ndim, time_last, (beside.ndim, beside.order))
        if found is not None:
            return found
    return None
