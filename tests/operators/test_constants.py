"""Channels whose mean no operator sees."""

from __future__ import annotations

import pytest
import torch

from opsplit.grid import Grid
from opsplit.operators import Derivatives, Products, Spectral
from opsplit.operators.spectral.constants import blind_channels

GRID = Grid((32,), (5.0,))


@pytest.mark.parametrize(
    "linear, products, blind",
    [
        (("x", "lap"), ("0:x", "1:lap"), {0, 1}),
        (("lap",), ("0:x*1:x",), {0, 1}),
        (("lap",), ("0*1:x",), {1}),
        (("lap",), ("1*1@x",), {0}),
        (("", "lap"), ("0:x",), {0}),
        (("lap",), ("0:over3000",), {1}),
    ],
)
def test_a_constant_in_a_blind_channel_changes_no_rate(
    linear: tuple[str, ...], products: tuple[str, ...], blind: set[int]
) -> None:
    family = Spectral(2, 1, 0.1, Derivatives(linear, 1e30), Products(products))
    held = {name: torch.ones(1, *shape).double() for name, shape in family.shapes().items()}
    if "" in linear:
        held["derivatives"][:, 0, linear.index("")] = 0.0
    weights = torch.cat([x.flatten(1) for x in held.values()], 1)
    assert blind_channels(family, lambda: weights) == blind
    operators = family.prepare(weights, GRID)
    u = 2 + torch.rand(1, 3, 2, 32, dtype=torch.float64, generator=torch.Generator())
    rate = family.rate(operators, u)
    for channel in (0, 1):
        moved = u.clone()
        moved[:, :, channel] += 7.0
        change = (family.rate(operators, moved) - rate).abs().max() / rate.abs().max()
        assert (float(change) < 1e-9) == (channel in blind)


def test_nothing_is_known_about_other_families() -> None:
    family = Spectral(1, 1, 0.1)
    assert blind_channels(family, lambda: torch.zeros(1, 1)) == frozenset()
