"""MATLAB files with `usol`, `x` and `t`; version 7.3 is HDF5."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from opsplit._files import regular
from opsplit.io.arrays import Read, chosen, of_fields
from opsplit.io.assemble import Flags, Raw
from opsplit.io.beside import is_beside
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
    fields = chosen(str(path), shapes, flags)
    others = beside_of(path, shapes, fields)
    with reading(path, WORDS):
        held = {k: arrays[k].read((slice(None),) * len(shapes[k])) for k in others}
    small = {k: v for k, v in held.items() if v.dtype.kind in "fiu" and v.size}

    def slices(name: str) -> Read:
        def read(index: Index) -> np.ndarray:
            with reading(path, WORDS):
                return arrays[name].read(index)

        return read

    each = {name: (shapes[name], arrays[name].dtype, slices(name)) for name in fields}
    raw = of_fields(str(path), "mat", each, small, flags, time_last=True)
    ignored = [k for k in shapes if k not in fields and k not in others]
    more = (f"Its {', '.join(fields)} is read, {', '.join(ignored)} not.",) if ignored else ()
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


def beside_of(
    path: Path, shapes: Mapping[str, tuple[int, ...]], fields: Sequence[str]
) -> list[str]:
    """The arrays beside the fields that are small, or may be coordinates."""
    found = [
        k for k, s in shapes.items()
        if k not in fields and (is_beside(k) or sum(n > 1 for n in s) < 2)
    ]  # fmt: skip
    check_small(f"{path}: what is beside {fields[0]}", sum(math.prod(shapes[k]) for k in found))
    return found
