"""`to_xarray`: the numbers keep their place, names never hide each other."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.xarrays import to_xarray

xarray = pytest.importorskip("xarray", reason="pip install opsplit[netcdf]")


@pytest.mark.parametrize("shape", [(4,), (4, 6), (4, 6, 5)])
@pytest.mark.parametrize("trajectories", [0, 3])
def test_axes_and_values(shape: tuple[int, ...], trajectories: int) -> None:
    grid = Grid(shape, tuple(0.5 * n for n in shape), "reflect")
    lead = (trajectories,) if trajectories else ()
    frames = torch.randn(*lead, 7, 2, *shape, generator=torch.Generator().manual_seed(0))
    times = np.array([0, 1, 2, 4, 5, 6, 9.5])
    found = to_xarray(frames, times, grid, ("A", "B"), attrs={"seed": 0})
    assert list(found.data_vars) == ["A", "B"]
    axes = (*(("trajectory",) if trajectories else ()), "time", *"xyz"[: len(shape)])
    assert found["B"].dims == axes
    assert found["B"].dtype == np.float32
    np.testing.assert_array_equal(found["B"].values, frames.select(len(lead) + 1, 1).numpy())
    np.testing.assert_array_equal(found["time"].values, times)
    np.testing.assert_allclose(found["x"].values, [0, 0.5, 1, 1.5])
    assert found.attrs["extent"] == list(grid.extent)
    assert found.attrs["boundary"] == ", ".join(["neumann"] * len(shape))
    assert found.attrs["seed"] == 0


def test_coefficients_are_coordinates() -> None:
    grid = Grid((4,), (1.0,))
    several = to_xarray(
        np.zeros((3, 2, 1, 4)), [0, 1], grid, ["u"], {"c": torch.tensor([1.0, 2, 3])}
    )
    assert several["c"].dims == ("trajectory",)
    assert float(several["u"].sel(trajectory=1).c) == 2
    one = to_xarray(np.zeros((2, 1, 4)), [0, 1], grid, ["u"], {"c": 0.5, "D": [0.25]})
    assert (float(one["c"]), float(one["D"])) == (0.5, 0.25)
    with pytest.raises(OpsplitError, match="'c' needs one value for each of the 3"):
        to_xarray(np.zeros((3, 2, 1, 4)), [0, 1], grid, ["u"], {"c": [1.0, 2.0]})


def test_names_that_are_taken() -> None:
    frames = np.arange(2 * 3 * 4.0).reshape(2, 3, 4)
    found = to_xarray(frames, [0, 1], Grid((4,), (1.0,)), ["x", "u", "u"], {"u": 1.0})
    assert list(found.data_vars) == ["field_x", "u", "field_u"]
    np.testing.assert_array_equal(found["field_u"].values, frames[:, 2])
    assert found["field_x"].attrs["long_name"] == "x"
    assert float(found["coefficient_u"]) == 1


@pytest.mark.parametrize("shape", [(2, 1, 5), (3, 1, 4), (2, 2, 4), (2, 4), (1, 1, 2, 1, 4)])
def test_shapes_that_do_not_fit(shape: tuple[int, ...]) -> None:
    with pytest.raises(OpsplitError, match="need frames"):
        to_xarray(np.zeros(shape), [0, 1], Grid((4,), (1.0,)), ["u"])


def test_to_a_file_and_back(tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf", reason="pip install opsplit[netcdf]")
    frames = np.random.default_rng(0).normal(size=(3, 2, 4, 6))
    given = to_xarray(frames, [0, 1, 2], Grid((4, 6), (1.0, 2.0)), ["A", "B"], {"F": 0.04})
    given.to_netcdf(tmp_path / "u.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "u.nc", engine="h5netcdf") as again:
        xarray.testing.assert_equal(again, given)
        np.testing.assert_array_equal(again.attrs["extent"], [1.0, 2.0])


def test_without_xarray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(OpsplitError, match=r"pip install 'opsplit\[netcdf\]'"):
        to_xarray(np.zeros((2, 1, 4)), [0, 1], Grid((4,), (1.0,)), ["u"])
