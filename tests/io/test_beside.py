"""Names that people give to times, places, steps and fields beside the usual ones."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import opsplit
from opsplit.errors import OpsplitError
from opsplit.io.beside import role

RNG = np.random.default_rng(5)
U = RNG.normal(size=(7, 16))
T, X = 30.0 * np.arange(7), 125.0 * np.arange(16)
PLANE = RNG.normal(size=(7, 12, 10))
X2, Y2 = 10.0 * np.arange(12), 5.0 * np.arange(10)


@pytest.mark.parametrize(
    "name, meaning",
    [
        ("t", "t"), ("tt", "t"), ("T", "t"), ("time_s", "t"), ("t_array", "t"), ("times", "t"),
        ("t-coordinate", "t"), ("xgrid", "x"), ("x_grid", "x"), ("X", "x"), ("positions", "x"),
        ("lon", "x"), ("lat", "y"), ("x_km", "x"), ("L", "extent"), ("Lx", "Lx"), ("dx", "dx"),
        ("fps", "fps"), ("dt", "dt"), ("u", ""), ("u_x", ""), ("l", ""), ("D", ""), ("x_vel", ""),
        ("data", ""), ("frames", ""), ("t0", ""),
    ],
)  # fmt: skip
def test_the_meaning_of_a_name(name: str, meaning: str) -> None:
    assert role(name) == meaning


@pytest.mark.parametrize(
    "arrays",
    [
        {"data": U, "t_array": T, "x_grid": X},
        {"conc": U, "T": T, "X": X},
        {"T": U, "t": T, "x": X},
        {"u": U, "t": np.meshgrid(T, X, indexing="ij")[0],
         "x": np.meshgrid(T, X, indexing="ij")[1]},
        {"arr_0": U, "arr_1": T, "arr_2": X},
        {"u": U.T, "time_s": T, "x_m": X},
        {"u": U, "t": T.astype("m8[s]"), "x": X},
        {"u": U, "t": np.datetime64("2020-01-01") + T.astype("m8[s]"), "x": X},
        {"u": U, "dt": 30.0, "L": 2000.0},
        {"frames": U, "fps": 1 / 30, "dx": 125.0},
        {"u": U, "t": T, "depth": X},
    ],
)  # fmt: skip
def test_steps_and_boxes_of_archives(arrays: dict[str, Any], tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    held = opsplit.read(tmp_path / "a.npz")
    assert held.dt == pytest.approx(30) and held.grid.extent == pytest.approx((2000,))
    np.testing.assert_array_equal(held.frames()[:, 0], U)
    assert held.coefficients == {}


@pytest.mark.parametrize("form", ["plain", "attributes", "group", "scales"])
def test_any_name_in_hdf5(form: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        place = file.create_group("run/one") if form == "group" else file
        field = place.create_dataset("temperature", data=U.T if form == "scales" else U)
        if form == "attributes":
            file.attrs.update(dt=30.0, L=2000, nu=0.5)
        else:
            place["time"], place["x"] = T, X
        if form == "scales":
            field.dims[0].label, field.dims[1].label = "x", "time"
    held = opsplit.read(tmp_path / "a.h5")
    assert held.dt == 30 and held.grid.extent == (2000.0,)
    np.testing.assert_array_equal(held.frames()[:, 0], U)
    assert list(held.coefficients) == (["nu"] if form == "attributes" else [])


def test_y_before_x(tmp_path: Path) -> None:
    turned = PLANE.swapaxes(1, 2)
    x, y = np.meshgrid(X2, Y2)
    for more in ({"x": X2, "y": Y2}, {"X": x, "Y": y}):
        np.savez(tmp_path / "a.npz", u=turned, t=T, **more)
        held = opsplit.read(tmp_path / "a.npz")
        assert held.grid.extent == (120.0, 50.0)
        np.testing.assert_array_equal(held.frames()[:, 0], PLANE)
    # Lengths do not tell, but a mesh does.
    np.savez(tmp_path / "a.npz", u=PLANE[:, :10], t=T, X=x[:, :10], Y=y[:, :10])
    np.testing.assert_array_equal(
        opsplit.read(tmp_path / "a.npz").frames()[:, 0], PLANE[:, :10].swapaxes(1, 2)
    )


def test_steps_along_two_axes_make_a_plane(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", u=PLANE, dx=10.0, dy=5.0, dt=30.0)
    held = opsplit.read(tmp_path / "a.npz")
    assert held.shape == (1, 7, 1, 12, 10) and held.grid.extent == (120.0, 50.0)


def test_several_fields_are_channels(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", u=U, v=-U, t=T, x=X)
    held = opsplit.read(tmp_path / "a.npz")
    assert held.channels == ("u", "v")
    np.testing.assert_array_equal(held.frames(), np.stack([U, -U], 1))
    one = opsplit.read(tmp_path / "a.npz", channels="v")
    assert one.channels == ("v",)
    np.testing.assert_array_equal(one.frames()[:, 0], -U)
    # A usual name stands alone among others.
    np.savez(tmp_path / "a.npz", u=U, u_noisy=-U, t=T, x=X)
    assert opsplit.read(tmp_path / "a.npz").channels == ("u",)
    with pytest.raises(OpsplitError, match="none over space and time"):
        np.savez(tmp_path / "a.npz", x=X, t=T)
        opsplit.read(tmp_path / "a.npz")


def long_table(head: str, mark: str, row: str) -> str:
    lines = [
        row.format(n=16 * i + j, day=1 + i, t=T[i], x=X[j], u=float(U[i, j]))
        for i in range(7) for j in range(16)
    ]  # fmt: skip
    if mark == ";":
        lines = [line.replace(".", ",") for line in lines]
    return "\n".join([head, *lines]) + "\n"


@pytest.mark.parametrize(
    "text",
    [
        long_table(",t [s],x [m],u", ",", "{n},{t},{x},{u!r}"),
        long_table("t;x;u", ";", "{t};{x};{u!r}"),
        long_table("t,x,u,flag", ",", "{t},{x},{u!r},ok"),
        "\n".join(
            [",".join(["", *map(str, X)])]
            + [",".join(str(float(v)) for v in (T[i], *U[i])) for i in range(7)]
        ),
    ],
)  # fmt: skip
def test_tables_of_other_programs(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    held = opsplit.read(tmp_path / "a.csv")
    assert held.dt == 30 and held.grid.extent == (2000.0,)
    np.testing.assert_allclose(held.frames()[:, 0], U)


def test_a_table_with_dates(tmp_path: Path) -> None:
    text = long_table("time,x,u", ",", "2020-02-{day:02d} 00:00:00+00:00,{x},{u!r}")
    (tmp_path / "a.csv").write_text(text)
    held = opsplit.read(tmp_path / "a.csv")
    assert held.dt == 86400 and held.times[0] == 0
    assert "Units: time in 's after 2020-02-01T00:00:00'." in held.understood
    np.testing.assert_allclose(held.frames()[:, 0], U)


def test_conventions_of_netcdf(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    made = xarray.Dataset(
        {"sst": (("rec", "level", "nj"), U[:, None]),
         "time_bnds": (("rec", "bnds"), np.stack([T, T + 30], 1))},
        {"rec": ("rec", T, {"axis": "T", "bounds": "time_bnds"}), "level": [5.0],
         "nj": ("nj", X, {"axis": "X"})},
    )  # fmt: skip
    made.to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    held = opsplit.read(tmp_path / "a.nc")
    assert (held.shape, held.channels, held.dt) == ((1, 7, 1, 16), ("sst",), 30)
    np.testing.assert_array_equal(held.frames()[:, 0], U)
    assert "One value of level: no axis." in held.understood
