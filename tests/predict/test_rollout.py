"""Forecasts of exact operators against the exact solution, at any time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import UserFunction
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.rollout import Forecast, rollout
from opsplit.search import Composition
from opsplit.splitting import SCHEMES

GRID = Grid((32,), (16.0,))
PHYSICS = AdvectionDiffusion(GRID)
Build = Callable[..., OperatorDictionary]
Smooth = Callable[..., Tensor]


def forecast(
    dictionary: OperatorDictionary,
    start: Tensor,
    times: list[float] | Tensor,
    operators: tuple[int, ...] = (0, 1),
    strengths: tuple[float, ...] | None = None,
    dt: float = 0.1,
    **options: object,
) -> Forecast:
    composition = Composition.of(dictionary, operators, 0.0, strengths)
    return rollout(
        dictionary.prepare(GRID, start),
        composition,
        start,
        times,
        dt,
        **options,  # type: ignore[arg-type]
    )


def truth(start: Tensor, c: float, D: float, times: list[float]) -> Tensor:
    mu = {k: torch.tensor([v], dtype=torch.float64) for k, v in (("c", c), ("D", D))}
    return PHYSICS.solve(start[None], mu, torch.tensor(times, dtype=torch.float64))[0]


@pytest.mark.parametrize("refinement", [1, 2])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_exact_operators_forecast_the_exact_solution_at_any_times(
    scheme: str, refinement: int, smooth: Smooth, exact: Build
) -> None:
    start, times = smooth(GRID, (1,)), [0.03, 0.1, 0.25, 1.0, 7.123]
    found = forecast(exact([0.5], [0.25]), start, times, scheme=scheme, refinement=refinement)
    assert found.status == "ok"
    assert found.times.tolist() == times
    assert found.frames.shape == (5, 1, 32)
    torch.testing.assert_close(found.frames, truth(start, 0.5, 0.25, times), rtol=0, atol=1e-11)


@given(strengths=st.tuples(st.floats(0, 3), st.floats(0, 3)))
def test_strengths_multiply_the_operators(
    smooth: Smooth, exact: Build, strengths: tuple[float, float]
) -> None:
    start, times = smooth(GRID, (1,)), [0.1, 0.35]
    found = forecast(exact([0.5], [0.25]), start, times, strengths=strengths)
    expected = truth(start, 0.5 * strengths[0], 0.25 * strengths[1], times)
    torch.testing.assert_close(found.frames, expected, rtol=0, atol=1e-11)


def test_every_part_of_a_composition_acts(smooth: Smooth, exact: Build) -> None:
    start, times = smooth(GRID, (1,)), [0.2, 0.4]
    found = forecast(exact([0.5, 0.3, 0.9], [0.25]), start, times, operators=(1, 3, 0))
    torch.testing.assert_close(found.frames, truth(start, 0.8, 0.25, times), rtol=0, atol=1e-11)


@given(gaps=st.lists(st.floats(0.001, 0.9), min_size=1, max_size=6), dt=st.sampled_from([0.1, 0.3]))
def test_no_step_is_longer_than_dt_and_none_is_needless(gaps: list[float], dt: float) -> None:
    durations: list[float] = []

    def step(u: Tensor, h: Tensor) -> Tensor:
        durations.append(float(h.flatten()[0]))
        return u + h

    dictionary = OperatorDictionary.analytic(1, 1, [{"diffusion": 1.0}])
    dictionary = dictionary.add(UserFunction(1, 1, step=step))
    times = torch.tensor(gaps, dtype=torch.float64).cumsum(0)
    found = forecast(
        dictionary, torch.zeros(1, 32, dtype=torch.float64), times, operators=(1,), dt=dt
    )
    torch.testing.assert_close(found.frames[:, 0, 0], times)
    assert max(durations) <= dt * (1 + 1e-6)
    needed = [
        max(1, -int(-(gap / dt - 1e-6) // 1))
        for gap in times.diff(prepend=torch.zeros(1, dtype=torch.float64)).tolist()
    ]
    assert len(durations) == sum(needed)


def test_whole_frames_take_one_step_each_despite_rounding() -> None:
    steps = 0

    def step(u: Tensor, h: Tensor) -> Tensor:
        nonlocal steps
        steps += 1
        return u

    dictionary = OperatorDictionary.analytic(1, 1, [{"diffusion": 1.0}])
    dictionary = dictionary.add(UserFunction(1, 1, step=step))
    dt = 10 / 99
    times = [dt * (i + 1) for i in range(100)]
    forecast(dictionary, torch.zeros(1, 32), times, operators=(1,), dt=dt)
    assert steps == 100


def test_more_times_do_not_change_the_others(smooth: Smooth, exact: Build) -> None:
    start, dictionary = smooth(GRID, (1,)), exact([0.5], [0.25])
    few, many = (forecast(dictionary, start, t) for t in ([0.2, 0.6], [0.1, 0.2, 0.37, 0.6]))
    torch.testing.assert_close(few.frames, many.frames[[1, 3]], rtol=0, atol=1e-12)


def test_the_forecast_follows_the_precision_of_the_start(smooth: Smooth, exact: Build) -> None:
    start = smooth(GRID, (1,))
    rough = forecast(exact([0.5], [0.25]), start.float(), [0.5])
    assert rough.frames.dtype == torch.float32
    fine = forecast(exact([0.5], [0.25]), start, [0.5])
    torch.testing.assert_close(rough.frames.double(), fine.frames, rtol=0, atol=1e-5)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_forecast_that_diverges_says_when_and_is_nan_from_there_on(
    value: float, exact: Build
) -> None:
    def step(u: Tensor, h: Tensor) -> Tensor:
        """Counts to three, then breaks; it would recover by itself."""
        grown = torch.nan_to_num(u, 0.0, 0.0) + 1
        return torch.where(grown > 2.5, value, grown)

    dictionary = exact([0.5], []).add(UserFunction(1, 1, step=step))
    start = torch.zeros(1, 32, dtype=torch.float64)
    found = forecast(dictionary, start, [0.1, 0.2, 0.3, 0.4, 0.5], operators=(1,))
    assert found.status == "diverged at frame 3"
    assert found.frames.shape == (5, 1, 32)
    assert found.frames[:2, 0, 0].tolist() == [1, 2]
    assert bool(found.frames[2:].isnan().all())


@pytest.mark.parametrize("boundary", ["periodic", "reflect"])
def test_what_runs_away_at_small_scales_only_is_smoothed(boundary: str, exact: Build) -> None:
    def step(u: Tensor, h: Tensor) -> Tensor:
        """Leaves large scales alone and lets the smallest grow beyond all bounds."""
        spectrum = torch.fft.rfft(u)
        spectrum[..., 13:] *= 1e7
        return torch.fft.irfft(spectrum, n=32)

    grid = Grid((32,), (1.0,), boundary)
    dictionary = OperatorDictionary(()).add(UserFunction(1, 1, step=step))
    x = torch.arange(32, dtype=torch.float64) / 32
    start = torch.sin(2 * torch.pi * x)[None]
    pick = Composition.of(dictionary, (0,), 0.0)
    times = [0.1 * i for i in range(1, 61)]
    found = rollout(dictionary.prepare(grid, start), pick, start, times, 0.1)
    if boundary == "periodic":
        assert found.status.startswith("smoothed: diverged at frame ")
        large = torch.sin(2 * torch.pi * x).expand(60, 1, 32)
        torch.testing.assert_close(found.frames, large, rtol=0, atol=1e-8)
    else:
        assert found.status.startswith("diverged at frame ")
        assert bool(found.frames[-1].isnan().all())


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ([], "list of finite numbers"),
        ([[0.1, 0.2]], "list of finite numbers"),
        ([0.1, float("nan")], "list of finite numbers"),
        ([0.0, 0.1], "count from the last observed frame and must increase"),
        ([-0.1], "count from the last observed frame and must increase"),
        ([0.2, 0.1], "must increase"),
        ([0.1, 0.1], "must increase"),
    ],
)
def test_impossible_times_are_refused(
    times: list[float], sentence: str, smooth: Smooth, exact: Build
) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        forecast(exact([0.5], [0.25]), smooth(GRID, (1,)), times)
