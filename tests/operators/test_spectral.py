"""Our family for periodic grids: exact linear flows, products, resolution and stability."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import fit_modes, wavenumbers
from opsplit.grid import Grid
from opsplit.operators import Spectral, spectral
from opsplit.physics import AdvectionDiffusion, GrayScott, NavierStokes

SHAPES = {1: (32,), 2: (12, 16), 3: (8, 6, 10)}


def family(ndim: int = 1, channels: int = 1, **options: object) -> Spectral:
    return Spectral(channels, ndim, **({"max_step": 10.0} | options))  # type: ignore[arg-type]


def parameters(net: Spectral, n: int, seed: int = 0, size: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    begin = net.initialisation(generator)
    noise = torch.randn(n, net.n_parameters, generator=generator)
    return (begin.start + size * begin.scale * noise).double()


def by_hand(net: Spectral, **entries: dict[tuple[int, ...], float]) -> Tensor:
    """A parameter vector of zeros but for these entries; `gate0_shift` stands for a dot."""
    pieces = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in net.shapes.items()}
    for name, values in entries.items():
        for place, value in values.items():
            pieces[name.replace("_", ".")][place] = value
    return torch.cat([p.flatten() for p in pieces.values()])[None]


# The linear part


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
    net, grid = family(copies=0), Grid((32,), (16.0,))
    theta = by_hand(
        net,
        decay={(0, 0, 0): r, (1, 0, 0): math.sqrt(D)},
        turn={(0, 0, 0, 0): -c, (1, 0, 0, 0): g},
    )
    (x,) = grid.axes()
    k = 2 * math.pi * mode / 16
    u = torch.sin(k * x)[None, None, None]
    found = net.flow(net.prepare(theta, grid), u, t)[0, 0, 0]
    expected = math.exp(-(r**2 + D * k**2) * t) * torch.sin(k * (x - c * t) + g * k**3 * t)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_linear_flow_multiplies_every_mode_by_the_exponential_of_its_symbol(ndim: int) -> None:
    net, grid = family(ndim, channels=2, copies=0), Grid(SHAPES[ndim], (5.0, 6.0, 7.0)[:ndim])
    prepared = net.prepare(parameters(net, 2), grid)
    u = torch.randn(
        2, 3, 2, *grid.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    axes = tuple(range(-ndim, 0))
    out = torch.fft.rfftn(net.flow(prepared, u, 0.7), dim=axes)
    growth = torch.exp(0.7 * prepared.tensors["symbol"])[:, None]
    torch.testing.assert_close(out, growth * torch.fft.rfftn(u, dim=axes), rtol=0, atol=1e-10)


@given(a=st.floats(0, 2), b=st.floats(0, 2), seed=st.integers(0, 99))
def test_linear_flows_form_a_semigroup_exactly(a: float, b: float, seed: int) -> None:
    net, grid = family(copies=0), Grid((32,), (16.0,))
    prepared = net.prepare(parameters(net, 2, seed), grid)
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(2, 2, 1, 32, dtype=torch.float64, generator=generator)
    twice = net.flow(prepared, net.flow(prepared, u, a), b)
    torch.testing.assert_close(twice, net.flow(prepared, u, a + b), rtol=0, atol=1e-12)


@given(seed=st.integers(0, 10_000), size=st.floats(0, 100), ndim=st.integers(1, 3))
def test_no_parameters_let_a_mode_grow(seed: int, size: float, ndim: int) -> None:
    net, grid = family(ndim, channels=2, copies=0), Grid(SHAPES[ndim], (3.0, 8.0, 1.0)[:ndim])
    prepared = net.prepare(parameters(net, 2, seed, size), grid)
    assert float(prepared.tensors["symbol"].real.max()) <= 0
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(2, 1, 2, *grid.shape, dtype=torch.float64, generator=generator)
    assert float(net.flow(prepared, u, 5.0).norm()) <= float(u.norm()) * (1 + 1e-12)


@given(c=st.floats(-2, 2), g=st.floats(-0.1, 0.1))
def test_quiet_turns_are_squares_that_keep_their_sign(c: float, g: float) -> None:
    grid = Grid((32,), (16.0,))

    def symbol(quiet: bool, first: float, third: float) -> Tensor:
        net = family(copies=0, quiet=quiet)
        theta = by_hand(net, turn={(0, 0, 0, 0): first, (1, 0, 0, 0): third})
        return net.prepare(theta, grid).tensors["symbol"]

    roots = (math.copysign(math.sqrt(abs(x)), x) for x in (c, g))
    torch.testing.assert_close(symbol(True, *roots), symbol(False, c, g))


# Fluxes between neighbouring points


def fluxes(ndim: int = 1, **options: object) -> Spectral:
    given_options = {"copies": 0, "shifts": 2, "products": 4, "constants": False, "dealias": 1.0}
    return family(ndim, absolute=True, spacing=0.5, **(given_options | options))


@pytest.mark.parametrize(("ndim", "shifts"), [(1, 2), (1, 5), (2, 3)])
def test_shifts_by_the_spacing_of_the_grid_are_rolls(ndim: int, shifts: int) -> None:
    net, grid = fluxes(ndim, shifts=shifts), Grid((32, 16)[:ndim], (16.0, 8.0)[:ndim])
    shift = net.prepare(parameters(net, 1), grid).tensors["shift"][0]
    u = torch.randn(grid.shape, generator=torch.Generator().manual_seed(0)).double()
    axes = tuple(range(-ndim, 0))
    moved = torch.fft.irfftn(shift * torch.fft.rfftn(u, dim=axes), s=grid.shape, dim=axes)
    cells = range(-((shifts - 1) // 2), shifts // 2 + 1)
    expected = torch.stack([u.roll(-j, axis) for axis in range(ndim) for j in cells])
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-13)


def test_a_flux_is_differenced_from_its_neighbour() -> None:
    """`-(F_i - F_(i-1)) / h` with `F_i = u_i |u_(i+1)|`, by rolls; the last half is bent."""
    net, grid = fluxes(products=2), Grid((32,), (16.0,))
    theta = by_hand(net, gate0={(0, 1, 0): 1.0, (1, 1, 1): 1.0}, output={(0, 1, 1): -1.0})
    u = torch.randn(1, 1, 1, 32, generator=torch.Generator().manual_seed(0)).double()
    flux = u * (u.roll(-1, -1).square() + spectral.ROUNDING**2).sqrt()
    expected = (flux.roll(1, -1) - flux) / 0.5
    torch.testing.assert_close(net.rate(net.prepare(theta, grid), u), expected, rtol=0, atol=1e-12)


@given(a=st.floats(0.1, 10), seed=st.integers(0, 99), ndim=st.integers(1, 2))
def test_without_constants_products_are_of_degree_two(a: float, seed: int, ndim: int) -> None:
    """`f(a u) = a^2 f(u)`, if the corner that is rounded grows with u."""
    net, grid = fluxes(ndim), Grid((16, 8)[:ndim], (8.0, 4.0)[:ndim])
    theta = parameters(net, 1, seed)
    theta[:, : sum(math.prod(net.shapes[name]) for name in ("decay", "turn"))] = 0
    prepared = net.prepare(theta, grid)
    u = torch.randn(1, 1, 1, *grid.shape, generator=torch.Generator().manual_seed(seed)).double()
    expected = a**2 * net.rate(prepared, u)
    close = net.rate(prepared, a * u)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectral, "ROUNDING", a * spectral.ROUNDING)
        torch.testing.assert_close(net.rate(prepared, a * u), expected, rtol=1e-9, atol=1e-12)
    # As it stands, the corner is a thousandth of a field of order one.
    allowed = 10 * spectral.ROUNDING * max(a, 1) / a
    assert float((close - expected).norm()) <= allowed * float(expected.norm())


@given(seed=st.integers(0, 99), ndim=st.integers(1, 2))
def test_differences_of_fluxes_keep_the_mean(seed: int, ndim: int) -> None:
    net, grid = fluxes(ndim, max_step=0.05), Grid((16, 8)[:ndim], (8.0, 4.0)[:ndim])
    pieces = dict(
        zip(
            net.shapes,
            parameters(net, 1, seed).split([math.prod(s) for s in net.shapes.values()], 1),
            strict=True,
        )
    )
    pieces["decay"].view(net.shapes["decay"])[0] = 0  # no decay at wavenumber 0
    pieces["output"].view(net.shapes["output"])[..., 0] = 0  # differences only
    prepared = net.prepare(torch.cat(list(pieces.values()), 1), grid)
    u = torch.randn(1, 1, 1, *grid.shape, generator=torch.Generator().manual_seed(seed)).double()
    rate = net.rate(prepared, u)
    assert abs(float(rate.mean())) < 1e-12 and float(rate.abs().max()) > 1e-3
    assert float(net.flow(prepared, u, 0.1).mean()) == pytest.approx(float(u.mean()), abs=1e-12)


# Polynomials


def polynomial(net: Spectral, *channels: dict[tuple[int, ...], float]) -> Tensor:
    """Parameters that give every channel these weights of monomials."""
    order = net._monomials()
    weights = {
        (c, order.index(m), 0): x for c, held in enumerate(channels) for m, x in held.items()
    }
    return by_hand(net, output=weights)


@given(
    scale=st.floats(0.5, 20),
    spread=st.lists(st.floats(0.5, 2), min_size=5, max_size=5),
    seed=st.integers(0, 99),
)
def test_a_polynomial_can_be_the_advection_of_vorticity(
    smooth: Callable[..., Tensor], scale: float, spread: list[float], seed: int
) -> None:
    """Of w, its slopes (1, 2) and those of the stream function (3, 4): `psi_y w_x - psi_x w_y`."""
    grid = Grid((32, 32), (2 * math.pi,) * 2)
    options = {"degree": 2, "inverse": True, "constants": False}
    net = family(2, wavenumber_scale=scale, spread=spread, **options)
    weights = {(1, 4): spread[1] * spread[4], (2, 3): -spread[2] * spread[3]}
    w = smooth(grid, (2, 1), seed=seed, size=5.0)
    found = net.rate(net.prepare(polynomial(net, weights), grid), w[None])[0]
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
    options = {"degree": 3, "derivatives": False, "dealias": 1.0}
    net = family(2, channels=2, centre=centre, spread=spread, **options)
    up = {
        (): a * b**2, (1,): 2 * a * b * r, (1, 1): a * r**2,
        (0,): s * b**2, (0, 1): 2 * s * b * r, (0, 1, 1): s * r**2,
    }  # fmt: skip
    theta = polynomial(net, {m: -x for m, x in up.items()}, up)
    u = torch.rand(2, 2, 8, 8, generator=torch.Generator().manual_seed(seed)).double()
    found = net.rate(net.prepare(theta, grid), u[None])[0]
    torch.testing.assert_close(
        found, GrayScott(grid).term_fields(u)["reaction"], rtol=0, atol=1e-12
    )


# Products


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


def test_products_can_be_the_burgers_term(
    smooth: Callable[..., Tensor],
) -> None:
    """`-u u_x` in both its forms, against the pseudo-spectral right-hand side."""
    net, grid = family(copies=2), Grid((64,), (16.0,))
    u = smooth(grid, (1, 1, 1), modes=6)
    (k,) = wavenumbers(grid)
    expected = -u * torch.fft.irfft(1j * k * torch.fft.rfft(u), n=64)
    advective = by_hand(
        net,
        filter={(0, 0, 0): 1.0, (1, 0, 1): 1.0},
        gate0={(0, 0, 0): 1.0, (1, 0, 1): 1.0},
        output={(0, 0, 0): -1.0},
    )
    for theta in (burgers(net, 1.0), advective):
        prepared, h = net.prepare(theta, grid), 1e-3
        # Central differences of a flow that also runs backwards, for want of diffusion.
        near, far = (
            (net.flow(prepared, u, s * h) - net.flow(prepared, u, -s * h)) / (2 * s * h)
            for s in (1, 2)
        )
        torch.testing.assert_close((4 * near - far) / 3, expected, rtol=0, atol=1e-9)


def test_the_burgers_operator_agrees_with_the_perturbed_solver(
    smooth: Callable[..., Tensor],
) -> None:
    net, physics = family(copies=1, max_step=0.01), AdvectionDiffusion(Grid((64,), (16.0,)))
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
    net, grid = family(copies=1, max_step=0.0025), Grid((points,), (16.0,))
    u = smooth(grid, (1, 1, 1), modes=(points - 1) // 3, size=5.0)
    after = net.flow(net.prepare(burgers(net, 1.0, c=0.5), grid), u, 0.5)
    assert float(after.square().sum() / u.square().sum()) == pytest.approx(1, abs=1e-9)
    assert float((after - u).norm()) > 0.1 * float(u.norm())


def test_two_layers_can_be_a_cubic_reaction(smooth: Callable[..., Tensor]) -> None:
    """`u_t = u - u^3`: the second layer multiplies the square by u again."""
    net, grid = family(copies=2, layers=2, max_step=0.01), Grid((64,), (16.0,))
    theta = by_hand(
        net,
        filter={(0, 0, 0): 1.0},
        gate0={(0, 0, 0): 1.0, (1, 0, 0): 1.0, (0, 1, 0): 1.0},  # u u and u 1
        gate0_shift={(1, 1): 1.0},
        gate1={(0, 0, 0): -1.0, (1, 0, 1): 1.0, (0, 1, 1): 1.0},  # (1 - u^2) u
        gate1_shift={(0, 0): 1.0},
        output={(0, 0, 0): 1.0},
    )
    u = smooth(grid, (1, 1, 1), modes=1, size=0.5)
    found = net.flow(net.prepare(theta, grid), u, 0.4)
    grown = math.exp(0.8) * u.square()
    torch.testing.assert_close(
        found, u.sign() * (grown / (1 - u.square() + grown)).sqrt(), rtol=0, atol=1e-6
    )


def test_every_layer_of_products_is_truncated_without_aliasing(
    smooth: Callable[..., Tensor],
) -> None:
    """`u_t = P[u P[u^2]]` on 48 points equals the same on 192, with P kept at 15 modes."""
    net, grid, fine = family(copies=2, layers=2), Grid((48,), (16.0,)), Grid((192,), (16.0,))
    theta = by_hand(
        net,
        filter={(0, 0, 0): 1.0},
        gate0={(0, 0, 0): 1.0, (1, 0, 0): 1.0, (0, 1, 0): 1.0},  # u u and u 1
        gate0_shift={(1, 1): 1.0},
        gate1={(0, 0, 0): 1.0, (1, 0, 1): 1.0},
        output={(0, 0, 0): 1.0},
    )
    prepared, h = net.prepare(theta, grid), 1e-4
    u = smooth(grid, (1, 1, 1), modes=15)
    rate = (net.flow(prepared, u, h) - net.flow(prepared, u, -h)) / (2 * h)
    keep = (torch.arange(97) < 16).double()
    v = smooth(fine, (1, 1, 1), modes=15)
    square = torch.fft.irfft(torch.fft.rfft(v * v) * keep, n=192)
    expected = torch.fft.irfft(torch.fft.rfft(v * square) * keep, n=192)[..., ::4]
    torch.testing.assert_close(rate, expected, rtol=0, atol=1e-9)
    assert float(rate.abs().max()) > 1e-3


def test_inverse_filters_give_the_velocity_of_a_vorticity() -> None:
    """Taylor-Green vortices move nothing: `velocity . grad(vorticity)` vanishes, its parts not."""
    net, grid = family(2, copies=2, inverse=True), Grid((16, 16), (2 * math.pi,) * 2)
    x, y = torch.meshgrid(*grid.axes(), indexing="ij")
    vorticity = 2 * torch.sin(x) * torch.sin(y)
    # One copy is d/dy of the inverse Laplacian (up to sign), the other d/dx of the vorticity.
    into = {(0, 0, 4): 1.0, (1, 0, 1): 1.0}
    multiply = {(0, 0, 0): 1.0, (1, 0, 1): 1.0}
    theta = by_hand(net, filter=into, gate0=multiply, output={(0, 0, 0): 1.0})
    prepared, h = net.prepare(theta, grid), 1e-4
    u = vorticity[None, None, None]
    rate = (net.flow(prepared, u, h) - net.flow(prepared, u, -h))[0, 0, 0] / (2 * h)
    # i k_y / |k|^2 with |k|^2 = 2 makes half of the derivative of every mode of this field.
    expected = (torch.sin(x) * torch.cos(y)) * (2 * torch.cos(x) * torch.sin(y))
    torch.testing.assert_close(rate, expected, rtol=0, atol=1e-6)


def test_half_flows_compose_to_the_order_of_the_integrator(
    smooth: Callable[..., Tensor], fitted_order: Callable[..., float]
) -> None:
    net, grid = family(copies=1), Grid((32,), (16.0,))
    prepared = net.prepare(burgers(net, 2.0, c=0.5, D=0.1), grid)
    u, steps = smooth(grid, (1, 1, 1)), (0.2, 0.1, 0.05)
    gaps = [
        float(
            (
                net.flow(prepared, net.flow(prepared, u, h / 2), h / 2) - net.flow(prepared, u, h)
            ).norm()
        )
        for h in steps
    ]
    assert fitted_order(steps, gaps) == pytest.approx(5, abs=0.5)  # one step of order four


def test_a_flow_with_products_is_of_fourth_order_in_its_step(
    smooth: Callable[..., Tensor], fitted_order: Callable[..., float]
) -> None:
    grid, counts = Grid((32,), (16.0,)), (8, 16, 32)
    theta = burgers(family(copies=1), 2.0, c=0.5, D=0.1)

    def after_one(steps: int) -> Tensor:
        net = family(copies=1, max_step=1 / steps)
        assert net.evaluations(1.0) == 4 * steps
        return net.flow(net.prepare(theta, grid), smooth(grid, (1, 1, 1)), 1.0)

    best = after_one(128)
    errors = [float((after_one(n) - best).norm()) for n in counts]
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(4, abs=0.5)


# Grids


@pytest.mark.parametrize("copies", [0, 3])
@pytest.mark.parametrize("ndim", [1, 2])
def test_an_operator_is_the_same_at_every_resolution(
    smooth: Callable[..., Tensor], copies: int, ndim: int
) -> None:
    net = family(ndim, copies=copies, max_step=0.05)
    theta = parameters(net, 2, seed=1)
    coarse, fine = (
        Grid((n,) * ndim, (16.0,) * ndim) for n in ((128, 256) if ndim == 1 else (32, 64))
    )
    # In the plane the coarse grid keeps ten modes: room for the products of the products of one.
    low, high = (
        net.flow(net.prepare(theta, g), smooth(g, (2, 1, 1), modes=3 if ndim == 1 else 1), 0.1)
        for g in (coarse, fine)
    )
    every_other = (..., *(slice(None, None, 2),) * ndim)
    torch.testing.assert_close(high[every_other], low, rtol=0, atol=1e-12)


@pytest.mark.parametrize("copies", [0, 2])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_a_batch_of_operators_equals_each_alone(
    smooth: Callable[..., Tensor], ndim: int, copies: int
) -> None:
    net = family(ndim, channels=2, copies=copies, layers=2, inverse=ndim > 1)
    grid = Grid(SHAPES[ndim], (5.0,) * ndim)
    theta, u = parameters(net, 3, size=0.3), smooth(grid, (3, 2, 2), modes=2, size=0.3)
    durations = torch.tensor([0.1, 0.0, 0.3], dtype=torch.float64)
    together = net.flow(net.prepare(theta, grid), u, durations)
    assert together.shape == u.shape and together.dtype == torch.float64
    for e, h in enumerate(durations.tolist()):
        for k in range(2):
            alone = net.flow(net.prepare(theta[e : e + 1], grid), u[e : e + 1, k : k + 1], h)
            torch.testing.assert_close(together[e, k], alone[0, 0], rtol=0, atol=1e-12)
    torch.testing.assert_close(together[1], u[1], rtol=0, atol=1e-12)
    assert float((together[2] - u[2]).abs().max()) > 1e-5


def test_a_shift_by_any_number_of_cells_commutes_with_the_flow() -> None:
    net, grid = family(copies=3, layers=2), Grid((32,), (16.0,))
    prepared = net.prepare(parameters(net, 1), grid)
    u = torch.randn(1, 1, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for cells in (1, 7):
        shifted = net.flow(prepared, u.roll(cells, -1), 0.3)
        torch.testing.assert_close(shifted, net.flow(prepared, u, 0.3).roll(cells, -1))


def test_single_precision_agrees_with_double() -> None:
    net, grid = family(copies=3), Grid((32,), (16.0,))
    theta = parameters(net, 1)
    u = torch.randn(1, 1, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rough = net.flow(net.prepare(theta.float(), grid), u.float(), 0.3)
    assert rough.dtype == torch.float32
    fine = net.flow(net.prepare(theta, grid), u, 0.3)
    torch.testing.assert_close(rough.double(), fine, rtol=0, atol=1e-5)


def test_a_family_is_built_again_from_its_configuration() -> None:
    net = family(2, channels=3, copies=2, layers=2, inverse=True, bumps=3, wavenumber_scale=2.0)
    again = Spectral(**net.config())
    assert again.config() == net.config()
    assert again.shapes == net.shapes


def test_the_start_is_close_to_standing_still(smooth: Callable[..., Tensor]) -> None:
    net, grid = family(copies=4), Grid((32,), (16.0,))
    u = smooth(grid, (1, 1, 1))
    begin = net.initialisation(torch.Generator().manual_seed(0))
    moved = net.flow(net.prepare(begin.start[None].double(), grid), u, 0.1) - u
    assert 0 < float(moved.norm()) < 0.05 * float(u.norm())
    assert bool((begin.start.abs() < begin.bound).all())


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (Grid((32,), (1.0,), "zero"), 'need periodic axes.*family="unet" for walls'),
        (Grid((32, 32), (1.0, 1.0)), "act on 1-D fields, the data are 2-D"),
    ],
)
def test_a_grid_it_cannot_act_on_is_refused_with_the_reason(grid: Grid, sentence: str) -> None:
    net = family()
    with pytest.raises(OpsplitError, match=sentence):
        net.prepare(torch.zeros(1, net.n_parameters), grid)


# Products on a finer grid


@given(ndim=st.sampled_from([1, 2, 3]), factor=st.integers(2, 3), seed=st.integers(0, 99))
def test_modes_fit_a_finer_grid_and_come_back(ndim: int, factor: int, seed: int) -> None:
    shape = SHAPES[ndim]
    fine = tuple(factor * n for n in shape)
    axes = tuple(range(-ndim, 0))
    u = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed)).double()
    spectrum = torch.fft.rfftn(u, dim=axes)
    for axis, n in zip(axes, shape, strict=True):
        spectrum.select(axis, n // 2).zero_()
    u = torch.fft.irfftn(spectrum, s=shape, dim=axes)
    wide = fit_modes(spectrum, shape, fine)
    v = torch.fft.irfftn(wide, s=fine, dim=axes)
    torch.testing.assert_close(v[(slice(None), *[slice(None, None, factor)] * ndim)], u)
    torch.testing.assert_close(fit_modes(wide, fine, shape), spectrum)


@given(seed=st.integers(0, 99))
def test_products_of_two_on_a_finer_grid_are_exact(seed: int) -> None:
    """On every mode of the grid they equal those of a grid where nothing is aliased."""
    net = family(2, degree=2, derivatives=False, constants=False, dealias=1.5)
    coarse, fine = Grid((12, 16), (1.0, 1.0)), Grid((48, 64), (1.0, 1.0))
    theta = by_hand(net, output={(0, 0, 0): 1.0})
    u = torch.randn(1, 1, 1, 12, 16, generator=torch.Generator().manual_seed(seed)).double()
    spectrum = torch.fft.rfftn(u, dim=(-2, -1))
    spectrum[..., 6, :] = 0
    spectrum[..., 8] = 0
    u = torch.fft.irfftn(spectrum, s=(12, 16), dim=(-2, -1))
    wide = torch.fft.irfftn(fit_modes(spectrum, (12, 16), (48, 64)), s=(48, 64), dim=(-2, -1))
    whole = torch.fft.rfftn(wide.square(), dim=(-2, -1))
    expected = torch.fft.irfftn(fit_modes(whole, fine.shape, coarse.shape), s=(12, 16))
    torch.testing.assert_close(net.rate(net.prepare(theta, coarse), u), expected)


# Monomials: mixed, left out, cut


def _euler(**options: object) -> tuple[Spectral, Grid]:
    """Products of the vorticity, its gradient and that of the stream function."""
    settings = {"degree": 2, "constants": False, "inverse": True, "dealias": 1.0} | options
    return family(2, **settings), Grid((16, 16), (2 * math.pi, 2 * math.pi))


def test_mixed_monomials_are_the_same_operator_with_other_weights() -> None:
    plain, grid = _euler()
    n = plain.products
    generator = torch.Generator().manual_seed(3)
    matrix = torch.randn(n, n, generator=generator, dtype=torch.float64)
    mixed, _ = _euler(mixing=matrix.flatten().tolist())
    weights = torch.randn(1, 1, n, 1, generator=generator, dtype=torch.float64)
    rest = torch.zeros(1, plain.n_parameters - n, dtype=torch.float64)
    u = torch.randn(1, 2, 1, 16, 16, generator=generator, dtype=torch.float64)
    of_mixed = mixed.prepare(torch.cat([rest, weights.flatten(1)], 1), grid)
    of_plain = plain.prepare(torch.cat([rest, (weights[0, :, :, 0] @ matrix)], 1), grid)
    torch.testing.assert_close(mixed.rate(of_mixed, u), plain.rate(of_plain, u))


@pytest.mark.parametrize("duration", [0.3, torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)])
def test_operators_without_products_flow_exactly_beside_others(duration: float | Tensor) -> None:
    """Small weights are none; what is left acts as it does alone, in flows and in rates."""
    pruned, grid = _euler(prune=0.05, max_step=0.1)
    full, _ = _euler(max_step=0.1)
    theta = parameters(full, 3, seed=1, size=0.3)
    n = full.products
    theta[:, -n:] = 0.01
    theta[1, -n:] = 0.0
    theta[1, -n + 3] = 0.4
    exact = theta.clone()
    exact[[0, 2], -n:] = 0.0
    u = torch.randn(
        3, 2, 1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    expected = full.flow(full.prepare(exact, grid), u, duration)
    torch.testing.assert_close(pruned.flow(pruned.prepare(theta, grid), u, duration), expected)
    rate = full.rate(full.prepare(exact, grid), u)
    torch.testing.assert_close(pruned.rate(pruned.prepare(theta, grid), u), rate)


def test_weights_are_not_left_out_while_they_are_trained() -> None:
    """From zero, where training starts, they could not grow."""
    net, grid = _euler(prune=1.0)
    theta = torch.zeros(1, net.n_parameters, dtype=torch.float64, requires_grad=True)
    u = torch.randn(
        1, 1, 1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    net.flow(net.prepare(theta, grid), u, 0.1).square().sum().backward()
    assert theta.grad is not None and bool((theta.grad[:, -net.products :] != 0).any())


def test_a_cut_damps_the_finest_modes_of_flows_with_products_and_no_others() -> None:
    net, grid = _euler(prune=0.05, cut=50.0)
    theta = torch.zeros(2, net.n_parameters, dtype=torch.float64)
    # Of two velocities across the wave, which has none.
    theta[0, -1] = 0.06
    x = grid.axes()[0]
    for mode, left in ((2, 1.0), (8, math.exp(-50.0 * 0.1))):
        u = torch.cos(mode * x)[:, None].expand(16, 16)[None, None, None].expand(2, 1, 1, 16, 16)
        after = net.flow(net.prepare(theta, grid), u.contiguous(), 0.1)
        share = (after * u).sum((1, 2, 3, 4)) / (u * u).sum((1, 2, 3, 4))
        torch.testing.assert_close(share, torch.tensor([left, 1.0], dtype=torch.float64))
