"""Channels whose mean no operator sees, read off the terms that operators have."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from opsplit.operators.family import OperatorFamily, unpack
from opsplit.operators.spectral.derivatives import Derivatives
from opsplit.operators.spectral.filters import order_of
from opsplit.operators.spectral.products import Products, parse
from opsplit.operators.spectral.spectral import Spectral


def blind_channels(family: OperatorFamily, parameters: Callable[[], Tensor]) -> frozenset[int]:
    """Channels to which any constant may be added without a change of any rate.

    Their own terms are derivatives, and products hold nothing of them but derivatives. Nothing is
    known about families other than sums of named terms.

    Arguments:
        parameters: gives the weights `(N, P)` of all operators, where they are needed.
    """
    if not isinstance(family, Spectral) or not isinstance(family.linear, Derivatives):
        return frozenset()
    if not isinstance(family.nonlinearity, Products | None):
        return frozenset()
    held = unpack(parameters(), family.shapes())
    seen = set()
    for j, name in enumerate(family.linear.terms):
        if order_of(name) <= 0:
            used = held["derivatives"][..., j].ne(0).any(0)
            seen |= {c for c in range(family.channels) if bool(used[c])}
    for j, text in enumerate(family.nonlinearity.terms if family.nonlinearity else ()):
        if held["products"][..., j].any():
            seen |= {c for c, name in parse(text).factors if order_of(name) <= 0}
    return frozenset(range(family.channels)) - seen
