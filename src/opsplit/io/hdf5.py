"""HDF5 files by what they hold: The Well, PDEBench, or fields with arrays beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opsplit.io.arrays import FIELDS, Read, chosen, of_fields
from opsplit.io.assemble import Flags, Raw
from opsplit.io.axes import letter_of
from opsplit.io.beside import is_beside
from opsplit.io.guard import dataset, opened
from opsplit.io.matlab import beside_of
from opsplit.io.netcdf import units_of
from opsplit.io.packed import WORDS, Packing, unpacked_said
from opsplit.io.parts import Index
from opsplit.io.pdebench import is_pdebench, of_pdebench
from opsplit.io.well_recording import of_well

DEEPEST = 4
"""Groups within groups that are looked into."""


def of_hdf5(path: Path, flags: Flags) -> Raw:
    """A reader by the names of a file's arrays."""
    with opened(path) as file:
        if "t0_fields" in file or "dimensions" in file:
            return of_well(str(path), [path])
        plain = any(name in file for name in FIELDS)
        other = not is_pdebench(file) and bool(_fields(_arrays(file)))
    return _plain(path, flags) if plain or other else of_pdebench(path)


def _arrays(file: Any, deep: int = 0) -> dict[str, Any]:
    """Arrays of numbers by their path: those of the root, or of the only group that is there."""
    import h5py

    kinds = {k: file.get(k, getclass=True) for k in file}
    found = {k: file[k] for k, kind in kinds.items() if kind is h5py.Dataset}
    groups = [k for k, kind in kinds.items() if kind is h5py.Group]
    if not found and len(groups) == 1 and deep < DEEPEST:
        inner = _arrays(file[groups[0]], deep + 1)
        return {f"{groups[0]}/{k}": v for k, v in inner.items()}
    return {k: v for k, v in found.items() if v.dtype.kind in "fiucV"}


def _fields(arrays: Mapping[str, Any]) -> list[str]:
    return [k for k, v in arrays.items() if sum(n > 1 for n in v.shape) > 1 and not is_beside(k)]


def _plain(path: Path, flags: Flags) -> Raw:
    """Fields with times, places, steps and coefficients beside them, as arrays or attributes."""
    with opened(path) as file:
        arrays = _arrays(file)
        places = {k.rpartition("/")[2]: k for k in arrays}
        shapes = {k: tuple(arrays[place].shape) for k, place in places.items()}
        fields = chosen(str(path), shapes, flags)
        others = beside_of(path, shapes, fields)
        packings = {
            k: Packing.of(f"{path}: {k}", arrays[places[k]].attrs, arrays[places[k]].dtype)
            for k in (*others, *fields)
        }
        small = {
            k: np.atleast_1d(packings[k].values(np.asarray(dataset(path, file, places[k])[()])))
            for k in others
        }
        first = arrays[places[fields[0]]]
        stated = {**file.attrs, **first.parent.attrs, **first.attrs}
        small |= {k: v for k, v in _numbers(stated).items() if k not in small}
        kinds = {k: packings[k].dtype(dataset(path, file, places[k]).dtype) for k in fields}
        labels = [letter_of(str(dim.label)) for dim in first.dims]
        words = units_of({k: arrays[places[k]].attrs for k in (*others, *fields)})
        words += unpacked_said({k: packings[k] for k in fields})

    def slices(name: str) -> Read:
        def read(index: Index) -> np.ndarray:
            with opened(path) as file:
                return packings[name].values(np.asarray(dataset(path, file, places[name])[index]))

        return read

    beside = {k: v for k, v in small.items() if v.dtype.kind in "fiu" and v.size}
    if flags.axes is None and all(labels) and len(set(labels)) == len(labels):
        flags = replace(flags, axes=[str(a) for a in labels])
    each = {k: (shapes[k], kinds[k], slices(k)) for k in fields}
    raw = of_fields(str(path), "hdf5", each, beside, flags)
    return replace(raw, said=(*raw.said, *words))


def _numbers(attributes: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Attributes that say a step or a length, and other single numbers with a point."""
    found = {str(k): np.atleast_1d(np.asarray(v)) for k, v in attributes.items() if k not in WORDS}
    return {
        k: v for k, v in found.items()
        if (v.size == 1 and v.dtype.kind == "f")
        or (is_beside(k) and v.dtype.kind in "iu" and v.size <= 3)
    }  # fmt: skip
