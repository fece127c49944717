"""Small dictionaries of every kind of operator, for the tests of dictionaries."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, Part
from opsplit.grid import Grid
from opsplit.hypernetwork.decoder import Decoder
from opsplit.operators import (
    BandLimited,
    Conserving,
    FluxStencil,
    GatedProducts,
    Homogeneous,
    NonAmplifying,
    OperatorFamily,
    Polynomial,
    PotentialInputs,
    ShiftedStages,
    Spectral,
    Standardised,
    Symbol,
    UNet,
)

GRID = Grid((32,), (16.0,))
SPEEDS = (0.1, 0.2, 0.3, 0.4)
RATES = (1.0, 2.0)
FIELDS = torch.randn(1, 2, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def coded(n: int = 3, seed: int = 0, scale: float = 1.0) -> OperatorDictionary:
    """Operators of the spectral family, given by codes and a decoder."""
    family = Spectral(1, 1, 0.1, Symbol(2), GatedProducts(2))
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        decoder = Decoder(2, family.initialisation(generator), width=8, head_width=4)
    codes = torch.randn(n, 2, generator=generator)
    mu = {"alpha": np.linspace(0, 1, n)}
    return OperatorDictionary((Part(family, codes, decoder, scale),), mu)


def flow_of(dictionary: OperatorDictionary, i: int, u: Tensor = FIELDS, h: float = 0.1) -> Tensor:
    return dictionary.prepare(GRID, u).flow(torch.tensor([i]), u, h)


SMALL = UNet(1, 1, 0.1, width=4)
KINDS: dict[str, OperatorFamily] = {
    "gated": Spectral(1, 1, 0.1, Symbol(2), GatedProducts(2)),
    "flux": Spectral(1, 1, 0.1, Symbol(2, 9.0, True), FluxStencil(3, 4, 0.5), 0.4),
    "polynomial": Spectral(
        1, 1, 0.1, Symbol(2), Polynomial(2, centre=(0.3,), spread=(0.7,), mixing=(0.1,) * 9)
    ),
    "linear symbol": Spectral(1, 1),
    "unet": SMALL,
    "band-limited": BandLimited(SMALL, 0.3),
    "conserving": Conserving(SMALL),
    "homogeneous": Homogeneous(SMALL, 1.5),
    "learned degree": Homogeneous(SMALL, "learned"),
    "non-amplifying": NonAmplifying(SMALL, 0.25),
    "potential": PotentialInputs(UNet(2, 1, 0.1, width=4), 3.0),
    "shifted": ShiftedStages(SMALL),
    "standardised": Standardised(SMALL, (0.1,), (1 / 3,), (4.0,)),
    "nested": NonAmplifying(BandLimited(ShiftedStages(Homogeneous(Conserving(SMALL)))), 0.5),
}


def of_family(family: OperatorFamily, decoder: bool) -> OperatorDictionary:
    """Two operators, by parameters or by codes."""
    generator = torch.Generator().manual_seed(0)
    begin = family.initialisation(generator)
    noise = torch.randn(2, len(begin), generator=generator)
    mu = {"c": np.array([1 / 3, 0.0])}
    if not decoder:
        return OperatorDictionary((Part(family, begin.start + 0.3 * begin.scale * noise),), mu)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        writer = Decoder(2, begin, 8, 4)
    return OperatorDictionary((Part(family, torch.randn(2, 2), writer, 1.3),), mu)
