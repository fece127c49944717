"""Arrays whose axes nobody named: in memory and in `.npy` files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.assemble import Flags, Raw
from opsplit.io.axes import guess_axes, in_words
from opsplit.io.guard import check_kind, check_small, reading
from opsplit.io.parts import Index, Part

Read = Callable[[Index], np.ndarray]
TIMES = ("t", "times", "time", "tt")
BESIDE = (*TIMES, *"xyz", "dt", "extent")
"""Names of arrays that say where and when the field was observed."""


def of_array(array: Any, flags: Flags) -> Raw:
    """A numpy array or a torch tensor."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    return of_plain("array", "array", array.shape, array.dtype, array.__getitem__, {}, flags)


def of_npy(path: Path, flags: Flags) -> Raw:
    """A `.npy` file, mapped into memory."""
    with reading(path, "by numpy"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    return of_plain(str(path), "npy", array.shape, array.dtype, array.__getitem__, {}, flags)


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
    times = next((others[k].ravel() for k in TIMES if k in others and others[k].size > 1), None)
    points = {a: others[a].ravel() for a in "xyz" if a in others and others[a].size > 1}
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
    if times is None and "dt" in others:
        times = np.arange(size["t"]) * float(others["dt"].ravel()[0])
    coefficients = {k: np.broadcast_to(v, n).copy() for k, v in rest.items() if len(v) in (1, n)}
    said = [f"Its {', '.join(coefficients)} are taken as coefficients."] if coefficients else []
    unused = [k for k in rest if k not in coefficients]
    said += [f"Not used: {', '.join(unused)}."] if unused else []
    extent = others["extent"].ravel() if "extent" in others else None
    if extent is not None and len(extent) not in (1, len(size.keys() & set("xyz"))):
        raise OpsplitError(f"{source}: its extent has {len(extent)} values.")
    space = len(size.keys() & set("xyz"))
    return Raw(
        source, form, letters, tuple(shape),
        lambda i: ((Part(read, letters, names),), i),
        names, named=False, times=times, coordinates=points,
        extent=None if extent is None else tuple(np.broadcast_to(extent, space).tolist()),
        coefficients=coefficients, said=tuple(said), guessed_axes=flags.letters is None,
        look_for_repeats=True,
    )  # fmt: skip


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
