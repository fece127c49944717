"""What a polynomial family learns from the data before any training."""

from __future__ import annotations

import torch

from opsplit.grid import Grid
from opsplit.operators import Spectral
from opsplit.physics import GrayScott
from opsplit.pretrain.operator import _usual_sizes


def test_mixed_monomials_are_orthonormal_over_the_data() -> None:
    physics = GrayScott(grid=Grid((16, 16), (0.25, 0.25)))
    data = physics.generate("train", 6, seed=3, frames=4)
    scale = float(data.data.std())
    operator = {"max_step": 1.0, "degree": 3, "derivatives": False, "wavenumber_scale": 30.0}
    found = _usual_sizes(operator, data, scale)
    family = Spectral(channels=2, ndim=2, **(operator | found))
    states = data.data.flatten(0, 1)[None] / scale
    prepared = family.prepare(torch.zeros(1, family.n_parameters), data.grid)
    factors = family.factors(prepared, torch.fft.rfftn(states, dim=(-2, -1)))
    terms = family.monomials(factors).transpose(0, 2).flatten(1).double()
    assert len(terms) == 10
    mixed = torch.tensor(found["mixing"]).double().reshape(10, 10) @ terms
    gram = mixed @ mixed.T / mixed.shape[1]
    # Factors and matrix come from 64 draws of these 24 states, hence not quite exact here.
    plain = terms @ terms.T / terms.shape[1]
    assert torch.linalg.cond(gram) < 20 < torch.linalg.cond(plain) / 100
    torch.testing.assert_close(gram.diagonal(), torch.ones(10).double(), rtol=0.5, atol=0)
