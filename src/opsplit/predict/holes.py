"""Missing values of a field, filled from the values around them."""

from __future__ import annotations

import numpy as np

ORDER = 4
"""Differences of this order are made as small as possible: eight neighbours count on an axis."""
MOST = 0.05
"""A frame in which more than this share of the values is missing counts as missing."""
ROUNDS = 500
"""Steps of conjugate gradients at most."""
CLOSE = 1e-10
"""A residual of this share needs no further step."""


def fill(frames: np.ndarray) -> tuple[np.ndarray, int, int]:
    """Frames `(time, channel, *space)` without holes; the numbers of values that were filled and
    of frames with so many holes that they are given up: these are NaN as a whole.

    A value that is missing gets the one that makes the differences of fourth order along all axes
    smallest. Axes may be periodic or not.
    """
    hole = np.isnan(frames)
    share = hole.reshape(len(frames), -1).mean(1)
    if not share.any():
        return frames, 0, 0
    found = frames.astype(np.promote_types(frames.dtype, np.float32))
    given_up = (share > MOST) & (share < 1)
    found[given_up] = np.nan
    few = (share > 0) & (share <= MOST)
    for i, c in np.argwhere(few[:, None] & hole.reshape(*hole.shape[:2], -1).any(2)):
        found[i, c] = _smoothest(frames[i, c].astype(np.float64), hole[i, c])
    return found, int(hole[few].sum()), int(given_up.sum())


def _smoothest(u: np.ndarray, hole: np.ndarray) -> np.ndarray:
    """One field, the values of its holes by conjugate gradients."""
    middle = u[~hole].mean() if not hole.all() else 0.0
    u = np.where(hole, 0.0, u - middle)
    left = -_roughness(u)[hole]
    step, before, begin = left, left @ left, left @ left
    made = np.zeros_like(left)
    inside = np.zeros_like(u)
    for _ in range(ROUNDS):
        if not before > CLOSE**2 * begin:
            break
        inside[hole] = step
        bent = _roughness(inside)[hole]
        length = before / max(step @ bent, 1e-300)
        made, left = made + length * step, left - length * bent
        after = left @ left
        step, before = left + after / before * step, after
    u[hole] = made
    return u + middle


def _roughness(u: np.ndarray) -> np.ndarray:
    """Gradient of half the sum of the squares of all differences, by the values."""
    total = np.zeros_like(u)
    for axis, n in enumerate(u.shape):
        order = min(ORDER, n - 1)
        bent = np.diff(u, order, axis)
        width = [(order, order) if i == axis else (0, 0) for i in range(u.ndim)]
        total += (-1) ** order * np.diff(np.pad(bent, width), order, axis)
    return total
