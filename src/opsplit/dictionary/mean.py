"""Operators for equations that keep the mean of a field, though their terms would move it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from opsplit.dictionary.dictionary import OperatorDictionary
from opsplit.grid import Grid
from opsplit.operators import Conserving

MOVED = 1e-4
"""A rate whose mean is below this share of its size keeps the mean."""


@torch.no_grad()
def keeping_mean(dictionary: OperatorDictionary, grid: Grid, frame: Tensor) -> OperatorDictionary:
    """The dictionary, in which operators that move the mean of `frame` lose that effect.

    Solvers that hold the mean fixed, and pressures that keep a volume, act so. The terms say it:
    `u^2` becomes `u^2 - mean`.

    Arguments:
        grid: the space.
        frame: an observed field `(channel, *space)`, in the units of the operators.
    """
    moving = np.concatenate([
        _moves(part.family.rate(
            part.family.prepare(part.parameters().to(frame), grid),
            (frame / part.scale).expand(len(part), 1, *frame.shape),
        ), grid.ndim)
        for part in dictionary.parts
    ])  # fmt: skip
    if not moving.any():
        return dictionary
    others = dictionary.select(np.flatnonzero(moving))
    wrapped = tuple(replace(part, family=Conserving(part.family)) for part in others.parts)
    changed = {k for k, v in others.coefficients.items() if v.any()}
    terms = {
        k: replace(t, text=f"{t.text} - mean") if k in changed else t
        for k, t in dictionary.terms.items()
    }
    kept = dictionary.select(np.flatnonzero(~moving))
    return replace(kept, terms=terms).merge(replace(others, parts=wrapped, terms=terms))


def _moves(rate: Tensor, ndim: int) -> np.ndarray:
    """Whether every rate `(E, 1, channel, *space)` has a mean."""
    space = tuple(range(-ndim, 0))
    mean = rate.mean(space).flatten(1).norm(dim=1)
    size = rate.square().mean(space).sqrt().flatten(1).norm(dim=1)
    found: np.ndarray = (mean > MOVED * size).cpu().numpy()
    return found
