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
    """Sums are formed in place: half the time of such a call is memory."""
    slope = u - u.roll(1, -1)
    first, after = slope.roll(1, -1), slope.roll(-1, -1)
    last = after.roll(-1, -1)
    bends = (slope - first, after - slope, last - after)
    roughness = (
        _rough(bends[0], torch.sub(3 * slope, first)),
        _rough(bends[1], slope + after),
        _rough(bends[2], torch.sub(3 * after, last)),
    )
    a, b, c = (w / r for w, r in zip((0.1, 0.6, 0.3), roughness, strict=True))
    total = a + b
    total += c
    # The face lies half a cell beyond `u`; each of the three parabolas says where it is there.
    moved = a.mul_((5 * slope).sub_(first.mul_(2)))
    moved += b.mul_(slope.add_(after, alpha=2))
    moved += c.mul_((4 * after).sub_(last))
    return moved.div_(total.mul_(6)).add_(u)


def _rough(bend: Tensor, slope: Tensor) -> Tensor:
    """The squared indicator of how far a parabola is from smooth."""
    found = bend.square_().mul_(13 / 12).add_(slope.square_(), alpha=0.25).add_(SMALL)
    return found.square_()
