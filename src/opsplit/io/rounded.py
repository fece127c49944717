"""Evenly spaced coordinates that were written with few decimals."""

from __future__ import annotations

import numpy as np

FEWEST = 4
"""So many values are needed to tell rounding from uneven steps."""
LARGEST = 0.06
"""The last decimal is at most this share of a step: more could be steps that do differ."""
HALF = 0.75
"""A line through rounded values passes them by half a decimal, and a little more."""


def unrounded(values: np.ndarray) -> np.ndarray:
    """The evenly spaced values that these were before they were rounded, or these themselves."""
    values = np.asarray(values, dtype=np.float64).ravel()
    if len(values) < FEWEST or not np.isfinite(values).all():
        return values
    step = (values[-1] - values[0]) / (len(values) - 1)
    index = np.arange(len(values))
    even = values[0] + step * index
    if not step > 0 or np.allclose(values, even, rtol=0, atol=1e-6 * step):
        return values
    unit = last_decimal(values)
    if unit is None or unit > LARGEST * step:
        return values
    slope, begin = np.polyfit(index, values, 1)
    line = begin + slope * index
    return line if np.abs(values - line).max() <= HALF * unit else values


def last_decimal(values: np.ndarray) -> float | None:
    """The unit that all values are whole multiples of, such as 0.001; None if there is none."""
    size = np.abs(values).max(initial=0)
    if not 0 < size < np.inf:
        return None
    leading = int(np.floor(np.log10(size)))
    for places in range(-leading, 10 - leading):
        whole = values * 10.0**places
        if np.allclose(whole, np.round(whole), rtol=0, atol=1e-6):
            return float(10.0**-places)
    return None
