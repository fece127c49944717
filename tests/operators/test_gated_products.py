"""Products of learned mixtures: quadratic terms by hand, and no aliasing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from building import LINE, burgers, by_hand, noise, parameters
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import wavenumbers
from opsplit.grid import Grid
from opsplit.operators import GatedProducts, Spectral
from opsplit.operators.family import unpack
from opsplit.physics import AdvectionDiffusion

FINE = Grid((64,), (16.0,))


def family(copies: int, max_step: float = 10.0, ndim: int = 1) -> Spectral:
    return Spectral(1, ndim, max_step, nonlinearity=GatedProducts(copies))


def test_products_can_be_the_burgers_term(smooth: Callable[..., Tensor]) -> None:
    """`-u u_x` in both its forms, against the pseudo-spectral right-hand side."""
    net = family(2)
    u = smooth(FINE, (1, 1, 1), modes=6)
    (k,) = wavenumbers(FINE)
    expected = -u * torch.fft.irfft(1j * k * torch.fft.rfft(u), n=64)
    advective = by_hand(
        net,
        filter={(0, 0, 0): 1.0, (1, 0, 1): 1.0},
        gate0={(0, 0, 0): 1.0, (1, 0, 1): 1.0},
        output={(0, 0, 0): -1.0},
    )
    for theta in (burgers(net, 1.0), advective):
        rate = net.rate(net.prepare(theta, FINE), u)
        torch.testing.assert_close(rate, expected, rtol=0, atol=1e-12)


def test_the_burgers_operator_agrees_with_the_perturbed_solver(
    smooth: Callable[..., Tensor],
) -> None:
    net, physics = family(1, max_step=0.01), AdvectionDiffusion(FINE)
    u, t = smooth(physics.grid, (1, 1)), 0.5
    prepared = net.prepare(burgers(net, 0.7, c=0.5, D=0.3), physics.grid)
    mu = {"c": 0.5, "D": 0.3, "epsilon": 0.7}
    solved = physics.solve(
        u,
        {k: torch.tensor([v], dtype=torch.float64) for k, v in mu.items()},
        torch.linspace(0.01, t, 50, dtype=torch.float64),
    )
    torch.testing.assert_close(net.flow(prepared, u[None], t)[0], solved[:, -1])


@pytest.mark.parametrize("points", [64, 48])
def test_products_are_free_of_aliasing(smooth: Callable[..., Tensor], points: int) -> None:
    """Truncated to its modes, the Burgers term keeps the energy; aliased products would not."""
    grid = Grid((points,), (16.0,))
    u = smooth(grid, (1, 1, 1), modes=(points - 1) // 3, size=5.0)

    def energy(dealias: float) -> float:
        net = Spectral(1, 1, 0.0025, nonlinearity=GatedProducts(1, dealias))
        after = net.flow(net.prepare(burgers(net, 1.0, c=0.5), grid), u, 0.5)
        assert float((after - u).norm()) > 0.1 * float(u.norm())
        return float(after.square().sum() / u.square().sum())

    assert energy(2 / 3) == pytest.approx(1, abs=1e-9)
    assert abs(energy(1.0) - 1) > 1e-4


@given(a=st.floats(0.1, 10), seed=st.integers(0, 99), ndim=st.integers(1, 2))
def test_products_are_polynomials_of_degree_two(a: float, seed: int, ndim: int) -> None:
    """The second difference of `f` along a ray is twice its quadratic part, at any size."""
    net, grid = family(3, ndim=ndim), Grid((16, 8)[:ndim], (8.0, 4.0)[:ndim])
    prepared = net.prepare(parameters(net, 1, seed, 1.0), grid)
    u = noise(1, 1, 1, *grid.shape, seed=seed)

    def quadratic(size: float) -> Tensor:
        f = [net.rate(prepared, s * size * u) for s in (-1, 0, 1)]
        return f[0] - 2 * f[1] + f[2]

    torch.testing.assert_close(quadratic(a), a**2 * quadratic(1.0), rtol=1e-8, atol=1e-9)


def test_without_weights_going_out_there_are_no_products() -> None:
    net, linear = family(3), Spectral()
    theta = parameters(net, 2, size=1.0)
    unpack(theta, net.shapes())["output"].zero_()
    u = noise(2, 3, 1, 32)
    flow = linear.flow(linear.prepare(theta[:, : linear.n_parameters], LINE), u, 0.3)
    torch.testing.assert_close(net.flow(net.prepare(theta, LINE), u, 0.3), flow)


def test_the_start_has_no_products() -> None:
    net = family(4)
    begin = unpack(net.initialisation(torch.Generator().manual_seed(0)).start[None], net.shapes())
    assert not begin["output"].any() and bool(begin["filter"].any() and begin["gate0"].any())


@pytest.mark.parametrize("wrong", [{"copies": 0}, {"copies": 257}, {"dealias": 0.0}])
def test_impossible_products_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OpsplitError, match=r"GatedProducts: .* must lie in"):
        GatedProducts(**wrong)  # type: ignore[arg-type]
