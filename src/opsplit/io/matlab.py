"""MATLAB files with `usol`, `x` and `t`; version 7.3 is HDF5."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from opsplit._files import regular
from opsplit.errors import OpsplitError
from opsplit.io.arrays import BESIDE, FIELDS, of_plain
from opsplit.io.assemble import Flags, Raw
from opsplit.io.guard import HDF5, check_small, dataset, opened, reading
from opsplit.io.mat_arrays import MatArray, mat_arrays
from opsplit.io.parts import Index

WORDS = "as a MATLAB file"


def of_mat(path: Path, flags: Flags) -> Raw:
    """The field as `(x, t)` unless `x` and `t` say otherwise."""
    with reading(path, WORDS):
        regular(path)
        arrays = _version73(path) if _is_hdf5(path) else mat_arrays(path)
    shapes = {name: array.shape for name, array in arrays.items()}
    name, others = choose_field(path, shapes)
    check_small(f"{path}: what is beside {name}", sum(math.prod(shapes[k]) for k in others))
    with reading(path, WORDS):
        held = {k: arrays[k].read((slice(None),) * len(shapes[k])).ravel() for k in others}
    small = {k: v for k, v in held.items() if v.dtype.kind in "fiu" and v.size}
    field = arrays[name]

    def read(index: Index) -> np.ndarray:
        with reading(path, WORDS):
            return field.read(index)

    raw = of_plain(str(path), "mat", field.shape, field.dtype, read, small, flags, time_last=True)
    ignored = [k for k in shapes if k != name and k not in others]
    more = (f"Its {name} is read, {', '.join(ignored)} not.",) if ignored else ()
    return replace(raw, said=(*raw.said, *more))


def _is_hdf5(path: Path) -> bool:
    """MATLAB puts 512 bytes of its own before the HDF5 of version 7.3."""
    with open(path, "rb") as stream:
        first = stream.read(8)
        stream.seek(512)
        return HDF5 in (first, stream.read(8))


def _version73(path: Path) -> dict[str, MatArray]:
    """Arrays in MATLAB's order of axes, which HDF5 has the other way round."""
    import h5py

    def read(name: str, index: Index) -> np.ndarray:
        with opened(path, WORDS) as file:
            return np.asarray(dataset(path, file, name)[index[::-1]]).T

    with opened(path, WORDS) as file:
        kinds = {k: file[k] for k in file if file.get(k, getclass=True) is h5py.Dataset}
        return {
            k: MatArray(k, tuple(v.shape[::-1]), v.dtype, partial(read, k))
            for k, v in kinds.items()
            if v.dtype.kind in "fiuV"
        }


def choose_field(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> tuple[str, list[str]]:
    """The field, and the vectors and numbers beside it."""
    small = [k for k, s in shapes.items() if k in BESIDE or sum(n > 1 for n in s) < 2]
    large = [k for k in shapes if k not in small]
    name = next((k for k in FIELDS if k in large), large[0] if len(large) == 1 else None)
    if name is None:
        raise OpsplitError(
            f"{path} holds the arrays {sorted(shapes)}; call the field over space and time usol."
        )
    for k in small:
        check_small(f"{path}: {k}", math.prod(shapes[k]))
    return name, small
