"""The exact solver, its samplers and its perturbed relative, against what mathematics says."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.physics import PHYSICS, AdvectionDiffusion, get_physics
from opsplit.physics.advection_diffusion import fractal_fields

GRID = Grid((64,), (16.0,))
PHYSICS_64 = AdvectionDiffusion(GRID)
BASE = 2 * math.pi / 16


def numbers(**values: float | list[float]) -> dict[str, Tensor]:
    return {k: torch.tensor(v, dtype=torch.float64).reshape(-1) for k, v in values.items()}


def moments(*times: float) -> Tensor:
    return torch.tensor(times, dtype=torch.float64)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# The exact solution


@given(
    c=st.floats(-3, 3),
    D=st.floats(0, 3),
    mode=st.integers(1, 12),
    t=st.floats(0, 2),
)
def test_a_sine_travels_at_speed_c_and_decays_at_rate_d_k_squared(
    c: float, D: float, mode: int, t: float
) -> None:
    (x,) = GRID.axes()
    k = BASE * mode
    found = PHYSICS_64.solve(torch.sin(k * x)[None, None], numbers(c=c, D=D), moments(t))
    expected = math.exp(-D * k**2 * t) * torch.sin(k * (x - c * t))
    torch.testing.assert_close(found[0, 0, 0], expected, rtol=0, atol=1e-11)


def test_the_solution_satisfies_the_equation(smooth: Callable[..., Tensor]) -> None:
    c, D, t, step = 0.7, 0.4, 0.9, 0.01
    u = PHYSICS_64.solve(
        smooth(GRID, (1, 1)),
        numbers(c=c, D=D),
        moments(t - 2 * step, t - step, t, t + step, t + 2 * step),
    )[0, :, 0]
    rate = (8 * (u[3] - u[1]) - (u[4] - u[0])) / (12 * step)
    k = 2j * math.pi * torch.fft.fftfreq(64, 16 / 64, dtype=torch.float64)
    u_x, u_xx = (torch.fft.ifft(k**power * torch.fft.fft(u[2])).real for power in (1, 2))
    torch.testing.assert_close(rate, -c * u_x + D * u_xx, rtol=0, atol=1e-7)
    assert float(rate.abs().max()) > 0.1


@given(a=st.floats(0, 2), b=st.floats(0, 2), seed=st.integers(0, 99))
def test_two_times_in_a_row_are_their_sum(
    smooth: Callable[..., Tensor], a: float, b: float, seed: int
) -> None:
    mu = numbers(c=1.3, D=0.2)
    u = smooth(GRID, (1, 1), modes=8, seed=seed)
    once = PHYSICS_64.solve(u, mu, moments(a + b))
    twice = PHYSICS_64.solve(PHYSICS_64.solve(u, mu, moments(a))[:, 0], mu, moments(b))
    torch.testing.assert_close(twice, once, rtol=0, atol=1e-12)


@given(cells=st.integers(-70, 70))
def test_advection_by_whole_cells_rolls_the_field(cells: int) -> None:
    u = torch.randn(1, 1, 64, generator=seeded(0), dtype=torch.float64)
    moved = PHYSICS_64.solve(u, numbers(c=cells * GRID.spacing[0], D=0.0), moments(1.0))
    torch.testing.assert_close(moved[:, 0], u.roll(cells, -1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("epsilon", [0.0, 0.8])
def test_the_mean_is_conserved(smooth: Callable[..., Tensor], epsilon: float) -> None:
    u = smooth(GRID, (3, 1)) + 0.3
    mu = numbers(c=[0.5] * 3, D=[0.1] * 3, epsilon=[epsilon] * 3)
    means = PHYSICS_64.solve(u, mu, moments(0, 0.5, 2.0)).mean((2, 3))
    torch.testing.assert_close(means, u.mean((1, 2))[:, None].expand(3, 3), rtol=0, atol=1e-13)


def test_energy_never_grows_and_stays_under_pure_advection(smooth: Callable[..., Tensor]) -> None:
    u = smooth(GRID, (2, 1))
    energy = PHYSICS_64.solve(u, numbers(c=[1.0, 1.0], D=[0.0, 0.5]), moments(0, 1, 2, 3))
    energy = energy.square().sum((2, 3))
    torch.testing.assert_close(energy[0], energy[0, :1].expand(4))
    assert bool((energy[1].diff() < 0).all())


@pytest.mark.parametrize("epsilon", [None, 0.6])
def test_many_trajectories_at_once_equal_one_by_one(
    smooth: Callable[..., Tensor], epsilon: float | None
) -> None:
    u = smooth(GRID, (3, 1))
    mu = numbers(c=[0.1, 0.5, 2.0], D=[0.5, 0.3, 0.2])
    if epsilon is not None:
        mu |= numbers(epsilon=[0.0, epsilon / 2, epsilon])
    times = moments(0.05, 0.1, 0.15, 0.2)
    together = PHYSICS_64.solve(u, mu, times)
    for i in range(3):
        alone = PHYSICS_64.solve(u[i : i + 1], {k: v[i : i + 1] for k, v in mu.items()}, times)
        torch.testing.assert_close(together[i], alone[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.6])
def test_times_of_its_own_for_every_trajectory_equal_separate_calls(
    smooth: Callable[..., Tensor], epsilon: float
) -> None:
    u = smooth(GRID, (2, 1))
    mu = numbers(c=[0.5, 0.2], D=[0.3, 0.1], epsilon=[epsilon, epsilon])
    times = torch.tensor([[0.0, 0.1, 0.2], [0.05, 0.2, 0.3]], dtype=torch.float64)
    together = PHYSICS_64.solve(u, mu, times)
    for i in range(2):
        alone = PHYSICS_64.solve(u[i : i + 1], {k: v[i : i + 1] for k, v in mu.items()}, times[i])
        torch.testing.assert_close(together[i], alone[0], rtol=0, atol=1e-8)


def test_single_precision_in_gives_single_precision_out(smooth: Callable[..., Tensor]) -> None:
    u, mu = smooth(GRID, (1, 1)), numbers(c=0.5, D=0.3, epsilon=0.2)
    for terms in (mu, {"c": mu["c"], "D": mu["D"]}):
        rough = PHYSICS_64.solve(u.float(), terms, moments(0.5))
        assert rough.dtype == torch.float32
        fine = PHYSICS_64.solve(u, terms, moments(0.5))
        torch.testing.assert_close(rough.double(), fine, rtol=0, atol=1e-5)


# The perturbed equation


def test_a_tiny_burgers_term_changes_nothing(smooth: Callable[..., Tensor]) -> None:
    u, times = smooth(GRID, (1, 1)), moments(0, 0.3, 1.7)
    exact = PHYSICS_64.solve(u, numbers(c=0.5, D=0.3), times)
    perturbed = PHYSICS_64.solve(u, numbers(c=0.5, D=0.3, epsilon=1e-13), times)
    torch.testing.assert_close(perturbed, exact, rtol=0, atol=1e-12)
    felt = PHYSICS_64.solve(u, numbers(c=0.5, D=0.3, epsilon=0.5), times)
    assert float((felt - exact).abs().max()) > 1e-3


def test_the_perturbed_solver_converges_with_order_four(
    smooth: Callable[..., Tensor], fitted_order: Callable[..., float]
) -> None:
    u, mu = smooth(GRID, (1, 1)), numbers(c=0.5, D=0.05, epsilon=0.5)
    assert 0.4 * GRID.spacing[0] / (0.5 * float(u.abs().max())) > 0.1  # one step per output

    def at_end(steps: int) -> Tensor:
        times = torch.linspace(0, 0.8, steps + 1, dtype=torch.float64)
        return PHYSICS_64.solve(u, mu, times)[:, -1]

    best, counts = at_end(256), (8, 16, 32)
    errors = [float((at_end(n) - best).norm()) for n in counts]
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(4, abs=0.3)


@pytest.mark.parametrize("epsilon", [0.5, -0.5])
def test_without_diffusion_values_move_along_characteristics(epsilon: float) -> None:
    c, t = 0.5, 1.0  # the shock forms at 1 / (0.5 BASE) = 5.1
    (x,) = GRID.axes()
    found = PHYSICS_64.solve(
        torch.sin(BASE * x)[None, None], numbers(c=c, D=0.0, epsilon=epsilon), moments(t)
    )
    u = torch.sin(BASE * x)
    for _ in range(200):  # a contraction: |d/du| = t epsilon BASE < 1
        u = torch.sin(BASE * (x - (c + epsilon * u) * t))
    torch.testing.assert_close(found[0, 0, 0], u, rtol=0, atol=1e-6)


def test_a_finer_grid_does_not_change_the_perturbed_solution(smooth: Callable[..., Tensor]) -> None:
    fine = AdvectionDiffusion(Grid((128,), (16.0,)))
    mu, times = numbers(c=0.5, D=0.3, epsilon=1.0), moments(*(0.05 * i for i in range(1, 21)))
    coarse = PHYSICS_64.solve(smooth(GRID, (1, 1), modes=2), mu, times)
    found = fine.solve(smooth(fine.grid, (1, 1), modes=2), mu, times)
    torch.testing.assert_close(found[..., ::2], coarse, rtol=0, atol=1e-6)


@pytest.mark.parametrize("points", [64, 48])
def test_products_are_free_of_aliasing(smooth: Callable[..., Tensor], points: int) -> None:
    """Truncated to its modes, the Burgers term keeps the energy; aliased products would not."""
    physics = AdvectionDiffusion(Grid((points,), (16.0,)))
    u = smooth(physics.grid, (1, 1), modes=(points - 1) // 3, size=5.0)
    times = torch.linspace(0, 0.5, 201, dtype=torch.float64)
    energy = physics.solve(u, numbers(c=0.5, D=0.0, epsilon=1.0), times).square().sum((2, 3))[0]
    assert float((energy / energy[0] - 1).abs().max()) < 1e-9


# Initial fields


@given(power=st.floats(1, 4), points=st.sampled_from([32, 256, 600]), seed=st.integers(0, 99))
def test_fractal_fields_have_zero_mean_and_unit_variance(
    power: float, points: int, seed: int
) -> None:
    u = fractal_fields(
        torch.full((3,), power, dtype=torch.float64), Grid((points,), (16.0,)), seeded(seed)
    )
    assert u.shape == (3, 1, points)
    torch.testing.assert_close(u.mean((1, 2)), torch.zeros(3).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(u.square().mean((1, 2)), torch.ones(3).double())


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
def test_the_spectrum_of_fractal_fields_is_a_power_law(
    power: float, fitted_order: Callable[..., float]
) -> None:
    exponents = torch.full((400,), power, dtype=torch.float64)
    u = fractal_fields(exponents, Grid((1024,), (16.0,)), seeded(0))
    spectrum = torch.fft.rfft(u[:, 0]).abs()
    typical = spectrum[:, 1:257].log().mean(0).exp()
    assert fitted_order(range(1, 257), typical.tolist()) == pytest.approx(-power, abs=0.05)
    assert float(spectrum[:, 257:].max()) < 1e-9


def test_a_coarse_grid_samples_the_same_fractal_field() -> None:
    power = torch.full((4,), 1.5, dtype=torch.float64)
    fine = fractal_fields(power, Grid((1024,), (16.0,)), seeded(7))[..., ::8]
    fine = fine - fine.mean(-1, keepdim=True)
    coarse = fractal_fields(power, Grid((128,), (16.0,)), seeded(7))
    torch.testing.assert_close(fine / fine.std(-1, correction=0, keepdim=True), coarse)


def test_training_fields_are_rougher_than_test_fields() -> None:
    def gradient(split: str) -> Tensor:
        u = PHYSICS_64.initial_fields(200, seeded(0), split)
        return u.diff().square().mean((1, 2))

    assert float(gradient("train").mean()) > 3 * float(gradient("A+D").mean())
    assert float(gradient("mixed-0.5").mean()) > 3 * float(gradient("dictionary").mean())


# Coefficients

RANGES = {
    "A+D": ((0.01, 1), (0.01, 1)),
    "c": ((1, 3), (0, 0)),
    "D": ((0, 0), (1, 3)),
    "joint": ((0.01, 2), (0.01, 2)),
    "perturbed": ((0.5, 0.5), (0.3, 0.3)),
    "warm-up": ((0, 3), (0, 3)),
}


@pytest.mark.parametrize("split", RANGES)
def test_coefficients_fill_the_range_of_their_split(split: str) -> None:
    mu = PHYSICS_64.sample_coefficients(split, 2000, seeded(0))
    expected = dict(zip(("c", "D"), RANGES[split], strict=True))
    if split == "perturbed":
        expected["epsilon"] = (0, 1)
    assert mu.keys() == expected.keys()
    for name, (low, high) in expected.items():
        values = mu[name]
        assert values.shape == (2000,) and values.dtype == torch.float64
        assert low <= float(values.min()) <= low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) <= float(values.max()) <= high


@pytest.mark.parametrize(
    ("split", "share"), [("train", 0.0), ("mixed-0.5", 0.5), ("mixed-1.0", 1.0)]
)
def test_training_coefficients_are_pure_or_mixed_in_the_stated_share(
    split: str, share: float
) -> None:
    n = 4000
    mu = PHYSICS_64.sample_coefficients(split, n, seeded(1))
    advects, diffuses = mu["c"] > 0, mu["D"] > 0
    assert bool((advects | diffuses).all())
    five_sigma = 5 * math.sqrt(0.25 / n)
    mixed = float((advects & diffuses).double().mean())
    assert mixed == pytest.approx(share, abs=five_sigma if 0 < share < 1 else 0)
    for only in (advects & ~diffuses, diffuses & ~advects):
        assert float(only.double().mean()) == pytest.approx((1 - share) / 2, abs=five_sigma)
    for values, low in ((mu["c"][advects], 0.01), (mu["D"][diffuses], 0.001)):
        assert low <= float(values.min()) < 0.01 + 0.01
        assert 0.99 < float(values.max()) <= 1


def test_every_described_split_can_be_sampled_and_no_other() -> None:
    for split in PHYSICS_64.splits:
        assert PHYSICS_64.sample_coefficients(split, 2, seeded(0))
    for ask in (PHYSICS_64.generate, PHYSICS_64.dictionary_trajectories):
        with pytest.raises(OpsplitError, match=r"Unknown split 'E'.*choose from.*'A\+D'"):
            ask("E", 1, seed=0)


# Whole trajectories


def test_trajectories_are_reproducible_from_their_seed_and_solve_the_equation() -> None:
    first, again, other = (PHYSICS_64.generate("A+D", 3, seed, frames=5) for seed in (0, 0, 1))
    assert torch.equal(first.data, again.data)
    assert all(torch.equal(v, again.coefficients[k]) for k, v in first.coefficients.items())
    assert not torch.equal(first.data, other.data)
    assert first.data.shape == (3, 5, 1, 64)
    assert first.data.dtype == torch.float32
    assert first.dt == pytest.approx(10 / 99)
    solved = PHYSICS_64.solve(first.data[:, 0].double(), first.coefficients, first.times)
    torch.testing.assert_close(solved.float(), first.data, rtol=0, atol=1e-5)


def test_dictionary_trajectories_are_training_dynamics_from_several_test_fields() -> None:
    found = PHYSICS_64.dictionary_trajectories("train", 20, seed=0, fields=3)
    assert found.data.shape == (60, PHYSICS_64.frames, 1, 64)
    assert bool((found.coefficients["c"] * found.coefficients["D"] == 0).all())
    for values in found.coefficients.values():
        assert bool((values.reshape(20, 3).diff(dim=1) == 0).all())
    assert len(found.coefficients["c"].unique()) > 5
    start = found.data[:, 0, 0].double()
    assert len(start[:, 0].unique()) == 60
    spectrum = torch.fft.rfft(start).abs()
    assert float(spectrum[:, 16:].square().sum() / spectrum.square().sum()) < 1e-4


# Least squares


def test_term_fields_are_the_printed_terms() -> None:
    (x,) = GRID.axes()
    k = 3 * BASE
    found = PHYSICS_64.term_fields(torch.sin(k * x)[None, None])
    torch.testing.assert_close(found["c"][0, 0], -k * torch.cos(k * x))
    torch.testing.assert_close(found["D"][0, 0], -(k**2) * torch.sin(k * x))
    assert PHYSICS_64.terms["c"].text == "-u_x" and PHYSICS_64.terms["D"].text == "u_xx"


@given(c=st.floats(0.01, 1), D=st.floats(0.01, 1), seed=st.integers(0, 99))
def test_least_squares_recovers_the_coefficients(
    smooth: Callable[..., Tensor], c: float, D: float, seed: int
) -> None:
    dt = 1e-3
    times = torch.arange(6, dtype=torch.float64) * dt
    window = PHYSICS_64.solve(smooth(GRID, (1, 1), seed=seed), numbers(c=c, D=D), times)[0]
    found = PHYSICS_64.least_squares(window, dt)
    assert found["c"] == pytest.approx(c, abs=1e-6)
    assert found["D"] == pytest.approx(D, abs=1e-6)


def test_least_squares_errs_with_the_square_of_the_time_step(
    smooth: Callable[..., Tensor], fitted_order: Callable[..., float]
) -> None:
    steps, errors = (0.1, 0.05, 0.025), []
    for dt in steps:
        times = torch.arange(4, dtype=torch.float64) * dt
        window = PHYSICS_64.solve(smooth(GRID, (1, 1)), numbers(c=0.5, D=0.3), times)[0]
        found = PHYSICS_64.least_squares(window, dt)
        errors.append(abs(found["c"] - 0.5) + abs(found["D"] - 0.3))
    assert fitted_order(steps, errors) == pytest.approx(2, abs=0.15)


def test_every_physics_is_found_by_its_name_and_no_other() -> None:
    for name in PHYSICS:
        assert get_physics(name).name == name
    with pytest.raises(OpsplitError, match=r"Unknown physics 'x'; choose from .*advection-diff"):
        get_physics("x")
