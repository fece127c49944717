"""The combined equation's solver against exact solutions, shocks, orders and invariants."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.physics import get_physics
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


@pytest.mark.parametrize("left, right", [(1.0, 0.0), (1.0, -0.5), (0.2, -0.8)])
def test_the_shock_of_a_riemann_problem_stands_where_it_should(left: float, right: float) -> None:
    """Within a cell of `alpha (left + right) t`, on every grid."""
    alpha, time = 0.7, 2.0
    for points in (128, 256):
        physics, x = Combined(Grid((points,), (16.0,))), line(points)
        u = torch.where((x >= 4) & (x < 8), left, right).double()[None, None]
        found = physics.solve(u, numbers((alpha, 0, 0)), torch.tensor([time]).double())[0, 0, 0]
        middle = (left + right) / 2
        after = int(((x > 6.5) & (found < middle)).nonzero().min())
        high, low = float(found[after - 1]), float(found[after])
        gap = 16 / points
        shock = float(x[after - 1]) + gap * (high - middle) / (high - low)
        # The jump was between the last point of the plateau and the next.
        assert shock == pytest.approx(8 - gap / 2 + alpha * (left + right) * time, abs=gap)


def test_shocks_only_lose_energy() -> None:
    data = PHYSICS.generate("alpha", 3, seed=2, frames=100).data.double()
    energy = data.square().mean((2, 3))
    assert float(energy.diff(dim=1).max()) < 1e-7
    assert bool((energy[:, -1] < 0.95 * energy[:, 0]).any())


def test_doubling_the_resolution_changes_less_and_less() -> None:
    mu, time = numbers((0.5, 0.1, 0.2)), torch.tensor([1.0]).double()

    def run(points: int) -> Tensor:
        physics = Combined(Grid((points,), (16.0,)))
        u = physics.initial_fields(1, torch.Generator().manual_seed(4))
        return physics.solve(u, mu, time)[..., :: points // 64]

    runs = [run(points) for points in (64, 128, 256)]
    first, second = (float((a - b).norm() / b.norm()) for a, b in itertools.pairwise(runs))
    assert second < 2e-3 and second < first / 3


def test_the_list_of_dynamics_is_128_values_of_each_coefficient_alone() -> None:
    table = PHYSICS.environments()
    for i, (name, high) in enumerate((("alpha", 1.0), ("beta", 0.4), ("gamma", 1.0))):
        active = table[name][128 * i : 128 * (i + 1)]
        torch.testing.assert_close(active, high * torch.arange(1, 129).double() / 128)
        assert int((table[name] != 0).sum()) == 128
    assert {p: get_physics("combined", p).trajectories_of(0) for p in ("paper", "cpu")} == {
        "paper": 64,
        "cpu": 8,
    }


def test_histories_lead_some_training_fields_through_other_mechanisms() -> None:
    mu = numbers(*[(0.0, 0.1, 0.0)] * 16)

    def harmonics(histories: float) -> Tensor:
        physics = Combined(histories=histories)
        fields = physics.training_fields(mu, torch.Generator().manual_seed(6))
        torch.testing.assert_close(fields.mean(2), torch.zeros(16, 1).double(), rtol=0, atol=1e-9)
        return torch.fft.rfft(fields[:, 0], norm="forward")[:, 6:].abs().amax(1)

    assert int((harmonics(0.0) > 1e-12).sum()) == 0
    # Two of three mechanisms make no harmonics of their own.
    assert 2 <= int((harmonics(0.5) > 1e-9).sum()) <= 12
    assert int((harmonics(1.0) > 1e-9).sum()) > int((harmonics(0.5) > 1e-9).sum())


def test_training_trajectories_are_reproducible_and_follow_their_dynamics() -> None:
    physics = get_physics("combined")
    made = physics.generate_environment(200, 3, seed=9)
    assert torch.equal(made.data, physics.generate_environment(200, 3, seed=9).data)
    assert not torch.equal(made.data, physics.generate_environment(200, 3, seed=8).data)
    beta = 0.4 * 73 / 128
    assert made.coefficients["beta"].tolist() == pytest.approx([beta] * 3)
    spectrum = torch.fft.rfft(made.data.double()[:, :, 0]).abs()[:, :, 1:4]
    decay = torch.exp(-beta * (2 * math.pi * torch.arange(1, 4) / 16) ** 2 * 4).double()
    torch.testing.assert_close(spectrum[:, -1], decay * spectrum[:, 0], rtol=1e-4, atol=1e-4)


def test_a_list_is_asked_for_only_where_there_is_one() -> None:
    with pytest.raises(OpsplitError, match="draws its training coefficients at random"):
        get_physics("advection-diffusion").environments()
    with pytest.raises(OpsplitError, match=r"Unknown preset 'gpu' of combined; choose from"):
        get_physics("combined", "gpu")
