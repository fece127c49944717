"""`.npz` archives: ours, or with one field and small arrays beside it."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.arrays import BESIDE, FIELDS, Read, of_plain
from opsplit.io.assemble import Flags, Raw
from opsplit.io.guard import CHUNK_MB, check_kind, check_small, reading
from opsplit.io.parts import Index, Part
from opsplit.terms import terms_from

OURS = {"data", "times", "extent", "boundary", "channels"}


class Head(NamedTuple):
    """What the header of a member says, and how long it is."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype
    length: int


def of_npz(path: Path, flags: Flags) -> Raw:
    """A `.npz` file: ours, or with one array, or with `u` and perhaps `t`, `dt`, `x`, `dx`."""
    with reading(path, "by numpy"):
        heads = {name: _head(path, name) for name in _names(path)}
    if not heads:
        raise OpsplitError(f"{path} cannot be read by numpy: it holds no arrays.")
    beside = [
        name for name, head in heads.items()
        if name in BESIDE
        or (len(head.shape) < 2 and name not in FIELDS and head.dtype.kind in "fiuU")
    ]  # fmt: skip
    fields = [name for name in heads if name not in beside]
    for name in beside:
        check_small(f"{path}: {name}", math.prod(heads[name].shape))
    others = {name: _member(path, name)() for name in beside}
    if heads.keys() >= OURS:
        return _ours(path, heads["data"], others)
    usual = next((k for k in FIELDS if k in fields), None)
    if usual is None and len(heads) > 1 and len(fields) != 1:
        raise OpsplitError(f"{path} holds the arrays {sorted(heads)}; name the one to read `u`.")
    name = usual or (fields or list(heads))[0]
    numbers = {k: v for k, v in others.items() if k != name and v.dtype.kind in "fiu" and v.size}
    head = heads[name]
    raw = of_plain(str(path), "npz", head.shape, head.dtype, _slicer(path, name), numbers, flags)
    return replace(raw, terms=_terms(path, others))


def _ours(path: Path, head: Head, held: Mapping[str, np.ndarray]) -> Raw:
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
    part = Part(_slicer(path, "data"), axes, names)
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


def _names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _head(path: Path, name: str) -> Head:
    """The header of a member, whose size must be what it says."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
        if dtype.hasobject:
            raise OpsplitError(
                f"{path} cannot be read by numpy: {name} holds Python objects, which may run code."
            )
        head = Head(tuple(shape), fortran, dtype, stream.tell())
        claimed = head.length + math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or archive.getinfo(f"{name}.npy").file_size != claimed:
            raise OpsplitError(
                f"{path} cannot be read by numpy: {name} has another size than its header says."
            )
        return head


def _member(path: Path, name: str) -> Callable[[], np.ndarray]:
    """One array of an archive, read once, when it is asked for."""

    @cache
    def load() -> np.ndarray:
        with reading(path, "by numpy"), np.load(path, allow_pickle=False) as archive:
            head = _head(path, name)
            size = math.prod(head.shape) * head.dtype.itemsize / 2**20
            if size > CHUNK_MB:
                raise OpsplitError(
                    f"{path}: {name} has {size:.0f} MB and is compressed, so that it cannot be "
                    "read in parts; save it with numpy.save."
                )
            found: np.ndarray = archive[name]
            return found

    return load


def _slicer(path: Path, name: str) -> Read:
    """Slices of a member: mapped into memory where it is stored as it is, or else read once."""
    whole = _member(path, name)

    def read(index: Index) -> np.ndarray:
        with reading(path, "by numpy"):
            mapped = _mapped(path, name)
            return np.asarray((whole() if mapped is None else mapped)[index])

    return read


def _mapped(path: Path, name: str) -> np.ndarray | None:
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{name}.npy")
    head = _head(path, name)
    if info.compress_type != zipfile.ZIP_STORED or 0 in head.shape:
        return None
    with open(path, "rb") as stream:
        # The local header ends in the name and a field whose lengths it says.
        stream.seek(info.header_offset + 26)
        lengths = np.frombuffer(stream.read(4), "<u2")
    begin = info.header_offset + 30 + int(lengths.sum(dtype=np.int64)) + head.length
    order: Literal["F", "C"] = "F" if head.fortran else "C"
    return np.memmap(path, head.dtype, "r", begin, head.shape, order)
