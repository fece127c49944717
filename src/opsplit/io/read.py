"""`opsplit.read`: one door for every format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opsplit._files import regular
from opsplit._tensors import public
from opsplit._text import plain
from opsplit.errors import OpsplitError
from opsplit.io.assemble import Flags, Raw, assemble
from opsplit.io.guard import HDF5, reading
from opsplit.io.joined import OF_WELL, files_in, joined
from opsplit.io.recording import Recording
from opsplit.registry import Registry
from opsplit.trajectories import Trajectories

Reader = Callable[[Path, Flags], Raw]

READERS: Registry[Reader] = Registry(
    "reader",
    "opsplit.readers",
    {
        "npy": "opsplit.io.arrays:of_npy",
        "npz": "opsplit.io.npz:of_npz",
        "hdf5": "opsplit.io.hdf5:of_hdf5",
        "netcdf": "opsplit.io.netcdf:of_netcdf",
        "mat": "opsplit.io.matlab:of_mat",
        "zarr": "opsplit.io.zarr:of_zarr",
        "csv": "opsplit.io.csv:of_csv",
    },
)
"""`reader(path, flags) -> Raw` by the name of a format.

The reader of an installed package, an entry point of the group `opsplit.readers`, reads the files
whose name ends like its own: the reader `raw` reads `u.raw`.
"""
STARTS = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    HDF5: "hdf5",
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
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".dat": "csv",
}
STORES = ("zarr.json", ".zgroup", ".zmetadata", ".zarray")
"""Files by which a folder is a Zarr store."""
WORDS = {"npy": "by numpy", "npz": "by numpy", "hdf5": "as HDF5", "netcdf": "as NetCDF",
         "mat": "as a MATLAB file"}  # fmt: skip


@public
def read(
    source: Any,
    *,
    axes: str | Sequence[str] | None = None,
    channels: str | Sequence[str] | None = None,
    dt: float | None = None,
    extent: float | Sequence[float] | None = None,
    boundary: str | Sequence[str] | None = None,
    ndim: int | None = None,
    times: Any = None,
) -> Recording:
    """Open fields over time: a file, a folder, several files, or data in memory.

    The files of a folder, and several files, are trajectories of one system, one file after the
    other.

    Only headers are read; `.frames()` and `.load()` fetch what they are asked for. What the file
    does not say is guessed, and every guess is a sentence in `.understood`.

    Arguments:
        source: a path, several paths, a numpy array, a torch tensor, `Trajectories`,
            an xarray `DataArray` or `Dataset`.
        axes: names of the array's axes in order, such as `"t,x"` or `"n,t,c,x,y"`.
        channels: names of the channels; of a file that names them, the ones to read.
        dt: time between frames.
        extent: physical length of every space axis; the right end is not a grid point.
        boundary: `"periodic"`, `"dirichlet"`, `"dirichlet=300"`, `"neumann"` or `"open"`, one word
            or one per axis, with a colon between different ends; `Grid` knows synonyms.
        ndim: number of space axes, where an array does not tell.
        times: instead of `dt`, the time of every frame.

    Returns:
        A `Recording`; frames are read when they are asked for.

    Raises:
        OpsplitError: if the file is missing, damaged or not understood.

    Examples:
        >>> import numpy, opsplit
        >>> numpy.save("frames.npy", numpy.random.rand(8, 32))
        >>> opsplit.read("frames.npy", axes="t,x", dt=0.1).grid.shape
        (32,)
    """
    if ndim is not None and not 1 <= ndim <= 3:
        raise OpsplitError(f"Fields have 1 to 3 space axes, got ndim={ndim}.")
    flags = Flags(axes, channels, dt, extent, boundary, ndim, times)

    try:
        if several := _several(source):
            name = ", ".join(map(str, _paths(source)))
            return joined(name, len(several), lambda i: assemble(_file(several[i], flags), flags))
        return assemble(_raw(source, flags), flags)
    except OpsplitError as reason:
        raise OpsplitError(plain(str(reason))) from None
    except OSError as reason:
        where = plain(str(source), 200)
        raise OpsplitError(f"{where} cannot be opened: {reason.strerror or reason}.") from None


def _raw(source: Any, flags: Flags) -> Raw:
    if isinstance(source, Trajectories):
        from opsplit.io.arrays import of_trajectories

        return of_trajectories(source)
    if is_xarray(source):
        from opsplit.io.netcdf import of_xarray

        return of_xarray(source, flags)
    if hasattr(source, "shape") and hasattr(source, "dtype"):
        from opsplit.io.arrays import of_array

        return of_array(source, flags)
    paths = _paths(source)
    if not paths or not all(isinstance(path, str | Path) for path in paths):
        raise OpsplitError(
            "read takes a path, several paths, an array, a tensor, Trajectories or xarray data, "
            f"got {repr(source)[:60]}."
        )
    if len(paths) == 1 and any((Path(paths[0]) / name).is_file() for name in STORES):
        return READERS["zarr"](Path(paths[0]), flags)
    if len(paths) > 1 or Path(paths[0]).is_dir():
        from opsplit.io.well_recording import of_well

        return of_well(", ".join(map(str, paths)), paths)
    return _file(Path(paths[0]), flags)


def _paths(source: Any) -> list[Any]:
    return list(source) if isinstance(source, list | tuple) else [source]


def _several(source: Any) -> list[Path]:
    """The files of a folder, or those that are named, unless they are of The Well or a store."""
    paths = _paths(source)
    if not paths or not all(isinstance(path, str | Path) for path in paths):
        return []
    places = [Path(path) for path in paths]
    if len(places) > 1:
        if any(place.suffix.lower() in OF_WELL or place.is_dir() for place in places):
            return []
        return places
    folder = places[0]
    if not folder.is_dir() or any((folder / name).is_file() for name in STORES):
        return []
    return files_in(folder, tuple(SUFFIXES))


def is_xarray(source: Any) -> bool:
    """Whether it is a `DataArray` or a `Dataset`, without an import of xarray."""
    return type(source).__module__.partition(".")[0] == "xarray"


def _file(path: Path, flags: Flags) -> Raw:
    """A reader by what the file begins with and what it is called."""
    suffix = path.suffix.lower()
    named = SUFFIXES.get(suffix) or (suffix[1:] if suffix[1:] in READERS else None)
    # A pipe would keep us waiting, and so may files of the system, which say that they are empty.
    if path.exists() and not regular(path).st_size:
        words = f" {WORDS[named]}" if named in WORDS else ""
        raise OpsplitError(f"{path} cannot be read{words}: it is empty.")
    with reading(path, WORDS.get(named or "", "")), open(path, "rb") as stream:
        start = stream.read(16)
    if named is not None and named not in WORDS:
        return READERS[named](path, flags)
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
    return READERS[named or found](path, flags)
