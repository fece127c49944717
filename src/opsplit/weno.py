"""Values at the faces of cells from their averages: WENO of fifth order (Jiang and Shu, 1996)."""

from __future__ import annotations

import torch
from torch import Tensor

SMALL = 1e-6
"""Squared differences below this count as smooth."""


def face_values(u: Tensor) -> tuple[Tensor, Tensor]:
    """Values on the left and on the right side of the right face of every cell.

    The last axis of `u` is a periodic line of cell averages of about unit size.
    """
    # The right side of a face is the left side on the mirrored line.
    left, right = _from_left(torch.stack([u, u.flip(-1)]))
    return left, right.flip(-1).roll(-1, -1)


def _from_left(u: Tensor) -> Tensor:
    a, b, d, e = (u.roll(shift, -1) for shift in (2, 1, -1, -2))
    values = (
        (2 * a - 7 * b + 11 * u) / 6,
        (-b + 5 * u + 2 * d) / 6,
        (2 * u + 5 * d - e) / 6,
    )
    roughness = (
        13 / 12 * (a - 2 * b + u) ** 2 + (a - 4 * b + 3 * u) ** 2 / 4,
        13 / 12 * (b - 2 * u + d) ** 2 + (b - d) ** 2 / 4,
        13 / 12 * (u - 2 * d + e) ** 2 + (3 * u - 4 * d + e) ** 2 / 4,
    )
    weights = [w / (SMALL + r) ** 2 for w, r in zip((0.1, 0.6, 0.3), roughness, strict=True)]
    total = weights[0] + weights[1] + weights[2]
    return sum((w * v for w, v in zip(weights, values, strict=True)), torch.zeros_like(u)) / total
