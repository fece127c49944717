"""Fluxes by finite volumes: exact shocks, conservation, symmetries, and the right entropy."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.grid import Grid
from opsplit.operators import Derivatives, Fronts, Products, Spectral
from opsplit.operators.spectral.fronts import Flux, conservative


def burgers(kind: type[Products] = Fronts, ndim: int = 1, channels: int = 1) -> Spectral:
    """u_t = w (u^2)_x along every axis."""
    terms = tuple(f"{c}*{c}@{a}" for c in range(channels) for a in "xyz"[:ndim])
    return Spectral(channels, ndim, 0.01, Derivatives(("lap",), 0.0), kind(terms), 1.0)


def rate(family: Spectral, weights: list[float], u: Tensor, grid: Grid) -> Tensor:
    held = torch.zeros(1, family.n_parameters, dtype=u.dtype)
    held[0, family.channels :] = torch.tensor(weights, dtype=u.dtype)
    return family.rate(family.prepare(held, grid), u[None, None])[0, 0]


def waves(points: int, seed: int, channels: int = 1) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    x = 2 * math.pi * torch.arange(points, dtype=torch.float64) / points
    size, phase = torch.randn(2, channels, 3, generator=draws, dtype=torch.float64)
    return sum(size[:, [k]] * torch.sin((k + 1) * x + 6 * phase[:, [k]]) for k in range(3))


def test_smooth_fields_have_the_rates_of_fourier_modes() -> None:
    errors = []
    for points in (64, 128):
        grid, u = Grid((points,), (2 * math.pi,)), waves(points, 3)
        sharp, smooth = (rate(burgers(kind), [-0.7], u, grid) for kind in (Fronts, Products))
        errors.append(float((sharp - smooth).norm() / smooth.norm()))
    # Cell averages and point values differ by the square of the spacing.
    assert errors[1] < errors[0] / 3 and errors[1] < 0.01


def test_a_shock_moves_at_the_speed_of_rankine_and_hugoniot() -> None:
    """A step from 1 to 0 under u_t + (u^2)_x = 0 moves at speed 1; a fan opens behind it."""
    grid = Grid((200,), (10.0,))
    x = torch.arange(200, dtype=torch.float64) * 0.05
    u = ((x >= 2) & (x < 5)).double()[None]
    family = burgers()
    held = torch.tensor([[0.0, -1.0]], dtype=torch.float64)
    end = family.flow(family.prepare(held, grid), u[None, None], 1.0)[0, 0, 0]
    fan = ((x - 2) / 2).clamp(0, 1)
    exact = torch.where(x < 6, fan, 0.0)
    assert float((end - exact).abs().mean()) < 0.01
    assert float(end.min()) > -0.01 and float(end.max()) < 1.01


@given(seed=st.integers(0, 99), weight=st.floats(-2, 2), channels=st.integers(1, 2))
def test_fluxes_conserve_the_mean(seed: int, weight: float, channels: int) -> None:
    grid, u = Grid((48,), (3.0,)), waves(48, seed, channels)
    weights = [weight, 0.5, -0.3, weight][: channels**2]
    found = rate(burgers(channels=channels), weights, u, grid)
    assert float(found.mean(1).abs().max()) < 1e-12 * max(1.0, float(found.abs().max()))


@given(seed=st.integers(0, 99), size=st.floats(1e-12, 1e12))
def test_rates_scale_with_the_square_of_the_field(seed: int, size: float) -> None:
    grid, u = Grid((48,), (3.0,)), waves(48, seed)
    once, more = (rate(burgers(), [0.8], s * u, grid) for s in (1.0, size))
    assert float((more / size**2 - once).abs().max()) < 1e-9 * float(once.abs().max())


@given(seed=st.integers(0, 99))
def test_mirrored_and_negated_fields_have_mirrored_and_negated_rates(seed: int) -> None:
    grid, u = Grid((48,), (3.0,)), waves(48, seed)
    there = rate(burgers(), [0.8], u, grid)
    back = rate(burgers(), [0.8], -u.flip(-1), grid)
    assert torch.allclose(-back.flip(-1), there, atol=1e-12)


def test_swapped_axes_have_swapped_rates() -> None:
    grid = Grid((24, 24), (3.0, 3.0))
    u = waves(24, 1)[0][:, None] * waves(24, 2)[0][None, :]
    one = rate(burgers(ndim=2), [0.8, -0.3], u[None], grid)
    other = rate(burgers(ndim=2), [-0.3, 0.8], u.T[None], grid)
    assert torch.allclose(one, other.transpose(1, 2), atol=1e-12)


@given(
    weights=st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
    states=st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
)
def test_godunov_takes_the_extreme_flux_between_the_states(
    weights: tuple[float, float], states: tuple[float, float]
) -> None:
    flux = Flux(torch.tensor([[weights]], dtype=torch.float64), ((2,), (3,)))
    left, right = (torch.tensor(s, dtype=torch.float64).reshape(1, 1, 1, 1) for s in states)
    between = left + (right - left) * torch.linspace(0, 1, 4001, dtype=torch.float64)
    values = flux.value(between)
    expected = values.max() if states[0] <= states[1] else values.min()
    assert float(flux._godunov(left, right)) == pytest.approx(float(expected), abs=1e-5)


def test_only_slopes_of_plain_products_are_fluxes() -> None:
    terms = ("0*0@x", "0*0*0@y", "0*0", "0*0@lap", "0:x*0:x@x", "0@x")
    assert conservative(terms) == [0, 1, None, None, None, None]


def test_other_terms_are_those_of_products() -> None:
    grid, u = Grid((64,), (2 * math.pi,)), waves(64, 5)
    terms = ("0*0", "0:x*0:x", "0*0@lap")
    sharp, plain = (
        Spectral(1, 1, 0.01, Derivatives(("lap",), 0.0), kind(terms), 1.0)
        for kind in (Fronts, Products)
    )
    weights = [0.3, -0.2, 0.1]
    assert torch.equal(rate(sharp, weights, u, grid), rate(plain, weights, u, grid))
