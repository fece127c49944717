"""Operators on fields of solvers that keep the lower modes only."""

from __future__ import annotations

import torch

from opsplit.dictionary import OperatorDictionary, Part, within_band
from opsplit.grid import Grid
from opsplit.operators import BandLimited, Derivatives, Products, Spectral

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
