"""`.npz` archives: ours, or with one field and small arrays beside it."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from opsplit._files import regular
from opsplit.errors import OpsplitError
from opsplit.io.arrays import Header, Read, chosen, of_fields, read_header
from opsplit.io.assemble import Flags, Raw
from opsplit.io.beside import is_beside
from opsplit.io.examine import CHUNK_MB
from opsplit.io.guard import check_kind, check_small, reading
from opsplit.io.parts import Index, Part
from opsplit.io.stored import StoredArray
from opsplit.terms import terms_from

PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Other ways are inflated beyond what is asked for."""
OURS = {"data", "times", "extent", "boundary", "channels"}
MATLABS = {"usol", "uu"}
"""Fields with these names came from MATLAB files `(x, t)`."""


def of_npz(path: Path, flags: Flags) -> Raw:
    """A `.npz` file: ours, or with one array, or with `u` and perhaps `t`, `dt`, `x`, `dx`."""
    with reading(path, "by numpy"):
        regular(path)
        with zipfile.ZipFile(path) as archive:
            names = _names(archive)
            if len(set(names)) < len(names):
                # Readers differ in which of them they take.
                raise OpsplitError(f"{path} holds two arrays of one name.")
            heads = {name: _head(path, archive, name) for name in names}
    if not heads:
        raise OpsplitError(
            f"{path} cannot be read by numpy: it holds no arrays; save your array with numpy.save."
        )
    lines = [head for head in heads.values() if sum(n > 1 for n in head.shape) < 2]
    check_small(f"{path}: what is beside the field", sum(_bytes(head) // 8 for head in lines))
    if heads.keys() >= OURS:
        fields = ["data"]
    else:
        real = {k: head.shape for k, head in heads.items() if head.dtype.kind in "fiuc"}
        fields = chosen(str(path), real or dict.fromkeys(heads, ()), flags)
    beside = [
        k for k, head in heads.items()
        if k not in fields and head.dtype.kind in "fiuUmM"
        and (sum(n > 1 for n in head.shape) < 2 or is_beside(k))
    ]  # fmt: skip
    numbers_beside = sum(_bytes(heads[name]) // 8 for name in beside)
    check_small(f"{path}: what is beside the field", numbers_beside)
    with reading(path, "by numpy"), np.load(path, allow_pickle=False) as opened:
        others = {name: opened[name] for name in beside}
    if heads.keys() >= OURS:
        return _ours(path, heads["data"], others)
    numbers = {k: v for k, v in others.items() if v.dtype.kind in "fiumM" and v.size}
    held = {k: (heads[k].shape, heads[k].dtype, _slicer(path, k, heads[k])) for k in fields}
    raw = of_fields(str(path), "npz", held, numbers, flags, time_last=held.keys() <= MATLABS)
    return replace(raw, terms=_terms(path, others))


def _ours(path: Path, head: Header, held: Mapping[str, np.ndarray]) -> Raw:
    """What `Trajectories.save` writes."""
    shape = head.shape
    check_kind(str(path), head.dtype)
    ndim, words = len(shape) - 3, ("boundary", "channels")
    lengths = {"extent": ndim, "boundary": ndim, "channels": shape[2] if ndim > 0 else 0}
    bad = [k for k, n in lengths.items() if held.get(k, np.zeros(0)).shape != (n,)]
    bad += [k for k in words if k not in bad and held[k].dtype.kind != "U"]
    if not 1 <= ndim <= 3 or bad:
        raise OpsplitError(
            f"{path} is not a trajectory file of `opsplit generate`: data of shape {shape} do not "
            f"go with its {', '.join(bad) or 'axes'}."
        )
    known = {
        k.split(".", 1)[1]: v.astype(np.float64)
        for k, v in held.items()
        if k.startswith("coefficient.") and v.dtype.kind in "fiu"
    }
    for name, values in known.items():
        if values.shape != shape[:1]:
            raise OpsplitError(f"{path}: coefficient {name} has shape {values.shape}.")
    axes, names = "ntc" + "xyz"[:ndim], tuple(held["channels"].tolist())
    part = Part(_slicer(path, "data", head), axes, names)
    return Raw(
        str(path), "npz", axes, shape, lambda i: ((part,), i), names, times=held["times"],
        extent=tuple(held["extent"].tolist()), boundary=tuple(held["boundary"].tolist()),
        coefficients=known, layout="trajectories", terms=_terms(path, held),
    )  # fmt: skip


def _terms(path: Path, held: Mapping[str, np.ndarray]) -> dict[str, str]:
    """The terms of the coefficients, where an archive has them."""
    found = held.get("terms")
    if found is None or found.dtype.kind != "U" or found.ndim:
        return {}
    return terms_from(found, str(path))


def _names(archive: zipfile.ZipFile) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _bytes(head: Header) -> int:
    return math.prod(head.shape) * head.dtype.itemsize


def _head(path: Path, archive: zipfile.ZipFile, name: str) -> Header:
    """The header of a member, whose size must be what it says."""
    if archive.getinfo(f"{name}.npy").compress_type not in PACKED:
        raise OpsplitError(f"{path}: {name} is compressed in a way that numpy does not use.")
    with archive.open(f"{name}.npy") as stream:
        head = read_header(stream, f"{path} cannot be read by numpy: {name}")
    if archive.getinfo(f"{name}.npy").file_size != head.length + _bytes(head):
        raise OpsplitError(
            f"{path} cannot be read by numpy: {name} has another size than its header says."
        )
    return head


def _slicer(path: Path, name: str, head: Header) -> Read:
    """Slices of a member: from the file where it is stored as it is, or else read once."""

    @cache
    def whole() -> np.ndarray | StoredArray:
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo(f"{name}.npy")
            if _head(path, archive, name) != head:
                raise OpsplitError(f"{path} was changed while it was read.")
        if info.compress_type == zipfile.ZIP_STORED:
            return _stored(path, info, head)
        size = _bytes(head) / 2**20
        if size > CHUNK_MB:
            raise OpsplitError(
                f"{path}: {name} has {size:.0f} MB and is compressed, so that it cannot be "
                "read in parts; save it with numpy.save."
            )
        with np.load(path, allow_pickle=False) as archive:
            found: np.ndarray = archive[name]
            return found

    def read(index: Index) -> np.ndarray:
        with reading(path, "by numpy"):
            return np.asarray(whole()[index])

    return read


def _stored(path: Path, info: zipfile.ZipInfo, head: Header) -> StoredArray:
    with open(path, "rb") as stream:
        # The local header ends in the name and a field whose lengths it says.
        stream.seek(info.header_offset + 26)
        lengths = np.frombuffer(stream.read(4), "<u2")
    begin = info.header_offset + 30 + int(lengths.sum(dtype=np.int64)) + head.length
    return StoredArray(path, begin, head.shape, head.dtype, head.fortran)
