"""A forecast in the format that came in, read back by the library of that format."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import opsplit
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.io import write_well
from opsplit.io.recording import Recording
from opsplit.io.write import write_forecast
from opsplit.trajectories import Trajectories

RNG = np.random.default_rng(4)
TIMES = 2.0 + 0.25 * np.arange(5)


def field(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def points(n: int) -> np.ndarray:
    return np.arange(n) * 0.5 - 2


def well(path: Path) -> Path:
    made = Trajectories(
        torch.from_numpy(field(2, 6, 2, 8, 6)),
        torch.arange(6) * 0.25,
        Grid((8, 6), (4.0, 3.0), ("periodic", "reflect")),
        ("A", "B"),
    )
    return write_well(made, path / "a.hdf5", "x")


def hdf5(name: str, **arrays: np.ndarray) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        with h5py.File(path / name, "w") as file:
            for key, values in arrays.items():
                file[key.replace("__", "/").replace("_coordinate", "-coordinate")] = values
        return path / name

    return write


T = np.arange(6) * 0.25
X, Y = {"x_coordinate": points(8)}, {"y_coordinate": points(6)}
SEED = {"0000__grid__t": T, "0000__grid__x": points(8), "0000__grid__y": points(6)}


def netcdf(path: Path) -> Path:
    xarray = pytest.importorskip("xarray")
    dims = ("time", "lat", "lon")
    fields = {"A": (dims, field(6, 8, 6)), "B": (dims, field(6, 8, 6))}
    made = xarray.Dataset(fields, {"time": T, "lat": points(8), "lon": points(6)})
    made.to_netcdf(path / "a.nc", engine="h5netcdf")
    return path / "a.nc"


def npy(path: Path) -> Path:
    np.save(path / "a.npy", field(6, 8))
    return path / "a.npy"


def npz(path: Path) -> Path:
    np.savez(path / "a.npz", u=field(6, 2, 8), t=T, x=points(8))
    return path / "a.npz"


def mat(path: Path) -> Path:
    io = pytest.importorskip("scipy.io")
    io.savemat(path / "a.mat", {"usol": field(8, 6), "x": points(8), "t": T})
    return path / "a.mat"


MADE = {
    "well": well,
    "scalar": hdf5("a.hdf5", tensor=field(2, 6, 8), t_coordinate=T, **X),
    "gas": hdf5("a.hdf5", density=field(2, 6, 8, 6), Vx=field(2, 6, 8, 6), t_coordinate=T,
                **X, **Y),
    "seeds": hdf5("a.h5", **{"0000__data": field(6, 8, 6, 2)}, **SEED),
    "flow": hdf5("a.h5", velocity=field(2, 6, 8, 6, 2), particles=field(2, 6, 8, 6, 1),
                 t=np.tile(T, (2, 1)), **X, **Y),
    "netcdf": netcdf,
    "npz": npz,
    "mat": mat,
}  # fmt: skip


@pytest.mark.parametrize("kind", MADE)
def test_a_forecast_is_read_like_what_it_continues(kind: str, tmp_path: Path) -> None:
    like = opsplit.read(MADE[kind](tmp_path))
    u = field(5, *like.shape[2:])
    path = write_forecast(like, u, TIMES, tmp_path / "out", coefficients={"D": 0.5})
    found = opsplit.read(path)
    assert path.stem == "forecast" and (found.format, found.layout) == (like.format, like.layout)
    np.testing.assert_array_equal(found.frames(), u)
    np.testing.assert_allclose(found.times, TIMES)
    assert found.grid.shape == like.grid.shape
    assert found.grid.extent == pytest.approx(like.grid.extent)
    if kind not in ("well", "npz"):
        assert found.origin == like.origin
    if kind != "npz":
        assert found.channels == like.channels
    if kind != "seeds":
        assert found.coefficients["D"] == pytest.approx([0.5])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [path.name]


def test_npy_and_arrays(tmp_path: Path) -> None:
    like = opsplit.read(npy(tmp_path))
    u = field(5, 1, 8)
    assert np.array_equal(np.load(write_forecast(like, u, TIMES, tmp_path / "out")), u)
    path = write_forecast(opsplit.read(field(6, 8)), u, TIMES, tmp_path, name="next")
    with np.load(path) as held:
        assert path.name == "next.npz"
        assert np.array_equal(held["u"], u) and np.array_equal(held["times"], TIMES)


def test_the_wells_own_reader_opens_a_forecast(tmp_path: Path) -> None:
    data = pytest.importorskip("the_well.data")
    like = opsplit.read(well(tmp_path))
    u = field(5, *like.shape[2:])
    write_forecast(like, u, TIMES, tmp_path / "x/data/train", coefficients={"D": 0.5})
    found = data.WellDataset(
        path=str(tmp_path / "x"), well_split_name="train", full_trajectory_mode=True,
        n_steps_input=1, normalize_time_grid=False,
    )  # fmt: skip
    sample = found[0]
    fields = torch.cat([sample["input_fields"], sample["output_fields"]])
    assert torch.equal(fields.movedim(-1, 1), torch.from_numpy(u))
    assert sample["constant_scalars"].tolist() == [0.5]
    assert sample["boundary_conditions"].tolist() == [[2.0, 2.0], [0.0, 0.0]]
    assert sample["output_time_grid"].tolist() == TIMES[1:].tolist()


def test_irregular_times_and_single_frames(tmp_path: Path) -> None:
    like = opsplit.read(well(tmp_path))
    times = np.array([2.0, 2.5, 4.0])
    path = write_forecast(like, field(3, *like.shape[2:]), times, tmp_path / "out")
    np.testing.assert_allclose(opsplit.read(path).times, times)
    path = write_forecast(like, field(1, *like.shape[2:]), times[:1], tmp_path / "out")
    with h5py.File(path) as file:
        assert file["t0_fields/A"].shape == (1, 1, 8, 6)


@pytest.mark.parametrize("kind", [*MADE, "npy"])
def test_a_failed_write_leaves_the_old_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    like = opsplit.read({**MADE, "npy": npy}[kind](tmp_path))
    u = field(5, *like.shape[2:])
    path = write_forecast(like, u, TIMES, tmp_path / "out")
    before = path.read_bytes()

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OpsplitError, match="No space left"):
        write_forecast(like, u + 1, TIMES, tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == [path.name]
    assert path.read_bytes() == before


def test_frames_of_another_shape_are_refused(tmp_path: Path) -> None:
    like: Recording = opsplit.read(field(6, 8))
    with pytest.raises(OpsplitError, match=r"has shape \(5, 1, 8\), got \(5, 8\)"):
        write_forecast(like, field(5, 8), TIMES, tmp_path / "out")
    assert not (tmp_path / "out").exists()
