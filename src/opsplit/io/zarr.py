"""Zarr stores as xarray writes them (`pip install 'opsplit[zarr]'`)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opsplit._deadline import check_time
from opsplit._files import read_json
from opsplit.errors import OpsplitError
from opsplit.io.assemble import Flags, Raw
from opsplit.io.examine import CHUNK_MB, SMALL
from opsplit.io.guard import reading
from opsplit.io.netcdf import of_dataset

HEADERS = ("zarr.json", ".zarray")
PROGRAMS = ("pickle", "json2", "msgpack2")
"""Codecs of Python objects; the first runs programs that a file holds."""
MANY = 10_000
"""Most arrays and groups of a store."""


def of_zarr(path: Path, flags: Flags) -> Raw:
    """Every variable over time and space becomes a channel, as with NetCDF."""
    with reading(path, "as Zarr"):
        _check(path)
    return of_dataset(str(path), "zarr", lambda: opened_zarr(path), flags)


@contextmanager
def opened_zarr(path: Path) -> Iterator[Any]:
    """An open dataset with times as the numbers they are stored as."""
    try:
        import xarray
        import zarr  # noqa: F401
    except ImportError:
        raise OpsplitError(
            f"{path}: Zarr is read by zarr and xarray; pip install 'opsplit[zarr]'."
        ) from None
    with (
        reading(path, "as Zarr"),
        # Consolidated headers are a copy, of which nobody has seen whether it is one.
        xarray.open_dataset(path, engine="zarr", decode_times=False, consolidated=False) as held,
    ):
        yield held


def _check(path: Path) -> None:
    """Refuse large chunks and codecs that run programs, before any chunk is read."""
    headers = (h for name in HEADERS for h in path.rglob(name))
    for number, header in enumerate(headers):
        if number >= MANY:
            raise OpsplitError(f"{path} holds more than {MANY} arrays and groups.")
        check_time(path)
        if header.resolve().is_relative_to(path.resolve()):
            _check_array(path, header, read_json(header))
        else:
            raise OpsplitError(f"{header} is a link out of its store, which is not followed.")


def _check_array(store: Path, header: Path, said: Any) -> None:
    where = header.parent
    if not isinstance(said, dict) or "shape" not in said:
        return  # A group.
    if where == store:
        raise OpsplitError(
            f"{where} is one array without names of its axes; save it by xarray, or as .npy."
        )
    words = json.dumps([said.get(k) for k in ("codecs", "filters", "compressor")])
    for codec in PROGRAMS:
        if f'"{codec}"' in words or f'"numcodecs.{codec}"' in words:
            raise OpsplitError(f"{where} is stored by {codec}, which is not trusted.")
    shape = [int(n) for n in said["shape"]]
    grid = said.get("chunk_grid", {}).get("configuration", {}).get("chunk_shape")
    chunk = [int(n) for n in said.get("chunks", grid) or shape]
    if min(chunk, default=1) < 1 or min(shape, default=0) < 0:
        raise OpsplitError(f"{where} has chunks of {chunk} numbers.")
    # xarray reads coordinates, which have one axis, at once.
    if len(shape) == 1 and shape[0] > SMALL:
        raise OpsplitError(f"{where} claims {shape[0]} numbers; at most {SMALL} are believed.")
    if math.prod(chunk) * 8 > CHUNK_MB * 2**20:
        raise OpsplitError(f"{where} has chunks of {chunk} numbers; write it with smaller ones.")
    largest = math.prod(chunk) * 16 + 2**20
    for file in where.rglob("*"):
        if file.is_symlink() or (file.is_file() and file.stat().st_size > largest):
            raise OpsplitError(f"{file} is a link, or larger than the numbers of its chunk.")
