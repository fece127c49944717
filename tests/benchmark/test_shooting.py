"""A physicist who is given the terms gets them right, whatever the window."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplit.benchmark.shooting import Shooting, terms_given, weak_start
from opsplit.grid import Grid
from opsplit.metrics import nrmse
from opsplit.physics import AdvectionDiffusion, GrayScott, NavierStokes, Physics, get_physics
from opsplit.trajectories import Trajectories


def forecast_error(physics: Physics, whole: Trajectories, seen: int = 8) -> float:
    ahead = whole.data.shape[1] - seen
    outcome = terms_given(physics)(whole.windows(seen, 0), ahead, 0)
    for name, value in outcome.coefficients.items():
        assert value == pytest.approx(float(whole.coefficients[name][0]), rel=1e-3, abs=1e-4)
    return float(nrmse(outcome.frames[None], whole.data[:, seen:]))


@settings(max_examples=20, deadline=None)
@given(
    speed=st.floats(-3, 3), diffusivity=st.floats(0, 3), seed=st.integers(0, 1000)
)  # fmt: skip
def test_transport_and_diffusion_are_found_to_rounding(
    speed: float, diffusivity: float, seed: int
) -> None:
    physics = AdvectionDiffusion()
    whole = physics.generate("A+D", 1, seed, 20, {"c": speed, "D": diffusivity})
    assert forecast_error(physics, whole) < 2e-5


@pytest.mark.parametrize("split", ["alpha", "all3", "NA+Disp"])
def test_fronts_and_wave_trains_are_no_obstacle(split: str) -> None:
    physics = get_physics("combined")
    whole = physics.generate(split, 1, 3, 65).windows(40, 25)
    assert forecast_error(physics, whole, 16) < 1e-5


def test_two_channels() -> None:
    physics = GrayScott(grid=Grid((32, 32), (0.5, 0.5)))
    assert forecast_error(physics, physics.generate("GS", 1, 0, 16)) < 1e-5


def test_frames_that_were_truncated_are_met_by_the_finer_simulation() -> None:
    grid = Grid((32, 32), (2 * torch.pi, 2 * torch.pi))
    physics = NavierStokes(grid=grid, fine=64)
    whole = physics.generate("NS", 1, 1, 14)
    assert forecast_error(physics, whole) < 1e-4
    # The cheap simulation alone cannot do so.
    cheap = replace(physics, fine=32)
    assert float(nrmse(_simulated(cheap, whole), whole.data)) > 1e-3


def _simulated(physics: Physics, whole: Trajectories) -> torch.Tensor:
    return physics.solve(whole.data[:, 0].double(), whole.coefficients, whole.times).float()


def test_the_weak_start_is_closer_than_plain_regression_on_a_front() -> None:
    physics = get_physics("combined")
    whole = physics.generate("alpha", 1, 5, 41).windows(16, 25)
    true = float(whole.coefficients["alpha"][0])
    start, _, names = weak_start(physics, whole.data[0].double(), whole.dt)
    weak = float(start[names.index("alpha")])
    plain = physics.least_squares(whole.data[0], whole.dt)["alpha"]
    assert abs(weak - true) < 0.05 * true < abs(plain - true)


def test_a_coefficient_without_a_sign_stays_at_zero_when_the_data_pull_it_below() -> None:
    """Data that grow, as under negative diffusion, leave D at its bound and c free."""
    physics = AdvectionDiffusion()
    whole = physics.generate("A+D", 1, 2, 8, {"c": 0.7, "D": 0.0})
    frames = whole.data[0].double() * torch.linspace(1, 1.05, 8)[:, None, None]
    _, unit, names = weak_start(physics, frames, whole.dt)
    times = whole.dt * torch.arange(1, 8, dtype=torch.float64)
    shot = Shooting(physics, names, unit, frames[:1], frames[None, 1:], times)
    found = dict(
        zip(names, shot.fit(torch.tensor([0.2, 0.3]).double(), 1e-6).tolist(), strict=True)
    )
    assert found["D"] == 0.0
    assert found["c"] == pytest.approx(0.7, abs=1e-3)
