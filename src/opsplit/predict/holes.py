"""Missing values of a field, filled from the values around them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opsplit._deadline import check_time

ORDER = 4
"""Differences of this order are made as small as possible: eight neighbours count on an axis."""
MOST = 0.05
"""A frame in which more than this share of the values of a channel is missing counts as missing."""
ROUNDS = 500
"""Steps of conjugate gradients at most: a hole that needs more is too wide to be filled."""
CLOSE = 1e-10
"""A residual of this share needs no further step."""


def fill(frames: np.ndarray, periodic: Sequence[bool] = ()) -> tuple[np.ndarray, int, int]:
    """Frames `(time, channel, *space)` without holes; the numbers of values that were filled and
    of frames with so many or so wide holes that they are given up: these are NaN as a whole.

    A value that is missing gets the one that makes the differences of fourth order along all axes
    smallest.

    Arguments:
        periodic: of every axis of space, whether its ends are neighbours (default: none are).
    """
    hole = np.isnan(frames)
    share = hole.reshape(*hole.shape[:2], -1).mean(2)
    if not share.any():
        return frames, 0, 0
    found = frames.astype(np.promote_types(frames.dtype, np.float32))
    lost = (share > MOST).any(1)
    for i, c in np.argwhere(~lost[:, None] & (share > 0)):
        if not lost[i]:
            made = _smoothest(frames[i, c].astype(np.float64), hole[i, c], periodic)
            found[i, c], lost[i] = made, not np.isfinite(made).all()
    found[lost] = np.nan
    return found, int(hole[~lost].sum()), int((lost & ~hole.reshape(len(hole), -1).all(1)).sum())


def _smoothest(u: np.ndarray, hole: np.ndarray, periodic: Sequence[bool]) -> np.ndarray:
    """One field, the values of its holes by conjugate gradients; NaN where these do not converge.

    The field is taken in units of its own, so that no square of a value is out of range.
    """
    unit = max(float(np.abs(u[~hole]).max()), np.finfo(np.float64).tiny)
    middle = (u[~hole] / unit).mean()
    u = np.where(hole, 0.0, u / unit - middle)
    left = -_roughness(u, periodic)[hole]
    step, before, begin = left, left @ left, left @ left
    made = np.zeros_like(left)
    inside = np.zeros_like(u)
    for _ in range(ROUNDS):
        if not before > CLOSE**2 * begin:
            break
        check_time("a frame with missing values", "filled")
        inside[hole] = step
        bent = _roughness(inside, periodic)[hole]
        length = before / max(step @ bent, 1e-300)
        made, left = made + length * step, left - length * bent
        after = left @ left
        step, before = left + after / before * step, after
    u[hole] = made if before <= CLOSE**2 * begin else np.nan
    return (u + middle) * unit


def _roughness(u: np.ndarray, periodic: Sequence[bool]) -> np.ndarray:
    """Gradient of half the sum of the squares of all differences, by the values."""
    total = np.zeros_like(u)
    for axis, n in enumerate(u.shape):
        order = min(ORDER, n - 1)
        if not order:
            continue
        width = [(order, order) if i == axis else (0, 0) for i in range(u.ndim)]
        if any(periodic[axis : axis + 1]):
            # Twice as many differences: those in both directions, each around the axis.
            bent = np.diff(np.pad(u, width, "wrap"), 2 * order, axis)
        else:
            bent = np.diff(np.pad(np.diff(u, order, axis), width), order, axis)
        total += (-1) ** order * bent
    return total
