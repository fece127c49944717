"""Arrays that lie in a file as they are, read slice by slice.

Mapping the file into memory would be shorter, but ends the whole process if the file becomes
shorter while it is mapped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.parts import Index

BLOCK = 2**26
"""Bytes that are read at once where only a part of them is wanted."""


@dataclass(frozen=True)
class StoredArray:
    """An array in a file, beginning at byte `begin`."""

    path: Path
    begin: int
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool = False

    def __getitem__(self, index: Index) -> np.ndarray:
        """The part that whole numbers and slices, one per axis, ask for."""
        full = (*index, *(slice(None),) * (len(self.shape) - len(index)))
        if self.fortran:
            # The last axis is the one that varies slowest.
            turned = StoredArray(self.path, self.begin, self.shape[::-1], self.dtype)
            return turned[full[::-1]].T
        with open(self.path, "rb") as stream:
            return self._read(stream, self.begin, self.shape, full)

    def _read(
        self, stream: BinaryIO, begin: int, shape: tuple[int, ...], index: Index
    ) -> np.ndarray:
        size = math.prod(shape) * self.dtype.itemsize
        if not shape or size <= BLOCK or not size:
            return self._block(stream, begin, shape)[index]
        first, rest, row = index[0], index[1:], size // shape[0]
        if isinstance(first, int):
            return self._read(stream, begin + range(shape[0])[first] * row, shape[1:], rest)
        chosen = range(shape[0])[first]
        whole = all(a == slice(None) or range(n)[a] == range(n) for a, n in _slices(rest, shape))
        if whole and chosen.step == 1:
            found = self._block(stream, begin + chosen.start * row, (len(chosen), *shape[1:]))
            return found[(slice(None), *rest)]
        joined: np.ndarray | None = None
        for place, i in enumerate(chosen):
            part = self._read(stream, begin + i * row, shape[1:], rest)
            if joined is None:
                joined = np.empty((len(chosen), *part.shape), part.dtype)
            joined[place] = part
        return np.stack([]) if joined is None else joined

    def _block(self, stream: BinaryIO, begin: int, shape: tuple[int, ...]) -> np.ndarray:
        stream.seek(begin)
        found = np.fromfile(stream, self.dtype, math.prod(shape))
        if len(found) < math.prod(shape):
            raise OpsplitError(
                f"{self.path} is shorter than its header says, or was cut meanwhile."
            )
        return found.reshape(shape)


def _slices(index: Index, shape: tuple[int, ...]) -> list[tuple[slice, int]]:
    """The indices after the first axis as slices; a whole number is one that is never whole."""
    each = zip(index, shape[1:], strict=True)
    return [(a if isinstance(a, slice) else slice(0, 0), n) for a, n in each]
