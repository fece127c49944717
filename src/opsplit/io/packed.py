"""Packed and missing numbers, as the attributes of an array say them in the CF conventions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opsplit.errors import OpsplitError

SCALES = ("scale_factor", "add_offset")
MISSING = ("_FillValue", "missing_value")
VALID = ("valid_min", "valid_max", "valid_range")
WORDS = frozenset((*SCALES, *MISSING, *VALID, "_Unsigned"))
UNWRITTEN = 9.969209968386869e36
"""What NetCDF stores where nothing was written, in single precision and in double."""


@dataclass(frozen=True)
class Packing:
    """How the numbers of an array are stored."""

    scale: float = 1.0
    offset: float = 0.0
    missing: tuple[float, ...] = ()
    """Stored numbers that stand for a missing value."""
    low: float = -np.inf
    high: float = np.inf
    """Numbers outside are missing."""
    stored_range: bool = True
    """Whether these bounds are of the stored numbers, or of the unpacked ones."""
    unsigned: bool = False

    @classmethod
    def of(
        cls, where: str, attributes: Mapping[str, Any], dtype: np.dtype, netcdf: bool = False
    ) -> Packing:
        """The packing that attributes say; none for what are no real numbers.

        Arguments:
            where: the array, for a refusal.
            dtype: of the stored numbers.
            netcdf: whether a library of NetCDF fills what was not written.
        """
        if dtype.kind not in "fiu":
            return cls()
        held = {k: _numbers(where, k, attributes[k]) for k in WORDS - {"_Unsigned"}
                if k in attributes}  # fmt: skip
        scale, offset = (
            _one(where, k, held.get(k), usual) for k, usual in zip(SCALES, (1.0, 0.0), strict=True)
        )
        if not scale:
            raise OpsplitError(f"{where} has the scale_factor 0: its numbers are lost.")
        missing = [float(v) for k in MISSING for v in held.get(k, ())]
        if netcdf and dtype.kind == "f":
            missing.append(float(np.float32(UNWRITTEN)) if dtype.itemsize == 4 else UNWRITTEN)
        both = held.get("valid_range", np.array([-np.inf, np.inf]))
        if len(both) != 2:
            raise OpsplitError(f"{where} has a valid_range of {len(both)} numbers.")
        low = _one(where, "valid_min", held.get("valid_min"), float(both[0]), finite=False)
        high = _one(where, "valid_max", held.get("valid_max"), float(both[1]), finite=False)
        bounds = [held[k].dtype.kind for k in VALID if k in held]
        unsigned = str(attributes.get("_Unsigned", "")).lower() in ("true", "b'true'")
        return cls(
            scale, offset, tuple(missing), low, high,
            stored_range=dtype.kind == "f" or "f" not in bounds,
            unsigned=unsigned and dtype.kind == "i",
        )  # fmt: skip

    @property
    def plain(self) -> bool:
        """Whether the numbers are what they look like."""
        return self == Packing()

    @property
    def scaled(self) -> bool:
        return (self.scale, self.offset) != (1.0, 0.0)

    def dtype(self, stored: np.dtype) -> np.dtype:
        """The type of the unpacked numbers."""
        if self.plain or (stored.kind == "f" and not self.scaled):
            return stored
        return np.dtype(np.float64)

    def values(self, stored: np.ndarray) -> np.ndarray:
        """The numbers that are meant; missing ones are NaN."""
        if self.plain:
            return stored
        if self.unsigned:
            stored = stored.view(np.dtype(f"u{stored.dtype.itemsize}"))
        gone = np.zeros(stored.shape, dtype=bool)
        for one in self.missing:
            gone |= stored == one
        found = stored.astype(self.dtype(stored.dtype))
        if self.scaled:
            found *= self.scale
            found += self.offset
        bounded = stored if self.stored_range else found
        gone |= (bounded < self.low) | (bounded > self.high)
        found[gone] = np.nan
        return found


def _numbers(where: str, name: str, value: Any) -> np.ndarray:
    found = np.ravel(np.asarray(value))
    if found.dtype.kind not in "fiu":
        raise OpsplitError(f"{where}: its {name} is no number.")
    return found


def _one(
    where: str, name: str, found: np.ndarray | None, usual: float, finite: bool = True
) -> float:
    """One number."""
    if found is None:
        return usual
    if len(found) != 1 or np.isnan(found[0]) or (finite and np.isinf(found[0])):
        raise OpsplitError(f"{where}: its {name} is not one number, but {found[:4].tolist()}.")
    return float(found[0])


def unpacked_said(packings: Mapping[str, Packing]) -> list[str]:
    """A sentence on the arrays that are packed."""
    names = [name for name, packing in packings.items() if packing.scaled]
    return [f"Unpacked by scale_factor and add_offset: {', '.join(names)}."] if names else []
