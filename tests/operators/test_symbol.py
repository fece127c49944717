"""The linear part: exact exponentials of a smooth symbol that never grows."""

from __future__ import annotations

import math

import pytest
import torch
from building import BOX, LINE, PLANE, by_hand, noise, parameters
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import Spectral, Symbol

GRIDS = {1: LINE, 2: PLANE, 3: BOX}


@given(
    c=st.floats(-2, 2),
    D=st.floats(0, 2),
    g=st.floats(-0.1, 0.1),
    r=st.floats(0, 1),
    mode=st.integers(1, 10),
    t=st.floats(0, 3),
)
def test_a_linear_flow_is_the_exact_exponential_of_its_symbol(
    c: float, D: float, g: float, r: float, mode: int, t: float
) -> None:
    """`u_t = -r^2 u - c u_x + D u_xx - g u_xxx`, any duration in one go."""
    net = Spectral()
    theta = by_hand(
        net,
        decay={(0, 0, 0): r, (1, 0, 0): math.sqrt(D)},
        turn={(0, 0, 0, 0): -c, (1, 0, 0, 0): g},
    )
    (x,) = LINE.axes()
    k = 2 * math.pi * mode / 16
    u = torch.sin(k * x)[None, None, None]
    found = net.flow(net.prepare(theta, LINE), u, t)[0, 0, 0]
    expected = math.exp(-(r**2 + D * k**2) * t) * torch.sin(k * (x - c * t) + g * k**3 * t)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_linear_flow_multiplies_every_mode_by_the_exponential_of_its_symbol(ndim: int) -> None:
    net, grid = Spectral(2, ndim), GRIDS[ndim]
    prepared = net.prepare(parameters(net, 2, size=1.0), grid)
    u = noise(2, 3, 2, *grid.shape)
    axes = tuple(range(-ndim, 0))
    out = torch.fft.rfftn(net.flow(prepared, u, 0.7), dim=axes)
    growth = torch.exp(0.7 * prepared.tensors["symbol"])[:, None]
    torch.testing.assert_close(out, growth * torch.fft.rfftn(u, dim=axes), rtol=0, atol=1e-10)
    rate = torch.fft.rfftn(net.rate(prepared, u), dim=axes)
    expected = prepared.tensors["symbol"][:, None] * torch.fft.rfftn(u, dim=axes)
    torch.testing.assert_close(rate, expected, rtol=0, atol=1e-9)


@given(a=st.floats(0, 2), b=st.floats(0, 2), seed=st.integers(0, 99))
def test_linear_flows_form_a_semigroup_exactly(a: float, b: float, seed: int) -> None:
    net = Spectral()
    prepared = net.prepare(parameters(net, 2, seed, 1.0), LINE)
    u = noise(2, 2, 1, 32, seed=seed)
    twice = net.flow(prepared, net.flow(prepared, u, a), b)
    torch.testing.assert_close(twice, net.flow(prepared, u, a + b), rtol=0, atol=1e-12)
    assert (net.steps(a + b), net.evaluations(a + b)) == (1, 1)


@given(seed=st.integers(0, 10_000), size=st.floats(0, 100), ndim=st.integers(1, 3))
def test_no_parameters_let_a_mode_grow(seed: int, size: float, ndim: int) -> None:
    net, grid = Spectral(2, ndim), GRIDS[ndim]
    prepared = net.prepare(parameters(net, 2, seed, size), grid)
    assert float(prepared.tensors["symbol"].real.max()) <= 0
    u = noise(2, 1, 2, *grid.shape, seed=seed)
    assert float(net.flow(prepared, u, 5.0).norm()) <= float(u.norm()) * (1 + 1e-12)


@given(c=st.floats(-2, 2), g=st.floats(-0.1, 0.1))
def test_squared_dispersion_keeps_its_sign(c: float, g: float) -> None:
    def symbol(squared: bool, first: float, third: float) -> Tensor:
        net = Spectral(linear=Symbol(squared_dispersion=squared))
        theta = by_hand(net, turn={(0, 0, 0, 0): first, (1, 0, 0, 0): third})
        return net.prepare(theta, LINE).tensors["symbol"]

    roots = (math.copysign(math.sqrt(abs(x)), x) for x in (c, g))
    torch.testing.assert_close(symbol(True, *roots), symbol(False, c, g))


@given(bumps=st.integers(0, 9), highest=st.floats(2, 100), seed=st.integers(0, 99))
def test_a_symbol_depends_on_the_wavenumber_only(bumps: int, highest: float, seed: int) -> None:
    """Grids of twice the length hold every wavenumber of the shorter one, with the same values."""
    net = Spectral(linear=Symbol(bumps, highest))
    theta = parameters(net, 2, seed, 1.0)
    near, far = (
        net.prepare(theta, Grid((n,), (length,))).tensors["symbol"]
        for n, length in ((31, 5.0), (63, 10.0))
    )
    torch.testing.assert_close(far[..., :31:2], near[..., :16], rtol=1e-9, atol=1e-9)


def test_a_bump_changes_the_symbol_around_its_own_wavenumber() -> None:
    net = Spectral(linear=Symbol(5, 31.0))
    grid = Grid((128,), (2 * math.pi,))
    theta = by_hand(net, decay={(0, 0, 3): 1.0})  # the third bump: log2(1 + k) = 2.5
    real = net.prepare(theta, grid).tensors["symbol"][0, 0].real
    k = torch.arange(65, dtype=torch.float64)
    away = (torch.log2(1 + k) - 2.5) / 1.25
    torch.testing.assert_close(real, -torch.exp(-(away**2)), rtol=1e-6, atol=1e-12)


@given(unit=st.floats(0.1, 20), D=st.floats(0, 2), c=st.floats(-2, 2))
def test_the_unit_of_the_wavenumber_rescales_the_parameters(
    unit: float, D: float, c: float
) -> None:
    own, one = Spectral(wavenumber_unit=unit), Spectral()
    scaled = by_hand(own, decay={(1, 0, 0): unit * D}, turn={(0, 0, 0, 0): unit * c})
    plain = by_hand(one, decay={(1, 0, 0): D}, turn={(0, 0, 0, 0): c})
    torch.testing.assert_close(
        own.prepare(scaled, LINE).tensors["symbol"], one.prepare(plain, LINE).tensors["symbol"]
    )


@pytest.mark.parametrize("wrong", [{"bumps": -1}, {"bumps": 65}, {"highest_wavenumber": 0.0}])
def test_impossible_symbols_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(OpsplitError, match=r"Symbol: .* must lie in"):
        Symbol(**wrong)  # type: ignore[arg-type]
