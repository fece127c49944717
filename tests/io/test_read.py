"""`opsplit.read` on arrays, `.npy`, `.npz` and The Well: what is guessed, said and refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from made import field, trajectories

import opsplit
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.io import load_trajectories, write_well
from opsplit.io.arrays import of_array
from opsplit.io.assemble import Flags, Raw
from opsplit.io.axes import guess_axes, parse_axes
from opsplit.registry import Registry


@pytest.mark.parametrize(
    "shape, ndim, letters",
    [
        ((50, 256), None, "tx"),
        ((50, 1, 256), None, "tcx"),
        ((50, 256, 2), None, "txc"),
        ((10, 50, 256), None, "ntx"),
        ((50, 64, 64), None, "txy"),
        ((50, 64, 64), 1, "ntx"),
        ((50, 64, 32), 2, "txy"),
        ((50, 2, 64, 64), None, "tcxy"),
        ((50, 64, 64, 3), None, "txyc"),
        ((8, 50, 64, 64), None, "ntxy"),
        ((20, 50, 256, 3), None, "ntxc"),
        ((4, 50, 2, 64, 64), None, "ntcxy"),
        ((4, 50, 1, 256), 1, "ntcx"),
        ((50, 3, 32, 32, 32), None, "tcxyz"),
    ],
)
def test_guesses_of_axes(shape: tuple[int, ...], ndim: int | None, letters: str) -> None:
    assert guess_axes(shape, {}, ndim) == letters


def test_known_lengths_decide() -> None:
    assert guess_axes((256, 101), {"t": 101, "x": 256}, None) == "xt"
    assert guess_axes((101, 256), {"t": 101, "x": 256}, None, time_last=True) == "tx"
    assert guess_axes((100, 100), {"t": 100, "x": 100}, None) == "tx"
    assert guess_axes((100, 100), {"t": 100, "x": 100}, None, time_last=True) == "xt"
    assert guess_axes((9, 20, 30), {"t": 9}, None) == "txy"
    assert guess_axes((20, 30), {"t": 9}, None) is None


@pytest.mark.parametrize(
    "text, letters",
    [
        ("t,x", "tx"),
        ("tx", "tx"),
        ("n,t,c,x,y", "ntcxy"),
        ("trajectory,time,channel,x", "ntcx"),
        ("run,time,x", "ntx"),
    ],
)
def test_names_of_axes(text: str, letters: str) -> None:
    assert parse_axes(text) == parse_axes(text.split(",")) == letters


@pytest.mark.parametrize("text", ["", "t", "x", "t,t,x", "t,y", "t,x,q", "t,,x", "txx"])
def test_bad_names_of_axes(text: str) -> None:
    with pytest.raises(OpsplitError, match="such as t,x or n,t,c,x,y"):
        parse_axes(text)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_arrays_in_memory(kind: Callable[[Any], Any]) -> None:
    u = field(7, 2, 16)
    held = opsplit.read(kind(u), dt=0.5, extent=4)
    assert (held.format, held.source, held.shape) == ("array", "array", (1, 7, 2, 16))
    np.testing.assert_array_equal(held.frames(), u)
    np.testing.assert_array_equal(held.frames(0, slice(2, 6, 3)), u[2:6:3])
    np.testing.assert_array_equal(held.times, np.arange(7) * 0.5)
    assert held.grid == Grid((16,), (4.0,)) and held.dt == 0.5 and held.uniform
    assert held.known == {"dt", "extent"}
    assert held.understood[0] == "Read as (time 7, channel 2, x 16), a guess from the lengths."
    assert any("periodic, unless the frames show walls" in line for line in held.understood)


def test_every_guess_is_said() -> None:
    held = opsplit.read(field(7, 16))
    assert held.known == frozenset() and held.dt == 1.0 and held.grid.extent == (16.0,)
    assert len(held.understood) == 4
    said = opsplit.read(
        field(7, 16), axes="t,x", dt=1, extent=16, boundary="periodic", channels="h"
    )
    assert said.understood == ("Read as (time 7, x 16).",) and said.channels == ("h",)
    assert said.known == {"dt", "extent", "boundary"}


def test_axes_in_any_order() -> None:
    u = field(3, 16, 5, 2, 8)
    held = opsplit.read(u, axes="n,x,t,c,y")
    assert held.shape == (3, 5, 2, 16, 8)
    expected = u.transpose(0, 2, 3, 1, 4)
    np.testing.assert_array_equal(held.frames(2, slice(1, 4)), expected[2, 1:4])
    np.testing.assert_array_equal(held.load([2, 0]).data, expected[[2, 0]])


def test_integers_and_foreign_byte_orders() -> None:
    u = np.arange(24).reshape(4, 6)
    assert opsplit.read(u).frames().dtype == np.float32
    swapped = opsplit.read(u.astype(">f8")).frames()
    assert swapped.dtype == np.float64 and swapped.dtype.isnative
    np.testing.assert_array_equal(swapped[:, 0], u)


def test_npy_is_mapped(tmp_path: Path) -> None:
    u = field(5, 32)
    np.save(tmp_path / "a.npy", u)
    held = opsplit.read(tmp_path / "a.npy", dt=0.1, channels=["h"], boundary="zero")
    assert held.format == "npy" and held.channels == ("h",) and held.grid.boundary == ("dirichlet",)
    # What is changed in the file after it was opened is seen: nothing was read before.
    np.lib.format.open_memmap(tmp_path / "a.npy", "r+")[3] = 7
    assert (held.frames(0, slice(3, 4)) == 7).all()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_with_everything(save: Any, tmp_path: Path) -> None:
    u, x, t = field(3, 6, 16), np.arange(16) * 0.25 - 2, np.array([0, 1, 2, 4, 5, 6.5])
    save(tmp_path / "a.npz", u=np.asfortranarray(u), t=t, x=x, D=[1.0, 2, 3], note="hello")
    held = opsplit.read(tmp_path / "a.npz")
    assert held.shape == (3, 6, 1, 16) and held.format == "npz"
    np.testing.assert_array_equal(held.frames(1, slice(2, 5))[:, 0], u[1, 2:5])
    np.testing.assert_array_equal(held.times, t)
    assert not held.uniform and held.dt == 1.0
    assert held.grid.extent == (4.0,) and held.origin == (-2.0,)
    np.testing.assert_allclose(held.axes()[0], x)
    assert held.coefficients["D"].tolist() == [1, 2, 3] and set(held.coefficients) == {"D"}
    assert held.known == {"dt", "extent"}
    assert any("irregular" in line for line in held.understood)


def test_npz_with_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", v=field(6, 16), dt=0.5, extent=[8.0])
    held = opsplit.read(tmp_path / "a.npz")
    assert held.dt == 0.5 and held.grid.extent == (8.0,) and held.known == {"dt", "extent"}


def test_our_own_npz(tmp_path: Path) -> None:
    made = trajectories()
    held = opsplit.read(made.save(tmp_path / "a.npz"))
    found = held.load()
    assert torch.equal(found.data, made.data) and torch.equal(found.times, made.times)
    assert (found.grid, found.channels) == (made.grid, made.channels)
    assert torch.equal(found.coefficients["F"], made.coefficients["F"])
    assert held.known == {"dt", "extent", "boundary"} and len(held.understood) == 1


def test_the_well(tmp_path: Path) -> None:
    made = trajectories(5)
    paths = [
        write_well(made[:2], tmp_path / "data/train/0.hdf5", "x"),
        write_well(made[2:], tmp_path / "data/train/1.hdf5", "x"),
    ]
    for source in (tmp_path, paths, [str(p) for p in paths]):
        held = opsplit.read(source)
        assert held.format == "well" and held.shape == (5, 6, 2, 8, 6)
        assert torch.equal(held.load().data, made.data)
        np.testing.assert_array_equal(held.frames(3, slice(1, 3)), made.data[3, 1:3])
        assert held.coefficients["F"].tolist() == [0, 1, 2, 3, 4]
        assert held.grid == made.grid and held.known == {"dt", "extent", "boundary"}
    one = opsplit.read(paths[1], channels="B")
    np.testing.assert_array_equal(one.frames(0), made.data[2, :, 1:])


def test_the_well_with_vectors_and_irregular_times(tmp_path: Path) -> None:
    made = trajectories(2)
    path = write_well(made, tmp_path / "a.hdf5", "x")
    v, depth = field(2, 6, 8, 6, 2), field(8)
    with h5py.File(path, "r+") as file:
        file["t1_fields/v"] = v
        flags = {"sample_varying": True, "time_varying": True, "dim_varying": [True, True]}
        file["t1_fields/v"].attrs.update(flags)
        file["t1_fields"].attrs["field_names"] = ["v"]
        file["t0_fields/depth"] = depth
        flags = {"sample_varying": False, "time_varying": False, "dim_varying": [True, False]}
        file["t0_fields/depth"].attrs.update(flags)
        file["t0_fields"].attrs["field_names"] = ["A", "B", "depth"]
        file["dimensions/time"][...] = [0, 1, 2, 4, 5, 6]
    held = opsplit.read(path)
    assert held.channels == ("A", "B", "depth", "v_x", "v_y")
    frames = held.frames(1, slice(2, 5))
    np.testing.assert_array_equal(frames[:, :2], made.data[1, 2:5])
    np.testing.assert_array_equal(frames[:, 3:], np.moveaxis(v[1, 2:5], -1, 1))
    np.testing.assert_array_equal(frames[0, 2], np.repeat(depth[:, None], 6, 1))
    assert held.times.tolist() == [0, 1, 2, 4, 5, 6] and not held.uniform


def test_a_huge_file_opens_and_gives_a_few_frames(tmp_path: Path) -> None:
    """20 GB that were declared and never written, but for a few frames."""
    path = tmp_path / "huge.hdf5"
    with h5py.File(path, "w") as file:
        for name in ("density", "Vx"):
            file.create_dataset(name, (100, 100, 512, 512), "f4", chunks=(1, 1, 512, 512))
            # Whole arrays: h5py writes a number that is spread over a block very slowly.
            file[name][70, 40:50] = np.zeros((10, 512, 512), "f4")
            file[name][70, 50:52] = np.ones((2, 512, 512), "f4") * [[[1]], [[2]]]
        for a, n in (("x", 512), ("y", 512), ("t", 101)):
            file[f"{a}-coordinate"] = np.arange(n) / n
    held = opsplit.read(path)
    assert held.shape == (100, 100, 2, 512, 512)
    frames = held.frames(70, slice(40, 56))
    assert frames.shape == (16, 2, 512, 512)
    assert frames[:, 0, 0, 0].tolist() == [0] * 10 + [1, 2] + [0] * 4
    with pytest.raises(OpsplitError, match=r"10000 frames are 40000 MB, more than 2000 MB"):
        held.load()
    with pytest.raises(OpsplitError, match="more than 10 MB"):
        held.frames(0, slice(0, 4), limit_mb=10)


def test_a_large_npz_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", u=field(6, 16))
    held = opsplit.read(tmp_path / "a.npz")
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", None)
    assert held.frames(0, slice(1, 3)).shape == (2, 1, 16)


def test_missing_frames_are_allowed_and_holes_are_not() -> None:
    u = field(6, 16)
    u[2] = np.nan
    held = opsplit.read(u)
    assert np.isnan(held.frames()[2]).all()
    u[4, 3:5] = np.nan, np.inf
    with pytest.raises(OpsplitError, match="2 values are NaN or infinite, the first in frame 4 of"):
        held.frames(0, slice(0, 6, 2))
    assert held.frames(0, slice(0, 4)).shape == (4, 1, 16)


@pytest.mark.parametrize(
    "ends, dropped", [("periodic", True), ("wall", False), ("flat", False), ("open", False)]
)
def test_a_repeated_last_point_is_left_out(ends: str, dropped: bool, tmp_path: Path) -> None:
    x, t = np.linspace(-8, 8, 65), np.linspace(0, 1, 11)
    at = x[None] - t[:, None]
    u = {
        "periodic": np.sin(np.pi * at / 4),
        "wall": np.sin(np.pi * (x + 8) / 16) * np.exp(-t)[:, None],
        "flat": np.exp(-(x**2)) * np.exp(-t)[:, None],
        "open": at,
    }[ends]
    np.savez(tmp_path / "a.npz", u=u, x=x, t=t)
    held = opsplit.read(tmp_path / "a.npz")
    assert held.shape[3] == (64 if dropped else 65)
    assert held.grid.extent[0] == pytest.approx(16 if dropped else 16.25)
    assert any("is the first again" in line for line in held.understood) == dropped
    np.testing.assert_array_equal(held.frames()[:, 0], u[:, : held.shape[3]])
    if dropped:
        walls = opsplit.read(tmp_path / "a.npz", boundary="reflect")
        assert walls.shape[3] == 65


@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.parametrize("names", [("dt", "dx"), ("delta_t", "delta_x")])
def test_steps_and_spacings_are_used(suffix: str, names: tuple[str, str], tmp_path: Path) -> None:
    u, path = np.random.default_rng(0).normal(size=(7, 16)), tmp_path / f"a{suffix}"
    arrays = {"u": u, names[0]: 0.25, names[1]: 0.5}
    if suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = values
    held = opsplit.read(path)
    assert held.known == {"dt", "extent"} and held.coefficients == {}
    assert held.dt == 0.25 and held.grid.extent == (8.0,)
    np.testing.assert_array_equal(held.frames()[:, 0], u)


def test_spacings_per_axis(tmp_path: Path) -> None:
    u = np.zeros((5, 8, 16))
    np.savez(tmp_path / "a.npz", u=u, dx=0.5, dy=0.25, dt=1.0)
    assert opsplit.read(tmp_path / "a.npz", axes="t,x,y").grid.extent == (4.0, 4.0)
    np.savez(tmp_path / "a.npz", u=u, dx=0.5, dt=1.0)
    assert opsplit.read(tmp_path / "a.npz", axes="t,x,y").grid.extent == (4.0, 8.0)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5", None])
def test_complex_numbers(suffix: str | None, tmp_path: Path) -> None:
    u = np.random.default_rng(0).normal(size=(7, 16))
    rough = u + 1e-7j
    source: Any = rough
    if suffix is not None:
        source = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        np.save(source, rough)
    elif suffix == ".npz":
        np.savez(source, u=rough)
    elif suffix == ".h5":
        with h5py.File(source, "w") as file:
            file["u"] = rough
    held = opsplit.read(source, axes="t,x")
    np.testing.assert_array_equal(held.frames()[:, 0], u)
    assert any("imaginary part is rounding" in line for line in held.understood)
    # A frame that the sample did not hold is looked at when it is read.
    spoiled = np.repeat(rough, 20, 0)
    spoiled[1] += 1j
    with pytest.raises(OpsplitError, match="real numbers"):
        opsplit.read(spoiled, axes="t,x").frames()


def test_a_reader_of_another_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    u = np.random.default_rng(0).normal(size=(7, 16))
    (tmp_path / "a.raw").write_bytes(u.tobytes())

    def of_raw(path: Path, flags: Flags) -> Raw:
        values = np.frombuffer(path.read_bytes()).reshape(7, 16)
        return replace(of_array(values, flags), source=str(path), format="raw")

    with pytest.raises(OpsplitError, match=r"a\.raw is none of \.npy"):
        opsplit.read(tmp_path / "a.raw")
    registry = Registry("reader", "opsplit.readers", {})
    registry.add("raw", of_raw)
    monkeypatch.setattr("opsplit.io.read.READERS", registry)
    held = opsplit.read(tmp_path / "a.raw", dt=0.1)
    assert held.format == "raw"
    np.testing.assert_array_equal(held.frames()[:, 0], u)


def test_a_part_is_a_recording() -> None:
    u = np.arange(3 * 9 * 8.0).reshape(3, 9, 8)
    whole = opsplit.read(u, axes="n,t,x", dt=0.5)
    part = whole.part([2, 0], slice(1, 8, 2))
    assert part.shape == (2, 4, 1, 8) and part.times.tolist() == [0.5, 1.5, 2.5, 3.5]
    np.testing.assert_array_equal(part.frames(0)[:, 0], u[2, 1:8:2])
    np.testing.assert_array_equal(part.frames(1, slice(-2, None))[:, 0], u[0, [5, 7]])
    with pytest.raises(OpsplitError, match=r"trajectories 0\.\.2, not number 3"):
        whole.part([3])


def test_every_format_can_be_trained_on(tmp_path: Path) -> None:
    u = np.random.default_rng(0).normal(size=(3, 7, 16)).astype(np.float32)
    np.savez(tmp_path / "a.npz", u=u, dt=0.5, dx=0.25, c=[1.0, 2.0, 3.0])
    found = load_trajectories(tmp_path / "a.npz")
    assert found.dt == 0.5 and found.grid.extent == (4.0,)
    assert found.coefficients["c"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(found.data[:, :, 0], u)
    np.savez(tmp_path / "b.npz", u=u)
    with pytest.raises(OpsplitError, match="does not say the time between frames"):
        load_trajectories(tmp_path / "b.npz")
    u[1, 2] = np.nan
    np.savez(tmp_path / "c.npz", u=u, dt=0.5, c=[1.0, 2.0, 3.0])
    with pytest.raises(OpsplitError, match="NaN or infinite"):
        load_trajectories(tmp_path / "c.npz")


def test_an_axis_that_falls_is_turned_round(tmp_path: Path) -> None:
    u, x = np.random.default_rng(0).standard_normal((4, 12)), np.linspace(0, 5.5, 12)
    np.savez(tmp_path / "up.npz", u=u, x=x, t=np.arange(4.0))
    np.savez(tmp_path / "down.npz", u=u[:, ::-1], x=x[::-1], t=np.arange(4.0))
    up, down = (opsplit.read(tmp_path / f"{name}.npz") for name in ("up", "down"))
    assert up.grid == down.grid and up.origin == down.origin
    np.testing.assert_array_equal(up.load().data.numpy(), down.load().data.numpy())
    assert any("turned round" in words for words in down.understood)


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.longdouble])
def test_what_is_masked_is_missing(kind: type) -> None:
    values = np.arange(80).reshape(5, 16).astype(kind)
    masked = np.ma.masked_array(values, mask=values == 7)
    found = opsplit.read(masked, dt=0.1).frames(holes=True)
    assert np.flatnonzero(np.isnan(found)).tolist() == [7]
    times = np.ma.masked_array(np.arange(5.0), mask=np.arange(5) == 2)
    with pytest.raises(OpsplitError, match="times must increase"):
        opsplit.read(values, times=times)


@pytest.mark.parametrize(("name", "axes"), [("u", "tx"), ("usol", "xt"), ("uu", "xt")])
def test_as_many_times_as_points(name: str, axes: str, tmp_path: Path) -> None:
    """The name of a field from MATLAB tells the order, and the guess is said."""
    t, x = 0.1 * np.arange(32), np.linspace(0, 1, 32, endpoint=False)
    u = np.sin(2 * np.pi * (x - t[:, None]))
    np.savez(tmp_path / "a.npz", **{name: u if axes == "tx" else u.T}, t=t, x=x)
    found = opsplit.read(tmp_path / "a.npz")
    np.testing.assert_allclose(found.frames(0, slice(None))[:, 0], u, atol=1e-6)
    assert any("equally long" in words for words in found.understood)
    given = opsplit.read(tmp_path / "a.npz", axes=axes)
    assert not any("equally long" in words for words in given.understood)
