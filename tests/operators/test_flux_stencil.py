"""Fluxes between neighbouring points: rolls, differences, degree two, conservation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from building import LINE, by_hand, noise, parameters
from hypothesis import given
from hypothesis import strategies as st

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import Examples, FluxStencil, Spectral
from opsplit.operators.family import unpack
from opsplit.operators.spectral import flux_stencil

STENCIL = FluxStencil(2, 4, 0.5)


def fluxes(ndim: int = 1, max_step: float = 10.0, **options: int) -> Spectral:
    return Spectral(1, ndim, max_step, nonlinearity=replace(STENCIL, **options))


@pytest.mark.parametrize(("ndim", "points"), [(1, 2), (1, 5), (2, 3)])
def test_shifts_by_the_spacing_of_the_grid_are_rolls(ndim: int, points: int) -> None:
    net, grid = fluxes(ndim, points=points), Grid((32, 16)[:ndim], (16.0, 8.0)[:ndim])
    shift = net.prepare(parameters(net, 1), grid).tensors["shift"][0]
    u = noise(*grid.shape)
    axes = tuple(range(-ndim, 0))
    moved = torch.fft.irfftn(shift * torch.fft.rfftn(u, dim=axes), s=grid.shape, dim=axes)
    cells = range(-((points - 1) // 2), points // 2 + 1)
    expected = torch.stack([u.roll(-j, axis) for axis in range(ndim) for j in cells])
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-13)


def test_a_flux_is_differenced_from_its_neighbour() -> None:
    """`-(F_i - F_(i-1)) / h` with `F_i = u_i |u_(i+1)|`, by rolls; the last half is bent."""
    net = fluxes(flux_products=2)
    theta = by_hand(net, gate0={(0, 1, 0): 1.0, (1, 1, 1): 1.0}, output={(0, 1, 1): -1.0})
    u = noise(1, 1, 1, 32)
    flux = u * (u.roll(-1, -1).square() + flux_stencil.CORNER**2).sqrt()
    expected = (flux.roll(1, -1) - flux) / 0.5
    torch.testing.assert_close(net.rate(net.prepare(theta, LINE), u), expected, rtol=0, atol=1e-12)


@given(a=st.floats(0.1, 10), seed=st.integers(0, 99), ndim=st.integers(1, 2))
def test_fluxes_are_of_degree_two(a: float, seed: int, ndim: int) -> None:
    """`f(a u) = a^2 f(u)`, if the corner that is rounded grows with u."""
    net, grid = fluxes(ndim), Grid((16, 8)[:ndim], (8.0, 4.0)[:ndim])
    theta = parameters(net, 1, seed, 1.0)
    for name, tensor in unpack(theta, net.shapes()).items():
        if name in ("decay", "turn"):
            tensor.zero_()
    prepared = net.prepare(theta, grid)
    u = noise(1, 1, 1, *grid.shape, seed=seed)
    expected = a**2 * net.rate(prepared, u)
    close = net.rate(prepared, a * u)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flux_stencil, "CORNER", a * flux_stencil.CORNER)
        torch.testing.assert_close(net.rate(prepared, a * u), expected, rtol=1e-9, atol=1e-12)
    # As it stands, the corner is a thousandth of a field of order one.
    allowed = 10 * flux_stencil.CORNER * max(a, 1) / a
    assert float((close - expected).norm()) <= allowed * float(expected.norm())


@given(seed=st.integers(0, 99), ndim=st.integers(1, 2))
def test_differences_of_fluxes_keep_the_mean(seed: int, ndim: int) -> None:
    net, grid = fluxes(ndim, max_step=0.05), Grid((16, 8)[:ndim], (8.0, 4.0)[:ndim])
    theta = parameters(net, 1, seed, 1.0)
    pieces = unpack(theta, net.shapes())
    pieces["decay"][:, 0] = 0  # no decay at wavenumber 0
    pieces["output"][..., 0] = 0  # differences only
    prepared = net.prepare(theta, grid)
    u = noise(1, 1, 1, *grid.shape, seed=seed)
    rate = net.rate(prepared, u)
    assert abs(float(rate.mean())) < 1e-12 and float(rate.abs().max()) > 1e-3
    assert float(net.flow(prepared, u, 0.1).mean()) == pytest.approx(float(u.mean()), abs=1e-12)


def test_an_unknown_spacing_is_that_of_the_training_grid() -> None:
    grid = Grid((32, 16), (8.0, 8.0))
    net = Spectral(1, 2, nonlinearity=FluxStencil(3, 4))
    examples = Examples(noise(4, 1, 32, 16), noise(4, 1, 32, 16), grid, 0.1)
    made = net.fitted(examples).nonlinearity
    assert isinstance(made, FluxStencil) and made.spacing == 0.25
    kept = Spectral(1, 2, nonlinearity=replace(STENCIL, spacing=0.7)).fitted(examples)
    assert isinstance(kept.nonlinearity, FluxStencil) and kept.nonlinearity.spacing == 0.7
    # Until then the finest spacing of the grid it acts on.
    theta = parameters(net, 1)
    u, own = noise(1, 2, 1, 32, 16), replace(net, nonlinearity=made)
    assert torch.equal(net.rate(net.prepare(theta, grid), u), own.rate(own.prepare(theta, grid), u))


def test_operators_that_differ_in_strength_share_their_factors() -> None:
    net = fluxes()
    begin = net.initialisation(torch.Generator().manual_seed(0))
    assert begin.variation is not None
    differs = unpack(begin.variation[None], net.shapes())
    assert float(differs["gate0"].max()) < float(differs["output"].min()) < 1
    assert math.isclose(float(differs["decay"].min()), 1)


@pytest.mark.parametrize("wrong", [{"points": 1}, {"flux_products": 1}, {"spacing": 0.0}])
def test_impossible_fluxes_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OpsplitError, match=r"FluxStencil: .* must lie in"):
        FluxStencil(**wrong)  # type: ignore[arg-type]
