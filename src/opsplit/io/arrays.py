"""Arrays whose axes nobody named: in memory and in `.npy` files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from opsplit._files import regular
from opsplit._tensors import as_numpy
from opsplit.errors import OpsplitError
from opsplit.io.assemble import Flags, Raw
from opsplit.io.axes import guess_axes, in_words
from opsplit.io.guard import check_kind, check_small, reading
from opsplit.io.parts import Index, Part, array_part
from opsplit.io.stored import StoredArray
from opsplit.trajectories import Trajectories, unmasked

Read = Callable[[Index], np.ndarray]
FIELDS = ("usol", "u", "uu", "U", "sol", "Exact")
"""Usual names of the field; of several large arrays, the first that is there is read."""
TIMES = ("t", "times", "time", "tt", "ts", "tspan", "t_span")
POINTS = {a: (a, f"{a}s", 2 * a, f"{a}_grid", f"{a}span") for a in "xyz"}
STEPS = ("dt", "delta_t", "time_step")
SPACINGS = {a: (f"d{a}", f"delta_{a}") for a in "xyz"}
EXTENTS = ("extent", "box_size")
BESIDE = frozenset(
    (*TIMES, *STEPS, *EXTENTS, *(k for names in POINTS.values() for k in names),
     *(k for names in SPACINGS.values() for k in names))
)  # fmt: skip
"""Names of arrays that say where and when the field was observed."""


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
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
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
    times = _first(others, TIMES, several=True)
    found = {a: _first(others, names, several=True) for a, names in POINTS.items()}
    points = {a: values for a, values in found.items() if values is not None}
    rest = {
        k: v.ravel().astype(np.float64) for k, v in others.items()
        if k not in BESIDE
    }  # fmt: skip
    lengths = {a: len(v) for a, v in points.items()}
    lengths |= {} if times is None else {"t": len(times)}
    lengths |= {} if flags.names is None else {"c": len(flags.names)}
    letters = flags.letters or _guess(shape, lengths, rest, flags.ndim, time_last)
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
    n, count = size.get("n", 1), size.get("c", 1)
    names = ("u",) if count == 1 else tuple(f"u{i}" for i in range(count))
    check_small(f"{source}: the axis of channels", count)
    step = _first(others, STEPS)
    if times is None and step is not None:
        with np.errstate(invalid="ignore"):
            times = np.arange(size["t"]) * float(step[0])
    check_small(f"{source}: coefficients of all trajectories", n * len(rest))
    coefficients = {k: np.broadcast_to(v, n).copy() for k, v in rest.items() if len(v) in (1, n)}
    said = [f"Its {', '.join(coefficients)} are taken as coefficients."] if coefficients else []
    unused = [k for k in rest if k not in coefficients]
    said += [f"Not used: {', '.join(unused)}."] if unused else []
    space = {a: n for a, n in size.items() if a in "xyz"}
    return Raw(
        source, form, letters, tuple(shape),
        lambda i: ((Part(read, letters, names),), i),
        names, named=False, times=times, coordinates=points,
        extent=_extent(source, others, space),
        coefficients=coefficients, said=tuple(said), guessed_axes=flags.letters is None,
        look_for_repeats=True,
    )  # fmt: skip


def _first(
    others: Mapping[str, np.ndarray], names: Sequence[str], several: bool = False
) -> np.ndarray | None:
    """The values of the first name that is there."""
    held = (others[k].ravel() for k in names if k in others)
    return next((v for v in held if v.size > several), None)


def _extent(
    source: str, others: Mapping[str, np.ndarray], space: Mapping[str, int]
) -> tuple[float, ...] | None:
    """Lengths by a stored extent or by stored spacings; one spacing `dx` holds for all axes."""
    extent = _first(others, EXTENTS)
    if extent is not None:
        if len(extent) not in (1, len(space)):
            raise OpsplitError(f"{source}: its extent has {len(extent)} values.")
        return tuple(np.broadcast_to(extent, len(space)).tolist())
    along = [_first(others, SPACINGS[a]) for a in sorted(space)]
    if along[0] is None:
        return None
    if len(along[0]) == len(space):
        spacings = along[0].tolist()
    else:
        spacings = [float((along[0] if h is None else h)[0]) for h in along]
    return tuple(h * n for h, (_, n) in zip(spacings, sorted(space.items()), strict=True))


def _guess(
    shape: tuple[int, ...],
    lengths: Mapping[str, int],
    rest: Mapping[str, np.ndarray],
    ndim: int | None,
    time_last: bool,
) -> str | None:
    # Arrays as long as the first axis are coefficients, which makes it one of trajectories.
    many = {len(v) for v in rest.values()} - {1}
    with_n = {**lengths, "n": shape[0]} if many == set(shape[:1]) and many else lengths
    found = guess_axes(shape, with_n, ndim, time_last)
    return found or guess_axes(shape, lengths, ndim, time_last)
