"""Random operators, operators by hand and random states, for the tests of all families."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from opsplit.grid import Grid
from opsplit.operators import (
    Conserving,
    FluxStencil,
    GatedProducts,
    Homogeneous,
    Linear,
    OperatorFamily,
    Polynomial,
    Spectral,
    Standardised,
    Symbol,
    UNet,
    UserFunction,
)

LINE, PLANE = Grid((32,), (16.0,)), Grid((16, 32), (5.0, 7.0))
BOX = Grid((8, 6, 10), (5.0, 6.0, 7.0))


def parameters(family: OperatorFamily, n: int, seed: int = 0, size: float = 0.3) -> Tensor:
    """`n` random operators around the start of their family; a diffusion is never negative."""
    generator = torch.Generator().manual_seed(seed)
    begin = family.initialisation(generator)
    noise = torch.randn(n, family.n_parameters, generator=generator)
    if isinstance(family.innermost, Linear | UserFunction):
        return (0.1 + 0.3 * noise.abs()).double()
    return (begin.start + size * begin.scale * noise).double()


def by_hand(net: Spectral, **entries: dict[tuple[int, ...], float]) -> Tensor:
    """A parameter vector of zeros but for these entries; `gate0_shift` stands for a dot."""
    pieces = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in net.shapes().items()}
    for name, values in entries.items():
        for place, value in values.items():
            pieces[name.replace("_", ".")][place] = value
    return torch.cat([p.flatten() for p in pieces.values()])[None]


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def burgers(net: Spectral, epsilon: float, c: float = 0.0, D: float = 0.0) -> Tensor:
    """`u_t = -c u_x + D u_xx - epsilon (u^2 / 2)_x`: the first copy is u, its square goes out."""
    return by_hand(
        net,
        decay={(1, 0, 0): math.sqrt(D)},
        turn={(0, 0, 0, 0): -c},
        filter={(0, 0, 0): 1.0},
        gate0={(0, 0, 0): 1.0, (1, 0, 0): 1.0},
        output={(0, 0, 1): -epsilon / 2},
    )


def waves(u: Tensor) -> Tensor:
    return u.roll(1, -1) - u.roll(-1, -1) - u**3


REACTION = Polynomial(3, centre=(0.7, 0.2), spread=(0.3, 0.1))
VORTICITY = Polynomial(2, False, True, True, 2 / 3, 2.0)
FLUX = FluxStencil(4, 6, 0.5)
EVERY: dict[str, tuple[OperatorFamily, Grid]] = {
    "linear": (Linear(2, 1), LINE),
    "linear on a plane": (Linear(1, 2), PLANE),
    "spectral without products": (Spectral(2, 1, 0.05), LINE),
    "gated products": (Spectral(1, 1, 0.05, nonlinearity=GatedProducts()), LINE),
    "gated products on a plane": (Spectral(2, 2, 0.05, nonlinearity=GatedProducts(3)), PLANE),
    "flux stencil": (Spectral(1, 1, 0.05, Symbol(8, 50.0, True), FLUX, 0.4), LINE),
    "flux stencil on a plane": (Spectral(2, 2, 0.05, nonlinearity=FLUX), PLANE),
    "polynomial": (Spectral(1, 2, 0.05, nonlinearity=VORTICITY), PLANE),
    "polynomial of two channels": (Spectral(2, 2, 0.05, nonlinearity=REACTION), PLANE),
    "unet": (UNet(1, 1, 0.05), LINE),
    "unet on a plane": (UNet(2, 2, 0.05), PLANE),
    "unet with walls": (UNet(1, 1, 0.05, ("reflect",)), Grid((32,), (16.0,), "reflect")),
    "function": (UserFunction(1, 1, f=waves, max_step=0.05), LINE),
    "wrapped unet": (
        Homogeneous(Standardised(Conserving(UNet(1, 1, 0.05)), rate_scale=(2.0,)), "learned"),
        LINE,
    ),
    "wrapped spectral": (
        Homogeneous(Conserving(Spectral(1, 1, 0.05, nonlinearity=GatedProducts(2))), 2.0),
        LINE,
    ),
}
"""Operators of every kind, with a grid for each."""
