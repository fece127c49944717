"""Noise is found and removed; clean frames are not touched."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplit import OperatorSplitter
from opsplit.benchmark import tasks
from opsplit.grid import Grid
from opsplit.physics import get_physics
from opsplit.predict.denoise import denoise, in_modes, signal_modes

PHYSICS = get_physics("advection-diffusion")


def window(split: str, seed: int = 0) -> torch.Tensor:
    return PHYSICS.generate(split, 1, seed, frames=16).data[0]


def with_noise(frames: torch.Tensor, size: float, seed: int = 0) -> torch.Tensor:
    draw = torch.randn(frames.shape, generator=torch.Generator().manual_seed(seed))
    return frames + size * frames.std() * draw


@pytest.mark.parametrize("split", ["A+D", "c", "D"])
def test_clean_frames_stay_as_they_are(split: str) -> None:
    frames = window(split)
    clean, noise = denoise(frames, PHYSICS.grid)
    assert noise < 1e-4
    assert float((clean - frames).norm() / frames.norm()) < 1e-5


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1e-3, 1e-2, 5e-2]))
def test_the_size_of_the_noise_is_measured(seed: int, size: float) -> None:
    frames = window("A+D", seed)
    _, noise = denoise(with_noise(frames, size, seed), PHYSICS.grid)
    assert noise == pytest.approx(size * float(frames.std()), rel=0.15)


@pytest.mark.parametrize("size", [1e-3, 1e-2, 5e-2])
def test_most_of_the_noise_goes(size: float) -> None:
    frames = window("A+D", 1)
    clean, _ = denoise(with_noise(frames, size), PHYSICS.grid)
    assert float((clean - frames).std()) < 0.4 * size * float(frames.std())


@given(speed=st.floats(-2, 2), width=st.floats(0.02, 0.3))
def test_a_front_without_noise_is_left_alone(speed: float, width: float) -> None:
    """Up at a quarter of the line, down at three quarters, both moving; at most 5 cells wide."""
    (x,) = PHYSICS.grid.axes()
    ways = [(x - speed * PHYSICS.dt * t) % 16.0 for t in range(16)]
    front = [torch.tanh((w - 4) / width) - torch.tanh((w - 12) / width) for w in ways]
    frames = torch.stack(front)[:, None].float()
    clean, noise = denoise(frames, PHYSICS.grid)
    assert noise == 0
    assert torch.equal(clean, frames)


@pytest.mark.parametrize("shape", [(64,), (32, 32)])
@given(seed=st.integers(0, 1000))
def test_two_percent_of_noise_on_a_smooth_field(
    smooth: Callable[..., torch.Tensor], shape: tuple[int, ...], seed: int
) -> None:
    grid = Grid(shape, (2 * math.pi,) * len(shape))
    field = smooth(grid, (1,), seed=seed)
    frames = torch.stack([field.roll(t, -1) for t in range(16)])
    _, noise = denoise(with_noise(frames, 0.02, seed), grid)
    assert noise == pytest.approx(0.02 * float(frames.std()), rel=0.2)


def test_two_dimensions_and_every_channel_by_itself() -> None:
    grid = Grid((32, 32), (2 * math.pi, 2 * math.pi))
    x, y = torch.meshgrid(*2 * [2 * math.pi * torch.arange(32) / 32], indexing="ij")
    times = 0.1 * torch.arange(16)
    smooth = torch.stack([torch.sin(x + y - t) for t in times])[:, None]
    frames = torch.cat([with_noise(smooth, 0.05), smooth], 1)
    clean, noise = denoise(frames, grid)
    assert noise > 0.01
    assert float((clean[:, 0] - smooth[:, 0]).std()) < 0.01
    assert float((clean[:, 1] - smooth[:, 0]).abs().max()) < 1e-4


def test_walls_and_short_windows_are_left_alone() -> None:
    frames = with_noise(window("A+D"), 0.05)
    for given_frames, grid in (
        (frames[:3], PHYSICS.grid),
        (frames, Grid((256,), (16.0,), ("reflect",))),
    ):
        clean, noise = denoise(given_frames, grid)
        assert noise == 0 and clean is given_frames


def test_pursuit_stands_noise_that_breaks_regression_on_the_known_terms() -> None:
    observed, future = tasks.test_windows(tasks.columns("advection-diffusion")["A+D"], 3, 0)
    errors: dict[str, float] = {"pursuit": 0.0, "raw": 0.0, "least squares": 0.0}
    for i in range(3):
        noisy, truth = with_noise(observed.data[i], 0.01, i), future.data[i]
        for name, option in (("pursuit", None), ("raw", False)):
            s = OperatorSplitter("advection-diffusion", denoise=option).fit(noisy, observed.dt)
            errors[name] += float((s.predict(34) - truth).norm() / truth.norm()) / 3
        found = PHYSICS.least_squares(noisy, observed.dt)
        mu = {k: torch.tensor([v], dtype=torch.float64) for k, v in found.items()}
        times = torch.arange(1, 35, dtype=torch.float64) * observed.dt
        frames = PHYSICS.solve(noisy[-1:].double(), mu, times)[0]
        errors["least squares"] += float((frames - truth).norm() / truth.norm()) / 3
    assert errors["pursuit"] < 0.01
    assert errors["pursuit"] < errors["raw"] / 5
    assert errors["pursuit"] < errors["least squares"] / 5


def test_modes_without_a_signal_are_left_out_once_and_for_all() -> None:
    x = 2 * torch.pi * torch.arange(64) / 64
    signal = torch.stack([(torch.sin(3 * x) + 0.5 * torch.cos(7 * x + i))[None] for i in range(6)])
    kept = signal_modes(signal, 0.01)
    noise = 0.1 * torch.randn(4, 1, 64, generator=torch.manual_seed(0))
    torch.testing.assert_close(in_modes(signal, kept), signal)
    once = in_modes(noise, kept)
    torch.testing.assert_close(in_modes(once, kept), once)
    # Four of 64 modes hold a signal, and so much of white noise.
    assert int(kept.sum()) == 4
    assert float(once.square().sum() / noise.square().sum()) == pytest.approx(4 / 64, rel=0.8)
    assert bool(signal_modes(signal, 0.0).all()), "without noise nothing is hidden"
