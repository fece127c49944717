"""MATLAB files with `usol`, `x` and `t`; up to version 7.2 by scipy, 7.3 is HDF5."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.arrays import BESIDE, FIELDS, Read, of_plain
from opsplit.io.assemble import Flags, Raw
from opsplit.io.examine import CHUNK_MB
from opsplit.io.guard import HDF5, check_small, dataset, opened, reading
from opsplit.io.helper import examined
from opsplit.io.parts import Index

NUMERIC = ("double", "single", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def of_mat(path: Path, flags: Flags) -> Raw:
    """The field as `(x, t)` unless `x` and `t` say otherwise."""
    import h5py

    hdf5 = _is_hdf5(path)
    if hdf5:
        with opened(path, "as a MATLAB file") as file:
            kinds = {k: file[k] for k in file if file.get(k, getclass=True) is h5py.Dataset}
            shapes = {k: tuple(v.shape[::-1]) for k, v in kinds.items() if v.dtype.kind in "fiuV"}
    else:
        shapes = _shapes(path)
    name, others = choose_field(path, shapes)
    check_small(f"{path}: what is beside {name}", sum(math.prod(shapes[k]) for k in others))
    held = _vectors(path, others) if hdf5 else _loaded(path, others)
    small = {k: v.ravel() for k, v in held.items() if v.dtype.kind in "fiu" and v.size}
    read = _slicer(path, name, shapes[name], hdf5)
    if hdf5:
        with opened(path, "as a MATLAB file") as file:
            dtype = dataset(path, file, name).dtype
    else:
        dtype = read((slice(0, 1),) * len(shapes[name])).dtype
    raw = of_plain(str(path), "mat", shapes[name], dtype, read, small, flags, time_last=True)
    ignored = [k for k in shapes if k != name and k not in others]
    more = (f"Its {name} is read, {', '.join(ignored)} not.",) if ignored else ()
    return replace(raw, said=(*raw.said, *more))


def _is_hdf5(path: Path) -> bool:
    """MATLAB puts 512 bytes of its own before the HDF5 of version 7.3."""
    with open(path, "rb") as stream:
        first = stream.read(8)
        stream.seek(512)
        return HDF5 in (first, stream.read(8))


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    whosmat = _scipy(path).whosmat
    with reading(path, "as a MATLAB file"):
        examined(path, "mat", "as a MATLAB file")
        return {name: tuple(shape) for name, shape, kind in whosmat(str(path)) if kind in NUMERIC}


def _scipy(path: Path) -> Any:
    try:
        import scipy.io
    except ImportError:
        raise OpsplitError(
            f"{path}: MATLAB files are read by scipy, which is missing; "
            "pip install 'opsplit[matlab]'."
        ) from None
    return scipy.io


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


def _loaded(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Whole variables, read in one pass."""
    with reading(path, "as a MATLAB file"):
        examined(path, "mat", "as a MATLAB file")
        found = _scipy(path).loadmat(str(path), variable_names=list(names))
        for name in names:
            if not isinstance(found[name], np.ndarray):
                raise OpsplitError(f"{path}: {name} is sparse; save it as a full array.")
        return {name: found[name] for name in names}


def _vectors(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    with opened(path, "as a MATLAB file") as file:
        return {name: np.asarray(dataset(path, file, name)[()]).T for name in names}


def _slicer(path: Path, name: str, shape: tuple[int, ...], hdf5: bool) -> Read:
    """Slices of an array in MATLAB's order of axes, which HDF5 has the other way round."""

    @cache
    def whole() -> np.ndarray:
        size = math.prod(shape) * 8 / 2**20
        if size > CHUNK_MB:
            raise OpsplitError(
                f"{path}: {name} has {size:.0f} MB, which scipy cannot read in parts; save the "
                "file with -v7.3."
            )
        return _loaded(path, [name])[name]

    def read(index: Index) -> np.ndarray:
        if not hdf5:
            return np.asarray(whole()[index])
        with opened(path, "as a MATLAB file") as file:
            return np.asarray(dataset(path, file, name)[index[::-1]]).T

    return read
