"""Operators for fields of solvers that keep the lower modes only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit.dictionary.dictionary import OperatorDictionary
from opsplit.fourier import low_pass
from opsplit.grid import Grid
from opsplit.operators import BandLimited, OperatorFamily, Spectral
from opsplit.operators.wrappers.wrapper import Wrapper

BEYOND = 1e-6
"""A rate of which no more than this share lies beyond the band stays in it."""


@torch.no_grad()
def within_band(
    dictionary: OperatorDictionary, grid: Grid, frame: Tensor, share: float
) -> OperatorDictionary:
    """The dictionary; where an operator would leave the lower modes, all act within them only.

    Arguments:
        grid: the space.
        frame: an observed field `(channel, *space)` of the lower modes, in the units of the
            operators.
        share: share of the modes of every axis.
    """
    leaving = np.concatenate([
        _leaves(part.family.rate(
            part.family.prepare(part.parameters().to(frame), grid),
            (frame / part.scale).expand(len(part), 1, *frame.shape),
        ), grid, share)
        for part in dictionary.parts
    ])  # fmt: skip
    if not leaving.any():
        return dictionary
    # All of them: growth would raise rounding beyond the band, which nothing damps there any more.
    wrapped = tuple(
        replace(part, family=BandLimited(part.family, share)) for part in dictionary.parts
    )
    return replace(dictionary, parts=wrapped)


def dealiased(dictionary: OperatorDictionary, share: float) -> OperatorDictionary:
    """The dictionary with products of the lower modes only, or itself if no product changes."""
    families = [_dealiased(part.family, share) for part in dictionary.parts]
    if families == [part.family for part in dictionary.parts]:
        return dictionary
    each = zip(dictionary.parts, families, strict=True)
    return replace(dictionary, parts=tuple(replace(part, family=new) for part, new in each))


def _dealiased(family: OperatorFamily, share: float) -> OperatorFamily:
    if isinstance(family, Wrapper):
        return replace(family, operator=_dealiased(family.operator, share))
    if not isinstance(family, Spectral):
        return family
    products: Any = family.nonlinearity
    if getattr(products, "dealias", 0.0) <= share:
        return family
    return replace(family, nonlinearity=replace(products, dealias=share))


def _leaves(rate: Tensor, grid: Grid, share: float) -> np.ndarray:
    """Whether every rate `(E, 1, channel, *space)` has modes beyond the band."""
    beyond = (rate - low_pass(rate, grid, share)).flatten(1).norm(dim=1)
    found: np.ndarray = (beyond > BEYOND * rate.flatten(1).norm(dim=1)).cpu().numpy()
    return found
