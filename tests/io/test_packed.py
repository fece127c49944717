"""Numbers that are packed or missing by attributes mean the same in every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray
import zarr

import opsplit
from opsplit.errors import OpsplitError

TIMES, PLACES = np.arange(6) * 0.1, np.arange(16) * 0.5
FIELD = np.round(np.sin(2 * np.pi * (PLACES[None] / 8 - TIMES[:, None])) + 3.0, 3)
PACKED = np.round((FIELD - 2.0) / 0.001).astype(np.int16)
BY = {"scale_factor": 0.001, "add_offset": 2.0}
FORMS = ("hdf5", "netcdf", "netcdf3", "zarr2", "zarr3")


def stored(folder: Path, form: str, u: np.ndarray, attributes: dict[str, Any]) -> Path:
    """A file with the field `u` and its attributes, as they are."""
    arrays = {"u": u, "time": TIMES, "x": PLACES}
    if form.startswith("zarr"):
        path = folder / f"{form}.zarr"
        group = zarr.open_group(path, mode="w", zarr_format=int(form[-1]))
        for name, values in arrays.items():
            dims = ["time", "x"] if name == "u" else [name]
            more: dict[str, Any] = {"dimension_names": dims} if form == "zarr3" else {}
            if values.dtype.kind == "i":
                more["fill_value"] = -32767
            made = group.create_array(name, shape=values.shape, dtype=values.dtype, **more)
            made[:] = values
            made.attrs.update(attributes if name == "u" else {})
            made.attrs.update({"_ARRAY_DIMENSIONS": dims} if form == "zarr2" else {})
        return path
    if form == "hdf5":
        path = folder / "u.h5"
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = values
            file["u"].attrs.update(attributes)
        return path
    path = folder / f"{form}.nc"
    held = xarray.Dataset({"u": (("time", "x"), u)}, {"time": TIMES, "x": PLACES})
    held.u.attrs.update(attributes)
    none = {} if "_FillValue" in attributes else {"u": {"_FillValue": None}}
    held.to_netcdf(path, engine="scipy" if form == "netcdf3" else "h5netcdf", encoding=none)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_packed_numbers_are_unpacked(tmp_path: Path, form: str) -> None:
    found = opsplit.read(stored(tmp_path, form, PACKED, BY))
    assert found.frames()[:, 0] == pytest.approx(FIELD, abs=1e-12)
    assert "scale_factor" in " ".join(found.understood) and not found.coefficients
    assert found.dt == pytest.approx(0.1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "attributes",
    [{"missing_value": -999.0}, {"valid_min": -10.0}, {"valid_range": [-10.0, 10.0]}],
)
def test_missing_numbers_are_missing(tmp_path: Path, form: str, attributes: dict[str, Any]) -> None:
    u = FIELD.copy()
    u[2, 3] = -999.0
    found = opsplit.read(stored(tmp_path, form, u, attributes)).frames(holes=True)[:, 0]
    assert np.isnan(found[2, 3]) and np.isnan(found).sum() == 1


@pytest.mark.parametrize("form", FORMS)
def test_a_range_of_stored_numbers_is_one_of_stored_numbers(tmp_path: Path, form: str) -> None:
    u = PACKED.copy()
    u[1, 1] = 3000
    said = {**BY, "valid_range": np.array([0, 2500], np.int16).tolist()}
    if not form.startswith("zarr"):
        said["valid_range"] = np.array([0, 2500], np.int16)
    found = opsplit.read(stored(tmp_path, form, u, said)).frames(holes=True)[:, 0]
    assert np.isnan(found[1, 1]) and np.isnan(found).sum() == 1


def test_what_netcdf_never_wrote_is_missing(tmp_path: Path) -> None:
    u = FIELD.copy()
    u[4, 4] = 9.969209968386869e36
    found = opsplit.read(stored(tmp_path, "netcdf", u, {})).frames(holes=True)[:, 0]
    assert np.isnan(found[4, 4]) and np.isnan(found).sum() == 1


def test_zeros_of_a_zarr_store_are_numbers(tmp_path: Path) -> None:
    u = FIELD.copy()
    u[3, 3] = 0.0
    found = opsplit.read(stored(tmp_path, "zarr2", u, {}))
    assert found.frames()[:, 0] == pytest.approx(u)
    assert found.times[0] == 0.0


@pytest.mark.parametrize("form", ["hdf5", "netcdf"])
@pytest.mark.parametrize("scale", [0.0, np.nan, np.inf, "x", [1.0, 2.0]])
def test_a_senseless_scale_is_refused(tmp_path: Path, form: str, scale: Any) -> None:
    with pytest.raises(OpsplitError, match="scale_factor"):
        opsplit.read(stored(tmp_path, form, PACKED, {"scale_factor": scale})).frames()


def test_an_open_data_set_is_not_unpacked_twice(tmp_path: Path) -> None:
    said = {**BY, "valid_range": np.array([0, 2500], np.int16)}
    with xarray.open_dataset(stored(tmp_path, "netcdf", PACKED, said)) as held:
        assert opsplit.read(held).frames()[:, 0] == pytest.approx(FIELD, abs=1e-6)
