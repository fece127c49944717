"""`opsplit.read`: one door for every format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opsplit._files import regular
from opsplit.errors import OpsplitError
from opsplit.io.assemble import Flags, Raw, assemble
from opsplit.io.guard import opened, plain, reading, try_first
from opsplit.io.recording import Recording

STARTS = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"CDF": "netcdf",
    b"MATLAB": "mat",
}
SUFFIXES = {
    ".npy": "npy",
    ".npz": "npz",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".nc": "netcdf",
    ".nc4": "netcdf",
    ".cdf": "netcdf",
    ".mat": "mat",
}
WORDS = {"npy": "by numpy", "npz": "by numpy", "hdf5": "as HDF5", "netcdf": "as NetCDF",
         "mat": "as a MATLAB file"}  # fmt: skip


def read(
    source: Any,
    *,
    axes: str | Sequence[str] | None = None,
    channels: str | Sequence[str] | None = None,
    dt: float | None = None,
    extent: float | Sequence[float] | None = None,
    boundary: str | Sequence[str] | None = None,
    ndim: int | None = None,
) -> Recording:
    """Open fields over time: a file, a folder or several files of The Well, or an array.

    Only headers are read; `.frames()` and `.load()` fetch what they are asked for. What the file
    does not say is guessed, and every guess is a sentence in `.understood`.

    Arguments:
        source: a path, several paths of The Well, a numpy array or a torch tensor.
        axes: names of the array's axes in order, such as `"t,x"` or `"n,t,c,x,y"`.
        channels: names of the channels; of a file that names them, the ones to read.
        dt: time between frames.
        extent: physical length of every space axis; the right end is not a grid point.
        boundary: `"periodic"`, `"reflect"` or `"zero"`, one word or one per axis.
        ndim: number of space axes, where an array does not tell.
    """
    if ndim is not None and not 1 <= ndim <= 3:
        raise OpsplitError(f"Fields have 1 to 3 space axes, got ndim={ndim}.")
    flags = Flags(axes, channels, dt, extent, boundary, ndim)

    def opened_now() -> Recording:
        return assemble(_raw(source, flags), flags)

    def look() -> None:
        found = opened_now()
        for frame in {0, found.shape[1] - 1}:
            found.fetch(0, slice(frame, frame + 1))

    try:
        if isinstance(source, str | Path) and Path(source).is_file():
            try_first(str(source), look)
        return opened_now()
    except OpsplitError as reason:
        raise OpsplitError(plain(str(reason))) from None


def _raw(source: Any, flags: Flags) -> Raw:
    if hasattr(source, "shape") and hasattr(source, "dtype"):
        from opsplit.io.arrays import of_array

        return of_array(source, flags)
    paths = list(source) if isinstance(source, list | tuple) else [source]
    if not paths or not all(isinstance(path, str | Path) for path in paths):
        raise OpsplitError(
            f"read takes a path, several paths, an array or a tensor, got {repr(source)[:60]}."
        )
    if len(paths) > 1 or Path(paths[0]).is_dir():
        from opsplit.io.well_recording import of_well

        return of_well(", ".join(map(str, paths)), paths)
    return _file(Path(paths[0]), flags)


def _file(path: Path, flags: Flags) -> Raw:
    """A reader by what the file begins with and what it is called."""
    named = SUFFIXES.get(path.suffix.lower())
    if path.exists():
        regular(path)  # A pipe would keep us waiting.
    with reading(path, WORDS.get(named or "", "")), open(path, "rb") as stream:
        start = stream.read(16)
    found = next((kind for word, kind in STARTS.items() if start.startswith(word)), None)
    if found is None and named is None:
        raise OpsplitError(
            f"{path} is none of {', '.join(SUFFIXES)}; save your array with numpy.save."
        )
    if found is None and named == "mat":
        found = "mat"  # Version 4 begins with numbers.
    if found is None:
        raise OpsplitError(
            f"{path} cannot be read {WORDS[named or '']}: it does not begin like such a file."
        )
    if named not in (None, found) and (found, named) not in (("hdf5", "netcdf"), ("hdf5", "mat")):
        raise OpsplitError(
            f"{path} does not hold what its name says, it is {found}; rename or save it again."
        )
    kind = named or found
    if kind == "npy":
        from opsplit.io.arrays import of_npy

        return of_npy(path, flags)
    if kind == "npz":
        from opsplit.io.npz import of_npz

        return of_npz(path, flags)
    if kind == "netcdf":
        from opsplit.io.netcdf import of_netcdf

        return of_netcdf(path, flags)
    if kind == "mat":
        from opsplit.io.matlab import of_mat

        return of_mat(path, flags, hdf5=found == "hdf5" or _is_hdf5(path))
    return _hdf5(path)


def _is_hdf5(path: Path) -> bool:
    """MATLAB puts 512 bytes of its own before the HDF5 of version 7.3."""
    with open(path, "rb") as stream:
        stream.seek(512)
        return stream.read(8) == b"\x89HDF\r\n\x1a\n"


def _hdf5(path: Path) -> Raw:
    from opsplit.io.pdebench import of_pdebench
    from opsplit.io.well_recording import of_well

    with opened(path) as file:
        well = "t0_fields" in file or "dimensions" in file
    return of_well(str(path), [path]) if well else of_pdebench(path)
