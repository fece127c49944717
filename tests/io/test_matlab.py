"""MATLAB files of both kinds."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import opsplit
from opsplit.errors import OpsplitError
from opsplit.io.mat_arrays import mat_arrays

io = pytest.importorskip("scipy.io")
RNG = np.random.default_rng(3)
X, T = np.linspace(-8, 8, 32, endpoint=False), np.linspace(0, 10, 21)


def save73(path: Path, arrays: dict[str, Any]) -> None:
    """Version 7.3 as MATLAB writes it: HDF5 after 512 bytes, axes the other way round."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in arrays.items():
            file[name] = np.atleast_2d(values).T
    with open(path, "r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")


SAVE = {"5": lambda path, arrays: io.savemat(path, arrays), "7.3": save73}


@pytest.mark.parametrize("version", SAVE)
@pytest.mark.parametrize("turned", [False, True])
def test_space_and_time_are_told_apart(version: str, turned: bool, tmp_path: Path) -> None:
    u = RNG.normal(size=(32, 21))
    SAVE[version](tmp_path / "a.mat", {"usol": u.T if turned else u, "x": X, "t": T})
    held = opsplit.read(tmp_path / "a.mat")
    assert (held.format, held.shape) == ("mat", (1, 21, 1, 32))
    np.testing.assert_array_equal(held.frames()[:, 0], u.T)
    np.testing.assert_array_equal(held.frames(0, slice(3, 9, 2))[:, 0], u.T[3:9:2])
    np.testing.assert_allclose(held.times, T)
    assert held.grid.extent == (16.0,) and held.origin == (-8.0,)
    assert held.known == {"dt", "extent"}
    words = "time 21, x 32" if turned else "x 32, time 21"
    assert held.understood[0] == f"Read as ({words}), a guess from the lengths."


@pytest.mark.parametrize("version", SAVE)
def test_equal_lengths_follow_matlabs_habit(version: str, tmp_path: Path) -> None:
    u = RNG.normal(size=(21, 21))
    SAVE[version](tmp_path / "a.mat", {"u": u, "t": T})
    np.testing.assert_array_equal(opsplit.read(tmp_path / "a.mat").frames()[:, 0], u.T)
    named = opsplit.read(tmp_path / "a.mat", axes="t,x")
    np.testing.assert_array_equal(named.frames()[:, 0], u)


@pytest.mark.parametrize("version", SAVE)
def test_a_plane_and_a_number(version: str, tmp_path: Path) -> None:
    u = RNG.normal(size=(32, 16, 21))
    more = {"x": X, "y": X[:16], "t": T, "nu": 0.01, "noisy": u + 1}
    SAVE[version](tmp_path / "a.mat", {"u": u, **more})
    held = opsplit.read(tmp_path / "a.mat")
    assert held.shape == (1, 21, 1, 32, 16) and held.grid.extent == (16.0, 8.0)
    np.testing.assert_array_equal(held.frames()[:, 0], u.transpose(2, 0, 1))
    assert held.coefficients["nu"].tolist() == [0.01]
    assert "Its u is read, noisy not." in held.understood


def as_pairs(values: np.ndarray) -> np.ndarray:
    """Complex numbers as MATLAB stores them in HDF5."""
    made = np.empty(values.shape, [("real", "f8"), ("imag", "f8")])
    made["real"], made["imag"] = values.real, values.imag
    return made


@pytest.mark.parametrize("version", SAVE)
def test_an_imaginary_part_that_is_rounding(version: str, tmp_path: Path) -> None:
    u = RNG.normal(size=(32, 21))
    for share, fine in ((1e-6, True), (1e-3, False)):
        made = u + 1j * share * np.abs(u).max()
        stored = as_pairs(made) if version == "7.3" else made
        SAVE[version](tmp_path / "a.mat", {"usol": stored, "x": X, "t": T})
        if not fine:
            with pytest.raises(OpsplitError, match=r"imaginary part is 0\.001\d* of the field"):
                opsplit.read(tmp_path / "a.mat")
            continue
        held = opsplit.read(tmp_path / "a.mat")
        assert any("imaginary part is rounding (1e-06 of" in line for line in held.understood)
        assert held.frames().dtype == np.float64
        np.testing.assert_array_equal(held.frames()[:, 0], u.T)


def test_other_usual_names(tmp_path: Path) -> None:
    u = RNG.normal(size=(32, 21))
    io.savemat(tmp_path / "a.mat", {"uu": u, "xs": X, "tspan": T})
    held = opsplit.read(tmp_path / "a.mat")
    assert held.known == {"dt", "extent"} and held.grid.extent == (16.0,)
    np.testing.assert_allclose(held.times, T)
    assert held.coefficients == {}


def test_a_repeated_last_point_is_left_out(tmp_path: Path) -> None:
    x = np.linspace(-8, 8, 33)
    u = np.cos(np.pi * (x[:, None] - T[None]) / 4)
    io.savemat(tmp_path / "a.mat", {"usol": u, "x": x, "t": T})
    held = opsplit.read(tmp_path / "a.mat")
    assert held.shape == (1, 21, 1, 32) and held.grid.extent == (16.0,)
    assert any("last of 33 points along x is the first again" in s for s in held.understood)
    np.testing.assert_array_equal(held.frames()[:, 0], u.T[:, :32])


