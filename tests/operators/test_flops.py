"""Counts by formula agree with torch's counter of what an evaluation runs."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from opsplit.grid import Grid
from opsplit.operators import OperatorFamily, Spectral, UNet
from opsplit.operators.spectral import FluxStencil, GatedProducts, Polynomial, Products
from opsplit.operators.wrappers import Standardised


def counted(family: OperatorFamily, grid: Grid) -> int:
    """Operations of one `rate` on one state, by torch; its counter does not know FFTs."""

    def fft(shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
        n = max(math.prod(shape), math.prod(out_shape))
        return int(2.5 * n * math.log2(math.prod(grid.shape)))

    ffts = {torch.ops.aten._fft_r2c: fft, torch.ops.aten._fft_c2r: fft}
    generator = torch.Generator().manual_seed(0)
    parameters = torch.randn(1, family.n_parameters, generator=generator)
    prepared = family.prepare(parameters, grid)
    state = torch.ones(1, 1, family.channels, *grid.shape)
    with FlopCounterMode(display=False, custom_mapping=ffts) as counter, torch.no_grad():
        family.rate(prepared, state)
    return counter.get_total_flops() // family.rate_evaluations


LINE, SQUARE = Grid((256,), (16.0,)), Grid((64, 64), (1.0, 1.0))


@pytest.mark.parametrize("grid", [LINE, SQUARE], ids=["1-D", "2-D"])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    "nonlinearity",
    [
        None,
        GatedProducts(),
        GatedProducts(copies=12),
        FluxStencil(),
        Polynomial(degree=3),
        Polynomial(degree=2, lower_degrees=False, derivatives=True, inverse=True),
        Polynomial(degree=2, dealias=1.5, derivatives=True),
        Products(terms=("0*0", "0*0@x", "0*0:x", "0*0*0"), dealias=1.5),
    ],
    ids=str,
)
def test_spectral_operations_are_those_of_transforms_and_products(
    nonlinearity: Any, channels: int, grid: Grid
) -> None:
    family = Spectral(channels, grid.ndim, 1.0, nonlinearity=nonlinearity)
    assert family.flops(grid) == pytest.approx(counted(family, grid), rel=0.2)


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(
    "grid", [LINE, SQUARE, Grid((16, 32, 16), (1.0, 1.0, 1.0)), Grid((32, 16), (1, 1), "reflect")]
)
def test_unet_operations_are_those_of_its_convolutions(grid: Grid, width: int) -> None:
    family = UNet(2, grid.ndim, 1.0, boundary=grid.boundary, width=width)  # type: ignore[arg-type]
    assert family.flops(grid) == pytest.approx(counted(family, grid), rel=0.02)


def test_a_wrapper_costs_what_its_operator_costs() -> None:
    inner = UNet(1, 1, 1.0)
    assert Standardised(inner).flops(LINE) == inner.flops(LINE)


def test_counting_loads_no_torch_machinery() -> None:
    code = (
        "import sys; from opsplit.grid import Grid; from opsplit.operators import Spectral, UNet;"
        "[f(1, 1, 1.0).flops(Grid((64,), (1.0,))) for f in (Spectral, UNet)];"
        "sys.exit(any(m in sys.modules for m in ('torch._dynamo', 'torch.utils.flop_counter')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
