"""Contradictions, bad arrays and malformed files: one sentence each, nothing is loaded."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from made import field, trajectories

import opsplit
from opsplit.errors import OpsplitError
from opsplit.io import write_well


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"dt": 0.3}, r"time between frames in the file: 0.25, as you say: 0.3"),
        ({"extent": 7}, r"length of x in the file: 2, as you say: 7"),
        ({"boundary": "zero"}, "in the file: periodic,neumann, as you say: dirichlet,dirichlet"),
        ({"channels": "A,C"}, "channels in the file: A,B, as you say: A,C"),
        ({"axes": "t,c,x,y"}, "axes in the file: n,t,c,x,y, as you say: t,c,x,y"),
        ({"ndim": 1}, "number of space axes in the file: 2, as you say: 1"),
        ({"channels": "A,A"}, "different names"),
        ({"dt": -1}, "must be positive"),
        ({"extent": [1, 2, 3]}, "needs one positive length"),
    ],
)
def test_contradictions(flags: dict[str, Any], words: str, tmp_path: Path) -> None:
    made = trajectories()
    for path in (made.save(tmp_path / "a.npz"), write_well(made, tmp_path / "a.hdf5", "x")):
        with pytest.raises(OpsplitError, match=words):
            opsplit.read(path, **flags)
    same = opsplit.read(path, dt=0.25, extent=(2, 3), boundary=("periodic", "reflect"), ndim=2)
    assert same.shape == (3, 6, 2, 8, 6)


@pytest.mark.parametrize(
    "arrays, words",
    [
        ({"u": field(4, 6), "t": [0, 2, 1, 3]}, "frame 1 is at 2 and frame 2 at 1"),
        ({"u": field(4, 6), "t": [0, 1, np.nan, 3]}, "times must increase"),
        ({"u": field(4, 6), "t": [0, 1, 2]}, r"shape \(4, 6\) with 3 values of t cannot be read"),
        ({"u": field(4, 6), "x": [0, 1, 2, 3, 4, 9]}, "unevenly spaced"),
        ({"u": field(4, 6), "x": [6, 5, 4, 3, 2, 2]}, "unevenly spaced"),
        ({"u": field(4)}, r"An array of shape \(4,\) cannot be read"),
        ({"u": field(1, 6)}, r"Read as \(time 1, x 6\), that is a single frame"),
        ({"u": field(0, 6)}, "that is no values"),
        ({"u": field(4, 6) + 1j}, "real numbers"),
        ({"u": field(4, 6) > 0}, "real numbers"),
        ({"u": np.array([["a", "b"]])}, "real numbers"),
        ({"a": field(4, 6), "b": field(4, 7)}, r"\['a', 'b'\]; name those to read"),
        ({}, "holds no arrays"),
    ],
)
def test_bad_arrays(arrays: dict[str, Any], words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(OpsplitError, match=words):
        opsplit.read(tmp_path / "a.npz")


@pytest.mark.parametrize("source", [3, None, [], [3]])
def test_bad_sources(source: Any) -> None:
    with pytest.raises(OpsplitError, match="read takes a path, several paths, an array"):
        opsplit.read(source)


def test_bad_questions() -> None:
    held = opsplit.read(field(4, 6))
    for trajectory, frames, words in [
        (1, slice(None), "trajectories 0..0, not number 1"),
        (-1, slice(None), "trajectories 0..0"),
        (0, slice(9, 12), "frames 0..3"),
        (0, slice(None, None, -1), "backwards"),
    ]:
        with pytest.raises(OpsplitError, match=words):
            held.frames(trajectory, frames)
    with pytest.raises(OpsplitError, match="at least one trajectory"):
        held.load([])


def absurd(path: Path) -> None:
    """A header that claims 8 TB."""
    with open(path, "wb") as stream:
        head = {"shape": (2, 10**12), "fortran_order": False, "descr": "<f4"}
        np.lib.format.write_array_header_1_0(stream, head)
        stream.write(b"12345678")


def absurd_member(path: Path) -> None:
    absurd(path.with_suffix(".npy"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(path.with_suffix(".npy"), "u.npy")


def pickled(path: Path) -> None:
    np.save(path, np.array([[1, None]], dtype=object), allow_pickle=True)


def pickled_member(path: Path) -> None:
    np.savez(path, allow_pickle=True, u=np.array([[1, None]], dtype=object))


def halved(make: Callable[[Path], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        make(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return write


def called(save: Callable[..., None]) -> Callable[[Path], None]:
    """A numpy file by another name, which numpy would extend."""

    def write(path: Path) -> None:
        with open(path, "wb") as stream:
            save(stream, field(9, 9))

    return write


def absurd_well(path: Path) -> None:
    write_well(trajectories(), path, "x")
    with h5py.File(path, "r+") as file:
        file.attrs["n_trajectories"] = 10**15


def long_times(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("tensor", (2, 3, 4), "f4")
        file.create_dataset("t-coordinate", (11_000_000,), "f4", chunks=(1000,))


def elsewhere(path: Path) -> None:
    long_times(path.with_name("other.h5"))
    with h5py.File(path, "w") as file:
        file["tensor"] = h5py.ExternalLink(path.with_name("other.h5"), "tensor")
        file["t-coordinate"] = np.arange(3.0)


@pytest.mark.parametrize(
    "name, make, words",
    [
        ("a.npy", lambda p: p.write_text("1 2 3"), "cannot be read by numpy"),
        ("a.npz", lambda p: p.write_text("1 2 3"), "cannot be read by numpy"),
        ("a.h5", lambda p: p.write_text("1 2 3"), "cannot be read as HDF5"),
        ("a.nc", lambda p: p.write_text("1 2 3"), "cannot be read as NetCDF"),
        ("a.mat", lambda p: p.write_text("1 2 3"), "cannot be read as a MATLAB file"),
        ("a.doc", lambda p: p.write_text("1 2 3"), "a.doc is none of .npy"),
        ("a.npy", lambda p: p.write_bytes(b""), "cannot be read by numpy"),
        ("a.mat", lambda p: p.write_bytes(b""), "cannot be read as a MATLAB file"),
        ("a.npy", absurd, "cannot be read by numpy"),
        ("a.npz", absurd_member, "another size than its header says"),
        ("a.npy", pickled, "cannot be read by numpy"),
        ("a.npz", pickled_member, "cannot be read by numpy"),
        ("a.npy", halved(lambda p: np.save(p, field(9, 9))), "cannot be read by numpy"),
        ("a.npz", halved(lambda p: np.savez(p, u=field(9, 9))), "cannot be read by numpy"),
        ("a.h5", halved(lambda p: write_well(trajectories(), p, "x")), "cannot be read as HDF5"),
        ("a.npz", called(np.save), "not hold what its name says"),
        ("a.h5", called(np.savez), "not hold what its name says"),
        ("a.h5", absurd_well, "at most 10000000 are believed"),
        ("a.h5", long_times, "at most 10000000 are believed"),
        ("a.h5", elsewhere, "points into another file"),
        ("a.h5", lambda p: p.mkdir(), "holds no .hdf5 or .h5 file"),
        ("a.h5", lambda p: None, "No such file"),
    ],
)
def test_malformed_files(
    name: str, make: Callable[[Path], Any], words: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    with pytest.raises(OpsplitError, match=words) as error:
        opsplit.read(tmp_path / name)
    assert "\n" not in str(error.value)


def test_a_file_damaged_in_its_fields_is_refused_when_they_are_read(tmp_path: Path) -> None:
    path = write_well(trajectories(), tmp_path / "a.hdf5", "x")
    with h5py.File(path) as file:
        begin = file["t0_fields/A"].id.get_chunk_info(0).byte_offset
    damaged = bytearray(path.read_bytes())
    damaged[begin] ^= 255
    path.write_bytes(damaged)
    with pytest.raises(OpsplitError, match="cannot be read as HDF5"):
        opsplit.read(path).frames()


# Names beside a field, complex numbers, readers of other packages


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", u=field(4, 6), dt=0.1)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        again = archive.read("dt.npy")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("dt.npy", again)
    with pytest.raises(OpsplitError, match="holds two arrays of one name"):
        opsplit.read(tmp_path / "a.npz")


def test_a_chunk_that_is_longer_in_the_file_than_in_memory_is_refused(tmp_path: Path) -> None:
    """The library would inflate a chunk to its end, whatever the header says; here to 256 MB."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("u", data=field(9, 32), chunks=(3, 32), compression="gzip")
        file["dt"] = 0.1
    assert opsplit.read(path).shape == (1, 9, 1, 32)
    with h5py.File(path, "r+") as file:
        file["u"].id.write_direct_chunk((3, 0), zlib.compress(bytes(2**28), 9))
    with pytest.raises(OpsplitError, match=r"u has a chunk of \d+ bytes for"):
        opsplit.read(path)


def test_groups_in_groups_end_somewhere(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["u"], file["dt"] = field(4, 32), 0.1
        file.create_group("g/" * 50)
    assert opsplit.read(path).shape == (1, 4, 1, 32)
    with h5py.File(path, "r+") as file:
        file.create_group("h/" * 200)
    with pytest.raises(OpsplitError, match="groups in groups, more than 100 deep"):
        opsplit.read(path)
