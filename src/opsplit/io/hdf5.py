"""HDF5 files by what they hold: The Well, PDEBench, or one field with arrays beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from opsplit.io.arrays import FIELDS, of_plain
from opsplit.io.assemble import Flags, Raw
from opsplit.io.guard import dataset, opened
from opsplit.io.matlab import choose_field
from opsplit.io.parts import Index
from opsplit.io.pdebench import of_pdebench
from opsplit.io.well_recording import of_well


def of_hdf5(path: Path, flags: Flags) -> Raw:
    """A reader by the names of a file's arrays."""
    with opened(path) as file:
        if "t0_fields" in file or "dimensions" in file:
            return of_well(str(path), [path])
        plain = any(name in file for name in FIELDS)
    return _plain(path, flags) if plain else of_pdebench(path)


def _plain(path: Path, flags: Flags) -> Raw:
    """An array `u` (or another usual name) and perhaps `t`, `dt`, `x`, `dx` beside it."""
    import h5py

    with opened(path) as file:
        arrays = {k: file[k] for k in file if file.get(k, getclass=True) is h5py.Dataset}
        shapes = {k: tuple(v.shape) for k, v in arrays.items() if v.dtype.kind in "fiucV"}
        name, others = choose_field(path, shapes)
        small = {k: np.atleast_1d(dataset(path, file, k)[()]).ravel() for k in others}
        dtype = dataset(path, file, name).dtype

    def read(index: Index) -> np.ndarray:
        with opened(path) as file:
            return np.asarray(dataset(path, file, name)[index])

    beside = {k: v for k, v in small.items() if v.dtype.kind in "fiu" and v.size}
    return of_plain(str(path), "hdf5", shapes[name], dtype, read, beside, flags)
