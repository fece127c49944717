"""Stored arrays with named axes, sliced and put together as `(time, channel, *space)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.guard import PAIR, dataset, opened
from opsplit.trajectories import unmasked

Index = tuple[int | slice, ...]


@dataclass(frozen=True)
class Part:
    """One stored array: how to slice it, its axes, and the channels it holds.

    `axes` has a letter out of `ntcdxyz` per axis, `c` and `d` being components; axes that are not
    there are spread over.
    """

    read: Callable[[Index], np.ndarray]
    axes: str
    channels: tuple[str, ...]


def hdf5_part(path: Path, name: str, axes: str, channels: Sequence[str]) -> Part:
    """An array of an HDF5 file, which is open only while it is read."""

    def read(index: Index) -> np.ndarray:
        with opened(path) as file:
            found: np.ndarray = dataset(path, file, name)[index]
            return found

    return Part(read, axes, tuple(channels))


def array_part(array: Any, axes: str, channels: Sequence[str]) -> Part:
    """An array in memory or mapped into it."""
    return Part(lambda index: np.array(unmasked(array[index])), axes, tuple(channels))


def gather(
    parts: Sequence[Part],
    trajectory: int,
    frames: slice,
    space: Mapping[str, int],
    channels: Sequence[str],
) -> np.ndarray:
    """The frames of one trajectory `(time, channel, *space)`.

    Arguments:
        space: points to keep per axis, counted from the first.
        channels: the wanted ones, in this order.
    """
    steps = len(range(frames.start, frames.stop, frames.step or 1))
    found: dict[str, np.ndarray] = {}
    for part in parts:
        if not set(part.channels) & set(channels):
            continue
        where: dict[str, int | slice] = {"n": trajectory, "t": frames}
        where |= {a: slice(0, n) for a, n in space.items()}
        values = part.read(tuple(where.get(a, slice(None)) for a in part.axes))
        held = part.axes.replace("n", "")
        order = [a for a in "tcd" + "xyz" if a in held]
        values = values.transpose([held.index(a) for a in order])
        for i, a in enumerate("tcd" + "".join(space)):
            if a not in held:
                values = np.expand_dims(values, i)
        sizes = (steps, len(part.channels), *space.values())
        try:
            values = values.reshape(values.shape[0], -1, *values.shape[3:])
            values = values if values.shape == sizes else np.broadcast_to(values, sizes)
        except ValueError:
            raise OpsplitError(
                f"The array of {', '.join(part.channels)} has another shape than the grid and "
                f"the times say: {values.shape} instead of {sizes}."
            ) from None
        found.update({name: values[:, i] for i, name in enumerate(part.channels)})
    if len(channels) == 1:
        # What was read for this very call need not be copied.
        return np.require(floating(found[channels[0]])[:, None], requirements=["C", "W"])
    return np.stack([floating(found[name]) for name in channels], 1)


def floating(values: np.ndarray) -> np.ndarray:
    """Single or double precision in this machine's byte order; complex numbers stay complex."""
    if values.dtype.names == PAIR:
        pair = [values[name] for name in PAIR]
        values = pair[0].astype(np.result_type(*pair, np.complex64))
        values.imag = pair[1]
    if values.dtype.kind == "c":
        return values.astype(np.complex128 if values.dtype.itemsize >= 16 else np.complex64)
    double = values.dtype.kind == "f" and values.dtype.itemsize >= 8
    return values.astype(np.float64 if double else np.float32, copy=False)
