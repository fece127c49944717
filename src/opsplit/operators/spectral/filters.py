"""Named Fourier filters: derivatives, Laplacians and gradients of potentials.

| name | symbol | meaning |
|---|---|---|
| `""` | `1` | the field itself |
| `x`, `xy`, `xxz` | product of `i k_a` | derivatives along the named axes |
| `lap`, `lap2`, `lap3` | `(-|k|^2)^n` | powers of the Laplacian |
| `abs`, `abs3` | `|k|`, `|k|^3` | half-integer powers of the Laplacian |
| `half` | `|k|^(1/2)` | a further half order: `abs.half` is `|k|^(3/2)` |
| `px`, `py`, `pz` | `-i k_a / |k|^2` | derivative of the inverse Laplacian |
| `helm2500` | `1 / (1 + 0.25 |k|^2)` | inverse of `1 - 0.25 lap` (numbers in ten-thousandths) |
| `bihelm2500` | `1 / (1 + 0.25 |k|^4)` | inverse of `1 + 0.25 lap^2` |
| `bell2500` | `exp(-0.25 |k|^2)` | mean of a neighbourhood, with weights of a bell |
| `over3000` | `1` | no filter: in a product, one over the field plus 0.3 |
| `oversq3000` | `1` | no filter: in a product, one over the square of the field plus 0.3 |

Names are joined by a dot: `x.lap` is the derivative along x of the Laplacian.
"""

from __future__ import annotations

import re
from functools import cache

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import (
    inverse_laplacian,
    odd_wavenumbers,
    squared_wavenumber,
    wavenumbers,
)
from opsplit.grid import Grid

PART = re.compile(
    r"([xyz]{1,8})|(lap)(\d?)|(abs)(\d?)|p([xyz])|(half)|(over|oversq)(\d{1,8})"
    r"|(helm|bihelm|bell)(\d{1,8})"
)
UNIT = 1e-4
"""Numbers in denominators are named in this unit."""


@cache
def parts_of(name: str) -> tuple[re.Match[str], ...]:
    """The parts of a filter's name; anything else is refused."""
    found = [PART.fullmatch(part) for part in name.split(".")] if name else []
    if len(found) > 4 or not all(found):
        raise OpsplitError(
            f"Unknown filter {name!r:.40}; join derivatives (x, xy), lap, lap2, abs and potentials "
            "(px) by dots."
        )
    return tuple(m for m in found if m)


def check_filter(name: str, ndim: int, factor: bool = False) -> None:
    """Refuse a filter of axes that the fields do not have, and a denominator that is no factor."""
    parts = parts_of(name)
    if any(part[8] for part in parts) and not (factor and len(parts) == 1):
        raise OpsplitError(f"{name!r:.40} is a denominator: it can only be a factor of a product.")
    for part in parts:
        axes = set((part[1] or "") + (part[6] or ""))
        if not axes <= set("xyz"[:ndim]):
            raise OpsplitError(f"The filter {name!r} needs more than {ndim} axes.")


def order_of(name: str) -> float:
    """Space derivatives of a filter; a potential counts minus one."""
    total = 0.0
    for part in parts_of(name):
        if part[1]:
            total += len(part[1])
        elif part[2]:
            total += 2 * int(part[3] or 1)
        elif part[4]:
            total += int(part[5] or 1)
        elif part[6]:
            total -= 1
        elif part[7]:
            total += 0.5
    return total


def added_to(name: str) -> float | None:
    """The number that a denominator adds to the field; None of a filter."""
    parts = parts_of(name)
    return UNIT * int(parts[0][9]) if len(parts) == 1 and parts[0][8] else None


def power_below(name: str) -> int:
    """The power of the field in a denominator; zero of a filter."""
    if added_to(name) is None:
        return 0
    return 2 if parts_of(name)[0][8] == "oversq" else 1


def has_length(name: str) -> bool:
    """Whether a filter holds a length of its own, so that no unit of length suits it."""
    return any(part[10] for part in parts_of(name))


def isotropic_filter(name: str, ndim: int) -> str | None:
    """The filter of `ndim` axes on a grid with more; None if it singles out a direction.

    `lap` means the same in every dimension; on a line the second derivative is the Laplacian.
    """
    words = []
    for part in parts_of(name):
        axes = (part[1] or "") + (part[6] or "")
        if not axes:
            words.append(part[0])
        elif ndim == 1 and part[1] and len(axes) % 2 == 0:
            words.append("lap" if len(axes) == 2 else f"lap{len(axes) // 2}")
        else:
            return None
    return ".".join(words)


def filter_symbol(name: str, grid: Grid, unit: float, like: Tensor) -> Tensor:
    """The symbol `(*modes)`, complex; wavenumbers are divided by `unit`."""
    odd = odd_wavenumbers(grid, like.dtype, like.device) / unit
    square = squared_wavenumber(grid, like.dtype, like.device) / unit**2
    symbol = torch.ones_like(square) + 0j
    for part in parts_of(name):
        if part[1]:
            for axis in "xyz"[: grid.ndim]:
                count = part[1].count(axis)
                # Even derivatives keep the mode at half the sampling rate, odd ones lose it.
                symbol = symbol * (-(_along(axis, grid, unit, like) ** 2)) ** (count // 2)
                if count % 2:
                    symbol = symbol * 1j * odd["xyz".index(axis)]
        elif part[2]:
            symbol = symbol * (-square) ** int(part[3] or 1)
        elif part[4]:
            symbol = symbol * square ** (int(part[5] or 1) / 2)
        elif part[7]:
            symbol = symbol * square**0.25
        elif part[10] == "bell":
            symbol = symbol * (-UNIT * int(part[11]) * square).exp()
        elif part[10]:
            power = 2 if part[10] == "bihelm" else 1
            symbol = symbol / (1 + UNIT * int(part[11]) * square**power)
        elif part[6]:
            inverse = inverse_laplacian(grid, like.dtype, like.device) * unit**2
            symbol = symbol * 1j * odd["xyz".index(part[6])] * inverse
    return symbol


def _along(axis: str, grid: Grid, unit: float, like: Tensor) -> Tensor:
    return wavenumbers(grid, like.dtype, like.device)["xyz".index(axis)] / unit
