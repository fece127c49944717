"""Full arrays of numbers in MATLAB files up to version 7.2.

We read them ourselves: scipy looks types up by numbers of the file in memory that is not its own,
and a damaged file ends the process. Words, structures, cells and sparse arrays are passed over.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.examine import CHUNK_MB
from opsplit.io.parts import Index
from opsplit.io.stored import StoredArray

HEAD = 8192
"""Bytes within which an array says what it is."""
MOST_ARRAYS, MOST_AXES = 100_000, 32
MATRIX, PACKED = 14, 15
"""Types of elements: an array, and a compressed one."""
LOGICAL, COMPLEX = 0x200, 0x800
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8",
          13: "u8"}  # fmt: skip
"""What numbers are stored as."""
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8",
           15: "u8"}  # fmt: skip
"""What numbers are: whole ones may be stored in fewer bytes."""
OLD = ("f8", "f4", "i4", "i2", "u2", "u1")
"""What numbers are in version 4."""

Fetch = Callable[[int, int], bytes]
"""So many bytes from a place on."""


class Said(NamedTuple):
    """What an array says of itself, and where the elements with its numbers begin."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    parts: int
    """Two for complex numbers."""
    begin: int


@dataclass(frozen=True)
class MatArray:
    """An array in a file."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[Index], np.ndarray]


def mat_arrays(path: Path) -> dict[str, MatArray]:
    """Arrays by name; only their headers are read."""
    found: dict[str, MatArray] = {}
    with open(path, "rb") as stream:
        # The words at the beginning of version 5 hold no zero; the number of version 4 does.
        old = 0 in stream.read(4)
        for array in (_version4 if old else _version5)(path, stream):
            found[array.name] = array
            if len(found) > MOST_ARRAYS:
                raise OpsplitError(f"{path} holds more than {MOST_ARRAYS} arrays.")
    return found


def _version4(path: Path, stream: BinaryIO) -> Iterator[MatArray]:
    at, end = 0, path.stat().st_size
    while at < end:
        stream.seek(at)
        head = stream.read(20)
        order = "<" if 0 <= struct.unpack("<i", head[:4])[0] < 5000 else ">"
        kind, rows, columns, imaginary, letters = struct.unpack(f"{order}5i", head)
        if kind // 100 not in (0, 10) or kind % 10 > 2 or min(rows, columns) < 0:
            raise ValueError("it does not begin like an array")
        if not 0 < letters <= HEAD:
            raise ValueError(f"a name of {letters} letters")
        name = stream.read(letters).rstrip(b"\0").decode("latin-1")
        dtype = np.dtype(order + OLD[kind // 10 % 10])
        begin, size = at + 20 + letters, rows * columns * dtype.itemsize
        parts = 1 + (imaginary == 1)
        at = begin + parts * size
        if at > end:
            raise ValueError(f"{name} is longer than the file")
        if kind % 10 == 0:
            said = Said(name, (rows, columns), dtype, parts, begin)
            yield _stored(path, said, [(dtype, begin + i * size) for i in range(parts)])


def _version5(path: Path, stream: BinaryIO) -> Iterator[MatArray]:
    at, end = 128, path.stat().st_size
    stream.seek(124)
    mark = stream.read(4)
    order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}[mark]

    def fetch(begin: int, size: int) -> bytes:
        stream.seek(begin)
        return stream.read(size)

    while at < end:
        kind, size = struct.unpack(f"{order}II", fetch(at, 8))
        begin, at = at + 8, at + 8 + size
        if kind not in (MATRIX, PACKED) or at > end:
            raise ValueError(f"an element of type {kind} and {size} bytes")
        if kind == MATRIX:
            said = _described(fetch(begin, min(size, HEAD)), order)
            if said is not None:
                said = said._replace(begin=begin + said.begin)
                yield _stored(path, said, _places(fetch, said, order, at))
            continue
        head = zlib.decompressobj().decompress(fetch(begin, min(size, HEAD)), HEAD)
        if struct.unpack_from(f"{order}I", head)[0] != MATRIX:
            raise ValueError("what is compressed is no array")
        said = _described(head[8:], order)
        if said is not None:
            yield _inflated(path, said, begin, size, order)


def _element(head: bytes, at: int, order: str) -> tuple[int, int, int, int]:
    """Type of an element, where its content begins, its length, and where the next one begins."""
    kind, size = struct.unpack_from(f"{order}II", head, at)
    if kind >> 16:  # Up to four bytes lie in the place of the length.
        return kind & 0xFFFF, at + 4, kind >> 16, at + 8
    return kind, at + 8, size, at + 8 + -(-size // 8) * 8


def _described(head: bytes, order: str) -> Said | None:
    """What the head of an array says; None if it is none of numbers."""
    _, at, _, next_at = _element(head, 0, order)
    (flags,) = struct.unpack_from(f"{order}I", head, at)
    _, at, size, next_at = _element(head, next_at, order)
    if not 0 < size <= 4 * MOST_AXES:
        raise ValueError(f"an array of {size // 4} axes")
    shape = struct.unpack_from(f"{order}{size // 4}i", head, at)
    _, at, size, next_at = _element(head, next_at, order)
    if min(shape) < 0 or at + size > len(head):
        raise ValueError(f"an array of shape {shape} with a name of {size} letters")
    if flags & 0xFF not in CLASSES or flags & LOGICAL:
        return None
    dtype = np.dtype(order + CLASSES[flags & 0xFF])
    name = head[at : at + size].decode("latin-1")
    return Said(name, shape, dtype, 2 if flags & COMPLEX else 1, next_at)


def _places(fetch: Fetch, said: Said, order: str, end: int) -> list[tuple[np.dtype, int]]:
    """What the numbers of an array are stored as, and where: the real part, the imaginary part."""
    found, at = [], said.begin
    for _ in range(said.parts):
        kind, begin, size, after = _element(fetch(at, 8), 0, order)
        dtype = np.dtype(order + STORED[kind])
        if size != math.prod(said.shape) * dtype.itemsize or at + begin + size > end:
            raise ValueError(f"{said.name} has another size than its shape says")
        found.append((dtype, at + begin))
        at += after
    return found


def _stored(path: Path, said: Said, places: list[tuple[np.dtype, int]]) -> MatArray:
    """An array that lies in the file as it is."""
    parts = [StoredArray(path, at, said.shape, dtype, True) for dtype, at in places]
    return _array(said, lambda index: [part[index] for part in parts])


def _inflated(path: Path, said: Said, begin: int, size: int, order: str) -> MatArray:
    """A compressed array, which is inflated as a whole, and never beyond what it says."""
    held: list[np.ndarray] = []

    def read(index: Index) -> list[np.ndarray]:
        megabytes = math.prod(said.shape) * 8 / 2**20
        if megabytes > CHUNK_MB:
            raise OpsplitError(
                f"{path}: {said.name} has {megabytes:.0f} MB and is compressed, so that it cannot "
                "be read in parts; save the file with -v7.3."
            )
        if not held:
            with open(path, "rb") as stream:
                stream.seek(begin)
                most = said.parts * 8 * (math.prod(said.shape) + 2) + HEAD
                whole = zlib.decompressobj().decompress(stream.read(size), most)[8:]
            places = _places(lambda at, n: whole[at : at + n], said, order, len(whole))
            flat = (np.frombuffer(whole, d, math.prod(said.shape), at) for d, at in places)
            held.extend(part.reshape(said.shape, order="F") for part in flat)
        return [part[index] for part in held]

    return _array(said, read)


def _array(said: Said, read: Callable[[Index], list[np.ndarray]]) -> MatArray:
    numbers = said.dtype.newbyteorder("=")
    dtype = numbers if said.parts == 1 else np.result_type(numbers, np.complex64)

    def values(index: Index) -> np.ndarray:
        real, *imaginary = read(index)
        found = real.astype(dtype)
        # Not 1j times the part: an infinite imaginary part leaves the real one alone.
        for part in imaginary:
            found.imag = part
        return found

    return MatArray(said.name, said.shape, dtype, values)
