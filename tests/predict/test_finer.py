"""Forecasts make scales that the observed frames do not have: more points hold them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from opsplit import OperatorSplitter, load_model
from opsplit.errors import no_warnings
from opsplit.fourier import resample
from opsplit.grid import Grid
from opsplit.metrics import nrmse
from opsplit.physics import get_physics
from opsplit.predict import finer
from opsplit.predict.finer import full_axes, onto

OBSERVED, AHEAD = 8, 12


def simulated(fine: int, viscosity: float, size: float) -> torch.Tensor:
    """A flow that folds: frames of 48 x 48 points of a finer simulation."""
    square = Grid((48, 48), (2 * math.pi, 2 * math.pi))
    physics = replace(get_physics("navier-stokes"), grid=square, fine=fine)
    start = physics.initial_fields(1, torch.Generator().manual_seed(3))
    times = torch.arange(OBSERVED + AHEAD, dtype=torch.float64) * physics.dt
    known = {"nu": torch.tensor([viscosity]), "advection": torch.tensor([1.0])}
    return physics.solve(size * start, known, times)[0]


@pytest.fixture(scope="module")
def flow() -> torch.Tensor:
    return simulated(192, 4e-3, 1 / 3)


def error_of_a_forecast(flow: torch.Tensor) -> float:
    splitter = OperatorSplitter("navier-stokes", refinement=1)
    with no_warnings():
        splitter.fit(flow[:OBSERVED], 4 / 49, 2 * math.pi)
    made = splitter.forecast(AHEAD).frames
    assert made.shape == flow[OBSERVED:].shape
    return float(nrmse(made[None].double(), flow[None, OBSERVED:]))


def test_a_finer_grid_follows_what_the_coarse_one_cannot_hold(
    flow: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = error_of_a_forecast(flow)
    monkeypatch.setattr(finer, "FULL", math.inf)
    assert 3 * better < error_of_a_forecast(flow)


def test_frames_of_a_dealiased_solver_are_carried_on_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every second point was stored: the scales between them follow from the frames before."""
    barely = simulated(96, 5e-4, 1.0)
    better = error_of_a_forecast(barely)
    monkeypatch.setattr(finer, "WAYS", finer.WAYS[:1])
    assert 30 * better < error_of_a_forecast(barely)


def test_a_front_of_the_data_is_not_made_sharper(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finer operators explain the observed front worse: the grid of the data stays."""
    whole = get_physics("combined").generate("alpha", 1, seed=2, frames=40)
    window, model = whole.data[0, 25:33], load_model("combined", "spectral")

    def forecast() -> torch.Tensor:
        splitter = OperatorSplitter(model, refinement=1)
        with no_warnings():
            splitter.fit(window, whole.dt, whole.grid.extent)
        assert full_axes(splitter.forecast(4).frames) == [True]
        return splitter.forecast(4).frames

    usual = forecast()
    monkeypatch.setattr(finer, "MOST", 0.0)
    assert torch.equal(usual, forecast())


@pytest.mark.parametrize("shape", [(12,), (12, 18), (8, 12, 10)])
def test_only_what_both_grids_resolve_is_brought_over(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    low = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    low = onto(resample(low, [2 * n for n in shape]), shape)
    more = [2 * n for n in shape]
    points = torch.arange(more[0], dtype=torch.float64) * 2 * math.pi / more[0]
    for mode in (shape[0] // 2, shape[0] // 2 + 1):
        wave = torch.cos(mode * points).reshape(-1, *[1] * (len(shape) - 1))
        assert torch.allclose(onto(resample(low, more) + wave, shape), low, atol=1e-12)


def test_an_axis_is_full_when_its_upper_modes_hold_variance() -> None:
    x = torch.linspace(0, 2 * math.pi, 65)[:-1]
    fine, coarse = torch.cos(25 * x), torch.cos(3 * x)
    frames = (coarse[:, None] + 1e-3 * fine[None, :] + coarse[None, :])[None, None]
    assert full_axes(frames) == [False, True]
    assert full_axes(frames, noise=1e-5) == [False, False]
    assert full_axes(torch.zeros(1, 1, 16)) == [False]
