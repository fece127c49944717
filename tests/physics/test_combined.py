"""The combined equation's solver against exact solutions, shocks, orders and invariants."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.grid import Grid
from opsplit.physics.combined import Combined, godunov_difference

PHYSICS = Combined()
NAMES = ("alpha", "beta", "gamma")


def numbers(*rows: tuple[float, float, float]) -> dict[str, Tensor]:
    table = torch.tensor(rows, dtype=torch.float64)
    return {name: table[:, i] for i, name in enumerate(NAMES)}


def line(points: int = 256) -> Tensor:
    return 16 * torch.arange(points, dtype=torch.float64) / points


def sine(mode: int, points: int = 256) -> Tensor:
    return torch.sin(2 * math.pi * mode * line(points) / 16)[None, None]


@given(st.floats(0, 0.4), st.floats(0, 2), st.integers(1, 5), st.floats(0, 4))
def test_linear_waves_decay_and_turn_exactly(
    beta: float, gamma: float, mode: int, time: float
) -> None:
    k = 2 * math.pi * mode / 16
    found = PHYSICS.solve(
        sine(mode), numbers((0, beta, gamma)), torch.tensor([time], dtype=torch.float64)
    )
    wave = math.exp(-beta * k**2 * time) * torch.sin(k * line() + gamma * k**3 * time)
    torch.testing.assert_close(found[0, 0, 0], wave, rtol=0, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.25, 0.5, 1.0])
def test_a_shock_runs_at_its_speed(alpha: float) -> None:
    u = torch.zeros(1, 1, 256, dtype=torch.float64)
    u[..., 64:128] = 1
    found = PHYSICS.solve(u, numbers((alpha, 0, 0)), torch.tensor([4.0]).double())[0, 0, 0]
    # Rankine-Hugoniot: the jump of u^2 over the jump of u.
    edge = 16 / 256 * (float((found[100:] > 0.5).nonzero().max()) + 100.5)
    assert edge == pytest.approx(127.5 / 16 + alpha * 4, abs=0.1)
    assert found.max() < 1 + 1e-3 and found.min() > -1e-3


def test_a_rarefaction_through_rest_is_a_fan_without_a_jump() -> None:
    x = line()
    u = torch.where((x > 4) & (x < 12), 1.0, -1.0).double()[None, None]
    found = PHYSICS.solve(u, numbers((1, 0, 0)), torch.tensor([1.0]).double())[0, 0, 0]
    fan = (x > 3) & (x < 5)
    torch.testing.assert_close(found[fan], (x[fan] - 4 + 0.03125) / 2, rtol=0, atol=0.05)


def test_a_smooth_wave_follows_its_characteristics_with_high_order() -> None:
    def error(points: int) -> float:
        physics = Combined(Grid((points,), (16.0,)))
        u = 0.5 * sine(1, points)
        time = 1.0
        found = physics.solve(u, numbers((0.5, 0, 0)), torch.tensor([time], dtype=torch.float64))[
            0, 0, 0
        ]
        x = line(points)
        foot = x.clone()
        for _ in range(100):
            foot = x - time * 0.5 * torch.sin(2 * math.pi * foot / 16)
        exact = 0.5 * torch.sin(2 * math.pi * foot / 16)
        return float((found - exact).abs().max())

    assert error(256) < 2e-3
    assert math.log2(error(64) / error(128)) > 1.8


@pytest.mark.parametrize("split", ["NA+D", "NA+Disp", "all3", "alpha"])
def test_the_mean_is_kept_and_nothing_blows_up(split: str) -> None:
    data = PHYSICS.generate(split, 3, seed=1, frames=60).data
    assert bool(data.isfinite().all())
    means = data.mean(-1)
    torch.testing.assert_close(means, means[:, :1].expand_as(means), rtol=0, atol=1e-5)


def test_order_of_the_integrating_factor_in_time() -> None:
    u, mu = 0.5 * sine(1), numbers((0.5, 0.2, 0.5))

    def run(frames: int) -> Tensor:
        # Frames bound the steps from above, and the Courant limit is far away.
        return PHYSICS.solve(0.02 * u, mu, torch.linspace(0, 4, frames + 1).double())[0, -1]

    reference = run(256)
    errors = [float((run(n) - reference).abs().max()) for n in (2, 4, 8)]
    assert math.log2(errors[0] / errors[1]) > 3.3 or errors[1] < 1e-12


@settings(max_examples=10)
@given(st.integers(0, 100))
def test_a_batch_equals_one_by_one(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    u = PHYSICS.initial_fields(3, generator)
    mu = numbers((0.5, 0, 0), (0, 0.2, 0.3), (0.7, 0.1, 0.4))
    times = torch.tensor([0.1, 0.3]).double()
    whole = PHYSICS.solve(u, mu, times)
    for i in range(3):
        alone = PHYSICS.solve(u[[i]], {k: v[[i]] for k, v in mu.items()}, times)
        torch.testing.assert_close(whole[[i]], alone, rtol=0, atol=2e-4)


def test_the_flux_difference_is_conservative() -> None:
    u = torch.randn(2, 1, 256, generator=torch.Generator().manual_seed(0)).double()
    assert float(godunov_difference(u, 1.0).sum(-1).abs().max()) < 1e-10


@pytest.mark.parametrize("split", list(PHYSICS.splits))
def test_samplers_stay_in_their_ranges(split: str) -> None:
    drawn = PHYSICS.sample_coefficients(split, 200, torch.Generator().manual_seed(0))
    on = {k: bool((v != 0).any()) for k, v in drawn.items()}
    if split == "train":
        assert bool(((torch.stack(list(drawn.values())) != 0).sum(0) <= 1).all())
    elif split in ("alpha", "gamma"):
        assert on == {k: k == split for k in NAMES}
        assert float(drawn[split].min()) >= 1 and float(drawn[split].max()) <= 2
    else:
        assert on == {k: k in PHYSICS.active[split] for k in NAMES}


def test_least_squares_on_the_known_terms_finds_the_coefficients() -> None:
    u = PHYSICS.initial_fields(1, torch.Generator().manual_seed(3))
    mu = numbers((0.1, 0.3, 0.5))
    window = PHYSICS.solve(u, mu, torch.arange(16).double() * PHYSICS.dt)[0]
    found = PHYSICS.least_squares(window, PHYSICS.dt)
    for name in NAMES:
        assert found[name] == pytest.approx(float(mu[name][0]), abs=0.02)
