"""Zarr stores as xarray writes them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opsplit
from opsplit.errors import OpsplitError
from opsplit.io import zarr as reader

xarray = pytest.importorskip("xarray")
pytest.importorskip("zarr")
RNG = np.random.default_rng(2)


def stored(path: Path, u: np.ndarray, version: int = 3, **attrs: Any) -> Any:
    made = xarray.Dataset(
        {"u": (("time", "x"), u)},
        {"time": 0.5 * np.arange(len(u)), "x": 2.0 * np.arange(u.shape[1])},
    )
    made["x"].attrs["units"] = "m"
    made.attrs.update(attrs)
    made.to_zarr(path, zarr_format=version, consolidated=version == 2)
    return made


@pytest.mark.parametrize("version", [2, 3])
def test_a_store_is_read_twice(version: int, tmp_path: Path) -> None:
    u = RNG.normal(size=(6, 16)).astype(np.float32)
    stored(tmp_path / "a.zarr", u, version, nu=0.1)
    for _ in range(2):
        held = opsplit.read(tmp_path / "a.zarr")
        assert held.format == "zarr" and held.shape == (1, 6, 1, 16) and held.dt == 0.5
        assert held.grid.extent == (32.0,) and held.coefficients["nu"].tolist() == [0.1]
        np.testing.assert_array_equal(held.frames(0, slice(1, 6, 2))[:, 0], u[1::2])
    assert "Units: x in 'm'." in held.understood


@pytest.mark.parametrize("suffix", [".zarr", ".nc"])
def test_steps_and_spacings_as_attributes(suffix: str, tmp_path: Path) -> None:
    made = xarray.Dataset({"u": (("time", "x", "y"), RNG.normal(size=(5, 8, 6)))})
    made.attrs.update(dt=0.25, dx=0.5, dy=2.0)
    path = tmp_path / f"a{suffix}"
    made.to_zarr(path) if suffix == ".zarr" else made.to_netcdf(path, engine="h5netcdf")
    held = opsplit.read(path)
    assert held.known >= {"dt", "extent"} and held.coefficients == {}
    assert held.dt == 0.25 and held.grid.extent == (4.0, 12.0)


def test_chunks_are_measured_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tmp_path / "a.zarr", RNG.normal(size=(6, 16)))
    header = tmp_path / "a.zarr" / "u" / "zarr.json"
    said = json.loads(header.read_text())
    said["shape"], said["chunk_grid"]["configuration"]["chunk_shape"] = (
        [10**6, 10**6],
        [10**5, 10**5],
    )
    header.write_text(json.dumps(said))
    with pytest.raises(OpsplitError, match="write it with smaller ones"):
        opsplit.read(tmp_path / "a.zarr")
    monkeypatch.setattr(reader, "MANY", 1)
    with pytest.raises(OpsplitError, match="more than 1 arrays"):
        opsplit.read(tmp_path / "a.zarr")


def test_chunks_larger_than_their_numbers(tmp_path: Path) -> None:
    stored(tmp_path / "a.zarr", RNG.normal(size=(6, 16)))
    chunk = next(p for p in (tmp_path / "a.zarr" / "u" / "c").rglob("*") if p.is_file())
    chunk.write_bytes(bytes(2**21))
    with pytest.raises(OpsplitError, match="larger than the numbers of its chunk"):
        opsplit.read(tmp_path / "a.zarr")


def test_programs_and_links_are_refused(tmp_path: Path) -> None:
    stored(tmp_path / "a.zarr", RNG.normal(size=(6, 16)), 2)
    header = tmp_path / "a.zarr" / "u" / ".zarray"
    said = json.loads(header.read_text())
    said["filters"] = [{"id": "pickle", "protocol": 5}]
    header.write_text(json.dumps(said))
    with pytest.raises(OpsplitError, match="stored by pickle, which is not trusted"):
        opsplit.read(tmp_path / "a.zarr")
    stored(tmp_path / "b.zarr", RNG.normal(size=(6, 16)))
    chunk = next(p for p in (tmp_path / "b.zarr" / "u" / "c").rglob("*") if p.is_file())
    chunk.unlink()
    chunk.symlink_to(header)
    with pytest.raises(OpsplitError, match="is a link"):
        opsplit.read(tmp_path / "b.zarr")


def test_damage_is_a_sentence(tmp_path: Path) -> None:
    stored(tmp_path / "a.zarr", RNG.normal(size=(6, 16)))
    chunk = next(p for p in (tmp_path / "a.zarr" / "u" / "c").rglob("*") if p.is_file())
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(OpsplitError, match="cannot be read as Zarr"):
        opsplit.read(tmp_path / "a.zarr").frames()
    (tmp_path / "a.zarr" / "zarr.json").write_text("{")
    with pytest.raises(OpsplitError, match="cannot be read as JSON"):
        opsplit.read(tmp_path / "a.zarr")


@pytest.mark.parametrize("way", ["array", "coordinate", "pipe", "text", "pieces"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_store_holds_its_own_chunks_and_few_of_them(
    version: int, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, header = tmp_path / "a.zarr", {2: ".zarray", 3: "zarr.json"}[version]
    stored(store, RNG.normal(size=(6, 16)), version)
    if way in ("array", "coordinate"):
        name = {"array": "u", "coordinate": "time"}[way]
        (store / name).rename(tmp_path / "elsewhere")
        (store / name).symlink_to(tmp_path / "elsewhere")
    elif way == "pipe":
        names = (".zarray", ".zattrs", "zarr.json")
        chunk = next(p for p in (store / "u").rglob("*") if p.is_file() and p.name not in names)
        chunk.unlink()
        os.mkfifo(chunk)
    elif way == "text":
        monkeypatch.setattr(reader, "LARGEST_JSON", 1000)
        (store / (".zattrs" if version == 2 else "zarr.json")).write_text(" " * 1001 + "{}")
    else:
        place = store / "time" / header
        place.write_text(json.dumps(json.loads(place.read_text()) | {"shape": [9_000_000]}))
    words = {"text": "1003 bytes of text", "pieces": "1500000 chunks"}
    with pytest.raises(OpsplitError, match=words.get(way, "is a link or no regular file")):
        opsplit.read(store)


def test_coordinates_are_not_read_again_with_every_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may be large: a million times."""
    stored(tmp_path / "a.zarr", RNG.normal(size=(6, 16)))
    held, opened = opsplit.read(tmp_path / "a.zarr"), []
    whole = xarray.open_dataset

    def watched(*given: Any, **more: Any) -> Any:
        found = whole(*given, **more)
        opened.append(sorted(found.variables))
        return found

    monkeypatch.setattr(xarray, "open_dataset", watched)
    assert held.frames(0, slice(0, 2)).shape == (2, 1, 16)
    assert opened == [["u"]]


@pytest.mark.parametrize("place", [4, 8, 12])
def test_headers_of_packed_chunks_are_not_believed(place: int, tmp_path: Path) -> None:
    """Blosc reads as many bytes as they say, whatever there is."""
    stored(tmp_path / "a.zarr", RNG.normal(size=(6, 16)), 2)
    assert opsplit.read(tmp_path / "a.zarr").frames().shape == (6, 1, 16)
    chunk = tmp_path / "a.zarr" / "u" / "0.0"
    content = bytearray(chunk.read_bytes())
    content[place : place + 4] = (2**30).to_bytes(4, "little")
    chunk.write_bytes(content)
    with pytest.raises(OpsplitError, match=r"0\.0 is damaged"):
        opsplit.read(tmp_path / "a.zarr")
