"""Polynomials of fields, derivatives and inverse filters: terms by hand, units, zero weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from building import by_hand, noise, parameters
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import fit_modes
from opsplit.grid import Grid
from opsplit.operators import Examples, Polynomial, Spectral
from opsplit.physics import GrayScott, NavierStokes

TORUS = Grid((16, 16), (2 * math.pi, 2 * math.pi))
EULER = Polynomial(2, lower_degrees=False, derivatives=True, inverse=True)
"""Products of two of the vorticity, its gradient and that of the stream function."""


def family(polynomial: Polynomial, channels: int = 1, ndim: int = 2, **more: float) -> Spectral:
    return Spectral(channels, ndim, **({"max_step": 10.0} | more), nonlinearity=polynomial)


def weighted(net: Spectral, *channels: dict[tuple[int, ...], float]) -> Tensor:
    """Parameters that give every channel these weights of monomials."""
    assert isinstance(net.nonlinearity, Polynomial)
    order = net.nonlinearity.monomials(net.channels, net.ndim)
    weights = {
        (c, order.index(m), 0): x for c, held in enumerate(channels) for m, x in held.items()
    }
    return by_hand(net, output=weights)


@given(
    unit=st.floats(0.5, 20),
    spread=st.lists(st.floats(0.5, 2), min_size=5, max_size=5),
    seed=st.integers(0, 99),
)
def test_a_polynomial_can_be_the_advection_of_vorticity(
    smooth: Callable[..., Tensor], unit: float, spread: list[float], seed: int
) -> None:
    """Of w, its slopes (1, 2) and those of the stream function (3, 4): `psi_y w_x - psi_x w_y`."""
    grid = Grid((32, 32), (2 * math.pi,) * 2)
    own = replace(EULER, spread=tuple(spread), dealias=2 / 3)
    net = family(own, wavenumber_unit=unit)
    weights = {(1, 4): spread[1] * spread[4], (2, 3): -spread[2] * spread[3]}
    w = smooth(grid, (2, 1), seed=seed, size=5.0)
    found = net.rate(net.prepare(weighted(net, weights), grid), w[None])[0]
    expected = NavierStokes(grid).term_fields(w)["advection"]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)
    assert float(expected.abs().max()) > 1e-2


@given(
    centre=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    spread=st.tuples(st.floats(0.1, 1), st.floats(0.1, 1)),
    seed=st.integers(0, 99),
)
def test_a_polynomial_can_be_the_gray_scott_reaction(
    centre: tuple[float, float], spread: tuple[float, float], seed: int
) -> None:
    """`A B^2` of `A = a + s x`, `B = b + r y`, on any field for want of derivatives."""
    grid, (a, b), (s, r) = Grid((8, 8), (1.0, 1.0)), centre, spread
    net = family(Polynomial(3, centre=centre, spread=spread), channels=2)
    up = {
        (): a * b**2, (1,): 2 * a * b * r, (1, 1): a * r**2,
        (0,): s * b**2, (0, 1): 2 * s * b * r, (0, 1, 1): s * r**2,
    }  # fmt: skip
    theta = weighted(net, {m: -x for m, x in up.items()}, up)
    u = torch.rand(2, 2, 8, 8, generator=torch.Generator().manual_seed(seed)).double()
    found = net.rate(net.prepare(theta, grid), u[None])[0]
    torch.testing.assert_close(
        found, GrayScott(grid).term_fields(u)["reaction"], rtol=0, atol=1e-12
    )


def test_a_cubic_reaction_follows_its_exact_solution(smooth: Callable[..., Tensor]) -> None:
    """`u_t = u - u^3`."""
    grid = Grid((64,), (16.0,))
    net = family(Polynomial(3), ndim=1, max_step=0.01)
    u = smooth(grid, (1, 1, 1), modes=1, size=0.5)
    found = net.flow(net.prepare(weighted(net, {(0,): 1.0, (0, 0, 0): -1.0}), grid), u, 0.4)
    grown = math.exp(0.8) * u.square()
    torch.testing.assert_close(
        found, u.sign() * (grown / (1 - u.square() + grown)).sqrt(), rtol=0, atol=1e-6
    )


def test_inverse_filters_give_the_velocity_of_a_vorticity() -> None:
    """Taylor-Green vortices move nothing: `velocity . grad(vorticity)` vanishes, its parts not."""
    net = family(EULER)
    x, y = torch.meshgrid(*TORUS.axes(), indexing="ij")
    u = (2 * torch.sin(x) * torch.sin(y))[None, None, None]
    half = net.rate(net.prepare(weighted(net, {(1, 4): 1.0}), TORUS), u)[0, 0, 0]
    # i k_y / |k|^2 with |k|^2 = 2 makes half of the derivative of every mode of this field.
    expected = (torch.sin(x) * torch.cos(y)) * (2 * torch.cos(x) * torch.sin(y))
    torch.testing.assert_close(half, expected, rtol=0, atol=1e-12)
    both = net.prepare(weighted(net, {(1, 4): 1.0, (2, 3): -1.0}), TORUS)
    torch.testing.assert_close(net.rate(both, u), torch.zeros_like(u), rtol=0, atol=1e-12)


@given(seed=st.integers(0, 99))
def test_products_of_two_on_a_finer_grid_are_exact(seed: int) -> None:
    """On every mode of the grid they equal those of a grid where nothing is aliased."""
    net = family(Polynomial(2, lower_degrees=False, dealias=1.5))
    coarse, fine = Grid((12, 16), (1.0, 1.0)), Grid((48, 64), (1.0, 1.0))
    spectrum = torch.fft.rfftn(noise(1, 1, 1, 12, 16, seed=seed), dim=(-2, -1))
    spectrum[..., 6, :] = 0
    spectrum[..., 8] = 0
    u = torch.fft.irfftn(spectrum, s=(12, 16), dim=(-2, -1))
    wide = torch.fft.irfftn(fit_modes(spectrum, (12, 16), (48, 64)), s=(48, 64), dim=(-2, -1))
    whole = torch.fft.rfftn(wide.square(), dim=(-2, -1))
    expected = torch.fft.irfftn(fit_modes(whole, fine.shape, coarse.shape), s=(12, 16))
    found = net.rate(net.prepare(weighted(net, {(0, 0): 1.0}), coarse), u)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("polynomial", "channels", "ndim", "count"),
    [
        (Polynomial(2), 1, 1, 3),
        (Polynomial(3), 2, 2, 10),
        (Polynomial(3, lower_degrees=False), 2, 2, 4),
        (EULER, 1, 2, 15),
        (Polynomial(2, derivatives=True), 1, 3, 15),
    ],
)
def test_monomials_are_all_products_up_to_the_degree(
    polynomial: Polynomial, channels: int, ndim: int, count: int
) -> None:
    found = polynomial.monomials(channels, ndim)
    assert len(found) == len({tuple(sorted(m)) for m in found}) == count
    lowest = 0 if polynomial.lower_degrees else polynomial.degree
    assert {len(m) for m in found} == set(range(lowest, polynomial.degree + 1))


@given(ndim=st.integers(1, 3), degree=st.integers(1, 4), size=st.floats(0.1, 10))
def test_without_lower_degrees_a_polynomial_is_homogeneous(
    ndim: int, degree: int, size: float
) -> None:
    grid = Grid((8,) * ndim, (1.0,) * ndim)
    net = family(Polynomial(degree, lower_degrees=False), channels=2, ndim=ndim)
    theta = parameters(net, 2, size=1.0)
    theta[:, : Spectral(2, ndim).n_parameters] = 0
    prepared, u = net.prepare(theta, grid), noise(2, 1, 2, *grid.shape)
    torch.testing.assert_close(
        net.rate(prepared, size * u), size**degree * net.rate(prepared, u), rtol=1e-9, atol=1e-9
    )


# Units


def test_mixed_monomials_are_the_same_operator_with_other_weights() -> None:
    plain = family(EULER)
    n = len(EULER.monomials(1, 2))
    matrix = noise(n, n, seed=3)
    mixed = family(replace(EULER, mixing=tuple(matrix.flatten().tolist())))
    weights = noise(1, n, seed=4)
    rest = torch.zeros(1, plain.n_parameters - n, dtype=torch.float64)
    u = noise(1, 2, 1, 16, 16, seed=5)
    of_mixed = mixed.prepare(torch.cat([rest, weights], 1), TORUS)
    of_plain = plain.prepare(torch.cat([rest, weights @ matrix], 1), TORUS)
    torch.testing.assert_close(mixed.rate(of_mixed, u), plain.rate(of_plain, u))


@pytest.mark.parametrize("polynomial", [Polynomial(3), EULER], ids=["reaction", "vorticity"])
def test_fitted_monomials_are_orthonormal_over_the_examples(polynomial: Polynomial) -> None:
    channels = 2 if polynomial.degree == 3 else 1
    states = 1.7 + 0.3 * noise(20, channels, 16, 16)
    net = family(polynomial, channels).fitted(Examples(states, states, TORUS, 0.1))
    made = net.nonlinearity
    assert isinstance(made, Polynomial) and made.mixing
    bank = made._bank(TORUS, 1.0, states)[None]
    x = made.factors(bank, torch.fft.rfftn(states[None], dim=(-2, -1)), TORUS)
    terms = made.evaluate(x, channels, 2).transpose(0, 2).flatten(1)
    rows = torch.tensor(made.mixing).double().reshape(len(terms), -1) @ terms
    gram = rows @ rows.T / rows.shape[1]
    torch.testing.assert_close(gram, torch.eye(len(gram)).double(), rtol=0, atol=1e-4)
    torch.testing.assert_close(x.square().mean((0, 1, 3, 4)), torch.ones(x.shape[2]).double())
    # Only polynomials that hold lower degrees may be centred: the others would no longer be
    # homogeneous.
    assert bool(made.centre) == polynomial.lower_degrees


@pytest.mark.parametrize(
    ("polynomial", "channels", "sentence"),
    [
        (Polynomial(2, centre=(1.0,)), 2, "centre needs 2 numbers, got 1"),
        (Polynomial(2, spread=(1.0,) * 3), 1, "spread needs 1 numbers, got 3"),
        (Polynomial(2, mixing=(1.0,) * 4), 1, "mixing needs 9 numbers, got 4"),
        (Polynomial(8), 20, "has 3108105 monomials, more than 1000"),
        (Polynomial(8, derivatives=True, inverse=True), 64, "monomials, more than 1000"),
    ],
)
def test_what_does_not_belong_together_cannot_be_constructed(
    polynomial: Polynomial, channels: int, sentence: str
) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        Spectral(channels, 2, nonlinearity=polynomial)


# Zero weights


@pytest.mark.parametrize("duration", [0.3, torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)])
def test_operators_without_products_flow_exactly_beside_others(duration: float | Tensor) -> None:
    """Small weights are none; what is left acts as it does alone, in flows and in rates."""
    full = family(EULER, max_step=0.1)
    n = len(EULER.monomials(1, 2))
    theta = parameters(full, 3, seed=1)
    theta[:, -n:] = 0.01
    theta[1, -n:] = 0.0
    theta[1, -n + 3] = 0.4
    pruned, kept = full.pruned(theta, 0.05)
    exact = theta.clone()
    exact[[0, 2], -n:] = 0.0
    assert torch.equal(kept, exact)
    u, linear = noise(3, 2, 1, 16, 16), Spectral(1, 2)
    moved = pruned.flow(pruned.prepare(kept, TORUS), u, duration)
    symbols = linear.prepare(theta[:, : linear.n_parameters], TORUS)
    exactly = linear.flow(symbols, u, duration)
    for e in (0, 2):
        assert torch.equal(moved[e], exactly[e])
    part = torch.tensor([1])
    own = full.prepare(theta[part], TORUS)
    h = duration if isinstance(duration, float) else 0.2
    steps = replace(full, max_step=0.1 if isinstance(duration, float) else 0.2 / 3 * 1.0001)
    torch.testing.assert_close(moved[part], steps.flow(own, u[part], h))
    rate = full.rate(own, u[part])
    torch.testing.assert_close(pruned.rate(pruned.prepare(kept, TORUS), u)[part], rate)


def test_pruned_weights_are_those_of_the_monomials_themselves() -> None:
    n = len(EULER.monomials(1, 2))
    net = family(replace(EULER, mixing=tuple(noise(n, n, seed=3).flatten().tolist())))
    theta = parameters(net, 2, size=1.0)
    pruned, kept = net.pruned(theta, 1e-30)
    assert isinstance(pruned, Spectral) and isinstance(pruned.nonlinearity, Polynomial)
    assert pruned.nonlinearity.mixing == ()
    u = noise(2, 2, 1, 16, 16)
    torch.testing.assert_close(
        pruned.rate(pruned.prepare(kept, TORUS), u), net.rate(net.prepare(theta, TORUS), u)
    )


def test_weights_are_not_left_out_while_they_are_trained() -> None:
    """From zero, where training starts, they could not grow."""
    net = family(EULER)
    theta = torch.zeros(1, net.n_parameters, dtype=torch.float64, requires_grad=True)
    net.flow(net.prepare(theta, TORUS), noise(1, 1, 1, 16, 16), 0.1).square().sum().backward()
    n = len(EULER.monomials(1, 2))
    assert theta.grad is not None and bool((theta.grad[:, -n:] != 0).any())
