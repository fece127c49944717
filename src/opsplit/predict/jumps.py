"""Fields that jump from one point to the next, as at a shock that the grid is too coarse for."""

from __future__ import annotations

import torch

from opsplit.dictionary import OperatorDictionary
from opsplit.operators import OperatorFamily, Spectral
from opsplit.operators.wrappers.wrapper import Wrapper
from opsplit.predict.compatibility import Code, Issue, Severity
from opsplit.predict.window import Window

SHARE = 0.02
"""A jump has a third of the square of its slope there, or more; a field that the grid resolves has
next to nothing."""


def unresolved_fronts(window: Window, dictionary: OperatorDictionary) -> list[Issue]:
    """The note on jumps between points, where products of derivatives mean little."""
    if slope_in_upper_modes(window) < SHARE:
        return []
    if not any(_smooth_products(part.family) for part in dictionary.parts):
        return []
    words = (
        "The frames jump from one point to the next, as at a shock that the grid does not resolve. "
        "Other terms can stand in for the true ones there: do not trust the coefficients. Frames "
        "from before the jump, or with more points, say more."
    )
    return [Issue(Code.FRONTS, Severity.NOTE, words)]


def slope_in_upper_modes(window: Window) -> float:
    """Share of the squared slope in the upper third of the modes, along the worst axis."""
    u, ndim = window.joined.double(), window.grid.ndim
    worst = 0.0
    for axis in range(u.ndim - ndim, u.ndim):
        power = torch.fft.rfft(u, dim=axis).abs().square().movedim(axis, -1).flatten(0, -2).sum(0)
        k = torch.arange(len(power), dtype=power.dtype, device=power.device)
        slope = power * k.square()
        upper = slope[3 * k > u.shape[axis]].sum()
        worst = max(worst, float(upper / slope.sum().clamp_min(1e-300)))
    return worst


def _smooth_products(family: OperatorFamily) -> bool:
    """Whether an operator multiplies fields as if they were smooth."""
    if isinstance(family, Wrapper):
        return _smooth_products(family.operator)
    products = family.nonlinearity if isinstance(family, Spectral) else None
    return products is not None and not products.takes_fronts
