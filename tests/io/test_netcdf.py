"""NetCDF as xarray writes it."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opsplit
from opsplit.errors import OpsplitError

xarray = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")
RNG = np.random.default_rng(2)


def field(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def test_variables_are_channels(tmp_path: Path) -> None:
    a, b = field(3, 5, 8, 6), field(3, 5, 8, 6)
    dims = ("sample", "time", "lat", "lon")
    made = xarray.Dataset(
        {"A": (dims, a), "B": (dims, b), "F": ("sample", [1.0, 2.0, 3.0]), "k": ((), 0.5)},
        {"time": np.arange(5) * 0.5, "lat": np.arange(8) * 0.25 + 1, "lon": np.arange(6) * 2.0},
        {"viscosity": 0.1, "title": "a run"},
    )
    made["time"].attrs["units"] = "days since 2000-01-01"
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    held = opsplit.read(tmp_path / "a.nc")
    assert (held.format, held.shape) == ("netcdf", (3, 5, 2, 6, 8))
    assert held.channels == ("A", "B") and held.dt == 0.5
    # Longitude is x.
    assert held.grid.extent == (12.0, 2.0) and held.origin == (0.0, 1.0)
    a, b = a.swapaxes(2, 3), b.swapaxes(2, 3)
    np.testing.assert_array_equal(held.load().data, np.stack([a, b], 2))
    np.testing.assert_array_equal(held.frames(1, slice(1, 4, 2))[:, 1], b[1, 1:4:2])
    found = {k: v.tolist() for k, v in held.coefficients.items()}
    assert found == {"F": [1, 2, 3], "k": [0.5] * 3, "viscosity": [0.1] * 3}
    assert any("days since 2000" in line for line in held.understood)
    one = opsplit.read(tmp_path / "a.nc", channels=["B"])
    np.testing.assert_array_equal(one.frames(2)[:, 0], b[2])


def test_an_axis_of_channels(tmp_path: Path) -> None:
    u = field(4, 16, 2)
    made = xarray.Dataset(
        {"u": (("t", "x", "channel"), u)}, {"t": np.arange(4.0), "channel": ["h", "v"]}
    )
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    held = opsplit.read(tmp_path / "a.nc")
    assert held.channels == ("h", "v") and held.known == {"dt"}
    np.testing.assert_array_equal(held.frames(), u.transpose(0, 2, 1))


def test_axes_of_unknown_names(tmp_path: Path) -> None:
    u = field(16, 4)
    made = xarray.Dataset({"u": (("place", "when"), u)}, {"when": [0.0, 1, 2, 5]})
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(OpsplitError, match="axes place, when; say what they are"):
        opsplit.read(tmp_path / "a.nc")
    held = opsplit.read(tmp_path / "a.nc", axes="x,t")
    np.testing.assert_array_equal(held.frames()[:, 0], u.T)
    assert held.times.tolist() == [0, 1, 2, 5] and not held.uniform


def test_the_classic_format(tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    u = field(4, 16)
    xarray.Dataset({"u": (("time", "x"), u)}).to_netcdf(tmp_path / "a.nc", engine="scipy")
    np.testing.assert_array_equal(opsplit.read(tmp_path / "a.nc").frames()[:, 0], u)


def test_only_the_asked_frames_are_read(tmp_path: Path, monkeypatch: Any) -> None:
    import h5py

    made = xarray.Dataset({"u": (("time", "x"), field(9, 16))}, {"x": np.arange(16.0)})
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    held = opsplit.read(tmp_path / "a.nc")
    seen, real = [], h5py.Dataset.__getitem__

    def spy(self: Any, index: Any, *more: Any, **options: Any) -> Any:
        found = real(self, index, *more, **options)
        if self.name == "/u":
            seen.append(np.shape(found))
        return found

    monkeypatch.setattr(h5py.Dataset, "__getitem__", spy)
    held.frames(0, slice(2, 5))
    assert seen == [(3, 16)]


def test_a_repeated_last_point_is_left_out(tmp_path: Path) -> None:
    x = np.linspace(0, 2 * np.pi, 33)
    u = np.sin(x[None] - np.arange(5)[:, None])
    xarray.Dataset({"u": (("time", "x"), u)}, {"x": x}).to_netcdf(tmp_path / "a.nc")
    held = opsplit.read(tmp_path / "a.nc")
    assert held.shape[3] == 32 and held.grid.extent[0] == pytest.approx(2 * np.pi)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    dims = ("time", "x")
    bad = {
        "no variable with axes": {"k": ((), 1.0)},
        "different axes": {"a": (dims, field(3, 4)), "b": (("time", "y"), field(3, 5))},
        "real numbers": {"u": (dims, np.array([["a", "b"]]))},
    }
    for words, fields in bad.items():
        xarray.Dataset(fields).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
        with pytest.raises(OpsplitError, match=words):
            opsplit.read(tmp_path / "a.nc")
    xarray.Dataset({"u": (dims, field(30, 40))}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    whole = (tmp_path / "a.nc").read_bytes()
    (tmp_path / "a.nc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(OpsplitError, match="cannot be read as NetCDF"):
        opsplit.read(tmp_path / "a.nc")


def test_without_xarray_it_says_what_to_install(tmp_path: Path, monkeypatch: Any) -> None:
    made = xarray.Dataset({"u": (("time", "x"), field(3, 4))})
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "xarray":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(OpsplitError, match=r"pip install 'opsplit\[netcdf\]'"):
        opsplit.read(tmp_path / "a.nc")
