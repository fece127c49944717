"""Operators on fields of solvers that keep the lower modes only."""

from __future__ import annotations

import torch

from opsplit.dictionary import OperatorDictionary, Part, dealiased, within_band
from opsplit.grid import Grid
from opsplit.operators import BandLimited, Conserving, Derivatives, Products, Spectral

LINE = Grid((64,), (8.0,))


def test_growth_does_not_raise_rounding_beyond_the_band() -> None:
    """A square leaves the band; then growth stays within it as well, where nothing else acts."""
    family = Spectral(linear=Derivatives(("",), 10.0), nonlinearity=Products(("0*0",), dealias=1.0))
    names = list(family.shapes())
    growth = torch.tensor([[1.0, 0.0]] if names[0] == "derivatives" else [[0.0, 1.0]])
    part = Part(family, torch.cat([growth, growth.flip(1)]), None, 1.0)
    dictionary = OperatorDictionary((part,), {}, ("growth", "square"), {})
    (x,) = LINE.axes(torch.float32)
    frame = torch.sin(2 * torch.pi * 20 * x / 8.0)[None]
    kept = within_band(dictionary, LINE, frame, 2 / 3)
    (own,) = kept.parts
    assert isinstance(own.family, BandLimited)
    rounding = 1e-6 * torch.cos(2 * torch.pi * 30 * x / 8.0)
    states = (frame + rounding).expand(2, 1, 1, 64)
    moved = own.family.flow(own.family.prepare(own.parameters(), LINE), states, 3.0)
    beyond = torch.fft.rfft(moved[0, 0, 0])[30].abs() / 32
    assert float(beyond) < 2e-6


def test_products_of_the_lower_modes_inside_a_wrapper() -> None:
    linear, products = Derivatives(("lap",), 0.0), Products(("0*0",), dealias=1.0)
    family = Conserving(Spectral(linear=linear, nonlinearity=products))
    order = [name == "products" for name in family.operator.shapes()]
    weights = torch.tensor([order]).float()
    dictionary = OperatorDictionary((Part(family, weights, None, 1.0),), {}, ("square",), {})
    changed = dealiased(dictionary, 2 / 3)
    (x,) = LINE.axes(torch.float32)
    (own,) = changed.parts
    rate = own.family.rate(
        own.family.prepare(own.parameters(), LINE),
        torch.sin(2 * torch.pi * 25 * x / 8.0)[None, None, None],
    )
    assert float(rate.abs().max()) < 1e-6
    assert dealiased(changed, 2 / 3) is changed
