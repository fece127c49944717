"""What every wrapper promises, around a spectral and a U-Net operator."""

from __future__ import annotations

import json

import pytest
import torch
from building import noise, parameters
from torch import Tensor

from opsplit.grid import Grid
from opsplit.operators import (
    Examples,
    GatedProducts,
    OperatorFamily,
    Spectral,
    UNet,
    Wrapper,
)

LINE, PLANE = Grid((32,), (16.0,)), Grid((16, 32), (5.0, 7.0))
around = pytest.mark.parametrize("kind", ["spectral", "unet"])
dimensions = pytest.mark.parametrize("ndim", [1, 2])


def grid_of(ndim: int) -> Grid:
    return LINE if ndim == 1 else PLANE


def inner(kind: str, channels: int = 1, ndim: int = 1, max_step: float = 0.05) -> OperatorFamily:
    if kind == "spectral":
        # A unit of about the finest wavenumber: explicit steps of the changed rate are stable.
        return Spectral(
            channels, ndim, max_step, nonlinearity=GatedProducts(2), wavenumber_unit=8.0
        )
    return UNet(channels, ndim, max_step, width=4)


def strong(family: OperatorFamily, n: int = 3, seed: int = 0) -> Tensor:
    """Operators whose products are not weak: their weights going out start at zero."""
    return parameters(family, n, seed, size=1.0)


def states(family: OperatorFamily, e: int = 3, k: int = 2, seed: int = 1) -> Tensor:
    return noise(e, k, family.channels, *grid_of(family.ndim).shape, seed=seed)


def check_promises(family: Wrapper, own_parameters: int = 0) -> None:
    """Round trip through JSON, parameters, batches, precision, start, fit, pruning."""
    grid = grid_of(family.ndim)
    again = OperatorFamily.from_json(json.loads(json.dumps(family.to_json())))
    assert again == family and hash(again) == hash(family)
    assert family.n_parameters == family.operator.n_parameters + own_parameters
    assert family.innermost is family.operator.innermost
    assert family.grid_bound == family.operator.grid_bound
    assert family.points_multiple == family.operator.points_multiple
    begin = family.initialisation(torch.Generator().manual_seed(0))
    assert len(begin) == len(begin.scale) == len(begin.bound) == family.n_parameters
    _check_batches(family, grid)
    made = family.fitted(Examples(1 + 0.5 * states(family)[0], states(family)[1], grid, 0.2))
    assert type(made) is type(family) and made.n_parameters == family.n_parameters
    assert (made.channels, made.ndim) == (family.channels, family.ndim)
    assert made.operator.max_step == family.max_step
    theta = strong(family)
    kept, same = family.pruned(theta, 0.1)
    assert kept is family and same is theta


def _check_batches(family: OperatorFamily, grid: Grid) -> None:
    theta, u = strong(family), states(family)
    prepared = family.prepare(theta, grid)
    durations = torch.tensor([0.1, 0.0, 0.06], dtype=torch.float64)
    together, rates = family.flow(prepared, u, durations), family.rate(prepared, u)
    assert together.shape == rates.shape == u.shape and together.dtype == torch.float64
    for e in range(3):
        for k in range(2):
            own = family.prepare(theta[e : e + 1], grid)
            one = u[e : e + 1, k : k + 1]
            rate = family.rate(own, one)
            torch.testing.assert_close(rates[e, k], rate[0, 0], rtol=1e-9, atol=1e-10)
            # Both durations need as many steps.
            alone = family.flow(own, one, float(durations[e]))
            torch.testing.assert_close(together[e, k], alone[0, 0], rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(together[1], u[1], rtol=0, atol=1e-12)
    taken = prepared.take(torch.tensor([2, 0]))
    torch.testing.assert_close(family.rate(taken, u[[2, 0]]), rates[[2, 0]], rtol=1e-9, atol=1e-10)
    single = family.rate(family.prepare(theta.float(), grid), u.float())
    assert single.dtype == torch.float32
    gap = float((single.double() - rates).norm() / rates.norm())
    assert gap < 1e-3, gap
