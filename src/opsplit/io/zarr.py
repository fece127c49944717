"""Zarr stores as xarray writes them (`pip install 'opsplit[zarr]'`)."""

from __future__ import annotations

import json
import math
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from opsplit._deadline import check_time
from opsplit._files import LARGEST_JSON, read_json
from opsplit.errors import OpsplitError
from opsplit.io.assemble import Flags, Raw
from opsplit.io.examine import CHUNK_MB, SMALL
from opsplit.io.guard import reading
from opsplit.io.netcdf import of_dataset

HEADERS = ("zarr.json", ".zarray")
GROUPS = (*HEADERS, ".zgroup")
TEXTS = (*GROUPS, ".zattrs", ".zmetadata")
PROGRAMS = ("pickle", "json2", "msgpack2")
"""Codecs of Python objects; the first runs programs that a file holds."""
MANY = 10_000
"""Most arrays and groups of a store."""
PIECES = 50_000
"""Most chunks of a coordinate; an array may have more of them the larger they are."""


def of_zarr(path: Path, flags: Flags) -> Raw:
    """Every variable over time and space becomes a channel, as with NetCDF."""
    with reading(path, "as Zarr"):
        _check(path)
    return of_dataset(str(path), "zarr", partial(opened_zarr, path), flags)


@contextmanager
def opened_zarr(path: Path, drop: Sequence[str] = ()) -> Iterator[Any]:
    """An open dataset with all numbers as they are stored, without some variables."""
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
        xarray.open_dataset(
            path,
            engine="zarr",
            decode_times=False,
            mask_and_scale=False,
            consolidated=False,
            drop_variables=list(drop),
        ) as held,
    ):
        yield held


def _check(path: Path) -> None:
    """Refuse what lies elsewhere, large pieces and codecs that run programs, before any is read."""
    number, largest = 0, {}
    for place, folders, files in os.walk(path):
        check_time(path)
        where = Path(place)
        number += any(name in files for name in GROUPS)
        if number > MANY:
            raise OpsplitError(f"{path} holds more than {MANY} arrays and groups.")
        for name in (*folders, *files):
            facts = (where / name).lstat()
            if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
                raise OpsplitError(
                    f"{where / name} is a link or no regular file, which is not followed."
                )
            if name in TEXTS and facts.st_size > LARGEST_JSON:
                raise OpsplitError(f"{where / name} has {facts.st_size} bytes of text.")
        for name in HEADERS:
            if name in files:
                largest[where] = _check_array(path, where / name, read_json(where / name))
        # Chunks may lie in folders of an array's folder.
        most = largest.setdefault(where, largest.get(where.parent))
        chunks = [where / name for name in files if name not in TEXTS]
        for file in chunks if most is not None else ():
            limit, packed = most or (0, False)
            if file.stat().st_size > limit:
                raise OpsplitError(f"{file} is larger than the numbers of its chunk.")
            if packed and not _blosc(file, limit):
                raise OpsplitError(f"{file} is damaged: its header is not that of its chunk.")


def _blosc(chunk: Path, most: int) -> bool:
    """Whether the header of a chunk packed by Blosc fits: its library believes it, and crashes."""
    with open(chunk, "rb") as stream:
        start = stream.read(16)
    if len(start) < 16:
        return False
    whole, block, packed = struct.unpack("<III", start[4:])
    return packed == chunk.stat().st_size and max(whole, block) <= most


def _check_array(store: Path, header: Path, said: Any) -> tuple[int, bool] | None:
    """The most bytes of a chunk of an array, and if Blosc packs it; None for a group."""
    where = header.parent
    if not isinstance(said, dict) or "shape" not in said:
        return None
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
    pieces = math.prod(-(-n // c) for n, c in zip(shape, chunk, strict=True))
    if pieces > (PIECES if len(shape) == 1 else PIECES * min(1000, math.prod(chunk))):
        raise OpsplitError(
            f"{where} has {pieces} chunks of {chunk} numbers, which takes long to read; write it "
            "with larger ones."
        )
    if math.prod(chunk) * 8 > CHUNK_MB * 2**20:
        raise OpsplitError(f"{where} has chunks of {chunk} numbers; write it with smaller ones.")
    # What is compressed may be a little larger than what it was.
    codecs = [said.get("compressor"), *(said.get("codecs") or ())]
    names = [c.get("id") or c.get("name") for c in codecs if isinstance(c, dict)]
    return math.prod(chunk) * 17 + 2**14, "blosc" in names or "numcodecs.blosc" in names