@pytest.mark.parametrize(
    "arrays, words",
    [
        ({"a": np.ones((3, 4)), "b": np.ones((3, 5))}, "name those to read, such as channels a"),
        ({"x": X}, "call the field"),
        ({"usol": np.ones((3, 4)) + 1j}, "real numbers"),
        ({"usol": np.ones((32, 20)), "x": X, "t": T}, "21 values of t cannot be read"),
        ({"usol": np.ones((32, 21)), "x": X, "t": T[::-1]}, "times must increase"),
        ({"usol": np.ones((32, 21)), "x": X**3, "t": T}, "unevenly spaced"),
    ],
)
def test_what_is_wrong_is_said(arrays: dict[str, Any], words: str, tmp_path: Path) -> None:
    io.savemat(tmp_path / "a.mat", arrays)
    with pytest.raises(OpsplitError, match=words):
        opsplit.read(tmp_path / "a.mat")


@pytest.mark.parametrize("version", SAVE)
def test_cut_files(version: str, tmp_path: Path) -> None:
    SAVE[version](tmp_path / "a.mat", {"usol": RNG.normal(size=(32, 21)), "x": X, "t": T})
    whole = (tmp_path / "a.mat").read_bytes()
    for size in (600, 1000, len(whole) // 2):
        (tmp_path / "a.mat").write_bytes(whole[:size])
        with pytest.raises(OpsplitError):
            opsplit.read(tmp_path / "a.mat").frames()


TYPES = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "c16", "c8")


@given(
    values=arrays(st.sampled_from(TYPES), array_shapes(min_dims=2, max_dims=4, max_side=4)),
    form=st.sampled_from(["4", "5", "5 packed"]),
)
def test_arrays_are_those_that_scipy_wrote(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray, form: str
) -> None:
    path = tmp_path_factory.mktemp("mat") / "a.mat"
    held = {"a": values, "words": "some", "flags": values == 0, "b2": values[:1], "c": [[2.5]]}
    if form == "4":
        assume(values.ndim == 2 and values.dtype.str[1:] not in ("i1", "u4", "i8", "u8"))
        held.pop("flags")
        io.savemat(path, held, format="4")
    else:
        io.savemat(path, held, do_compression="packed" in form)
    # Not what scipy reads: there an infinite imaginary part makes the real one NaN.
    found, known = mat_arrays(path), {name: np.asarray(held[name]) for name in ("a", "b2", "c")}
    assert found.keys() == {"a", "b2", "c"}
    for name, array in found.items():
        whole = array.read((slice(None),) * len(array.shape))
        assert array.shape == known[name].shape and whole.dtype == array.dtype
        np.testing.assert_array_equal(whole, known[name])
    np.testing.assert_array_equal(found["a"].read((0, slice(0, None, 2))), known["a"][0, ::2])


def test_the_other_byte_order(tmp_path: Path) -> None:
    def element(kind: int, content: bytes) -> bytes:
        return struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)

    values = np.arange(6.0).reshape(2, 3)
    head = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">2i", 2, 3))
    name = struct.pack(">HH4s", 1, 1, b"u")  # Length, type and content in one tag.
    content = head + name + element(9, values.T.astype(">f8").tobytes())
    (tmp_path / "a.mat").write_bytes(b"MATLAB".ljust(124) + b"\1\0MI" + element(14, content))
    found = mat_arrays(tmp_path / "a.mat")["u"]
    np.testing.assert_array_equal(found.read((slice(None), slice(None))), values)


def with_packed(file: bytes, content: bytes) -> bytes:
    """A file with its first array replaced by something compressed."""
    inner, after = zlib.compress(content), 136 + struct.unpack_from("<I", file, 132)[0]
    return file[:128] + struct.pack("<II", 15, len(inner)) + inner + file[after:]


@pytest.mark.parametrize("packed", [False, True])
def test_types_that_do_not_exist_are_refused(packed: bool, tmp_path: Path) -> None:
    """scipy looks such a type up in memory that is not its own, and may end the process."""
    io.savemat(tmp_path / "a.mat", {"usol": RNG.normal(size=(8, 8)), "t": np.arange(8.0)})
    whole = (tmp_path / "a.mat").read_bytes()
    length = struct.unpack_from("<I", whole, 132)[0]
    place = whole.index(struct.pack("<II", 9, 8 * 64))
    for kind in (0, 8, 10, 11, 14, 15, 18, 200, 70_000, 2**32 - 1):
        spoilt = whole[:place] + struct.pack("<I", kind) + whole[place + 4 :]
        if packed:
            inner = zlib.compress(spoilt[128 : 136 + length])
            spoilt = (
                whole[:128] + struct.pack("<II", 15, len(inner)) + inner + whole[136 + length :]
            )
        (tmp_path / "a.mat").write_bytes(spoilt)
        with pytest.raises(OpsplitError, match=r"a\.mat"):
            opsplit.read(tmp_path / "a.mat").frames()


def test_what_is_compressed_is_not_inflated_beyond_its_claim(tmp_path: Path) -> None:
    """300 kB that would become 300 MB."""
    io.savemat(tmp_path / "a.mat", {"usol": np.zeros((8, 8)), "t": np.arange(8.0)})
    whole = (tmp_path / "a.mat").read_bytes()
    length = struct.unpack_from("<I", whole, 132)[0]
    bomb = with_packed(whole, whole[128 : 136 + length] + bytes(300_000_000))
    (tmp_path / "a.mat").write_bytes(bomb)
    tracemalloc.start()
    try:
        assert opsplit.read(tmp_path / "a.mat").frames().shape == (8, 1, 8)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
