"""Floating-point operations by formula, so that no operator has to run to be counted."""

from __future__ import annotations

import math
from collections.abc import Sequence


def fft_flops(shape: Sequence[int], fields: int = 1) -> int:
    """Real transforms of so many fields on a grid of this shape, `2.5 n log2 n` each."""
    n = math.prod(shape)
    return int(2.5 * n * math.log2(max(2, n))) * fields


def convolution_flops(weights: Sequence[int], points: int) -> int:
    """A convolution with weights `(out, into, *kernel)` that gives so many points per channel."""
    return 2 * math.prod(weights) * points
