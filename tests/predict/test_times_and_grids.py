"""Irregular times, missing frames, other grids, and data unlike those a model knows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit import OpsplitWarning, Pursuit, Trajectories
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, no_warnings
from opsplit.fourier import resample
from opsplit.grid import Grid
from opsplit.model import Model, load_model
from opsplit.physics.advection_diffusion import AdvectionDiffusion
from opsplit.predict.compatibility import Code
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.verdict import Level
from opsplit.search import Beam, Strategy, Uniform
from opsplit.search.objective import Objective
from opsplit.search.screen import integration_weights, run_lengths, stride_mixture

Observe = Callable[..., tuple[Tensor, Grid, float]]
Build = Callable[..., OperatorDictionary]
DT = 10 / 99
SEARCHES = [Pursuit(max_parts=2), Beam(2, 2), Uniform(20, 2)]


def solution(times: Tensor, c: float = 0.7, D: float = 0.4) -> tuple[Tensor, Grid]:
    """Exact advection-diffusion at any times, `(time, 1, x)`."""
    physics = AdvectionDiffusion(Grid((64,), (16.0,)))
    initial = physics.initial_fields(1, torch.Generator().manual_seed(1), "A+D")
    mu = {"c": torch.tensor([c]).double(), "D": torch.tensor([D]).double()}
    return physics.solve(initial, mu, times)[0], physics.grid


# Irregular times


def test_every_transition_is_scored_over_its_own_duration(mixed: Build) -> None:
    times = torch.tensor([0.0, 0.08, 0.2, 0.31, 0.35]).double()
    u, grid = solution(times)
    sets = torch.tensor([[0, 1], [3, 4], [2, 5]])
    strengths = torch.tensor([[1.0, 0.5], [0.3, 1.0], [2.0, 1.0]]).double()
    found = Objective(mixed(0), u, grid, times.diff().tolist()).errors(sets, strengths)
    for i in range(4):
        alone = Objective(mixed(0), u[i : i + 2], grid, float(times[i + 1] - times[i]))
        torch.testing.assert_close(found[:, [i]], alone.errors(sets, strengths))


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: s.name)
def test_equal_times_written_one_by_one_change_nothing(
    search: Strategy, mixed: Build, observe: Observe
) -> None:
    u, grid, dt = observe(0.5, 0.3)
    one = search.run(Objective(mixed(0), u, grid, dt))
    many = search.run(Objective(mixed(0), u, grid, [dt] * (len(u) - 1)))
    assert one.pick == many.pick


@pytest.mark.parametrize("search", SEARCHES, ids=lambda s: s.name)
@pytest.mark.parametrize("reuse", [True, False])
def test_beam_scores_alike_with_and_without_reuse(
    search: Strategy, reuse: bool, mixed: Build
) -> None:
    times = torch.tensor([0.0, 0.1, 0.17, 0.3, 0.38]).double()
    u, grid = solution(times)
    scheme: Any = "strang" if reuse else "fourth"
    objective = Objective(mixed(0), u, grid, times.diff().tolist(), scheme)
    pick = search.run(objective).pick
    again = objective.score(torch.tensor([pick.operators]), torch.tensor([pick.strengths]).double())
    assert float(again) == pytest.approx(pick.fit_error, rel=1e-6, abs=1e-8)


@settings(max_examples=15)
@given(c=st.floats(0.2, 2.5), D=st.floats(0.1, 2.5), seed=st.integers(0, 99))
def test_planted_strengths_are_found_at_irregular_times(
    exact: Build, c: float, D: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    steps = DT * (0.6 + 0.8 * torch.rand(11, generator=generator).double())
    times = torch.cat([torch.zeros(1).double(), steps.cumsum(0)])
    u, grid = solution(times, c, D)
    found = Pursuit().run(Objective(exact([1.0], [1.0]), u, grid, steps.tolist()))
    assert found.identified["c"] == pytest.approx(c, rel=1e-3)
    assert found.identified["D"] == pytest.approx(D, rel=1e-3)


@given(steps=st.lists(st.floats(0.2, 3), min_size=3, max_size=9))
def test_integrals_of_cubics_are_exact_at_any_times(steps: list[float]) -> None:
    t = torch.cat([torch.zeros(1), torch.tensor(steps)]).double().cumsum(0)
    weights = integration_weights(t)
    torch.testing.assert_close(weights @ t**3, (t**4 / 4).diff(), rtol=1e-8, atol=1e-8)


# Gaps


@given(gone=st.sets(st.integers(1, 7), min_size=1, max_size=4))
def test_gaps_are_skipped_not_bridged(observe: Observe, mixed: Build, gone: set[int]) -> None:
    """What is scored are the pairs of neighbours that are both there."""
    u, grid, dt = observe(0.5, 0.3)
    there = [i for i in range(9) if i not in gone]
    pairs = [i for i in range(8) if i in there and i + 1 in there]
    sets = torch.tensor([[0, 1], [2, 4]])
    whole = Objective(mixed(1), u, grid, dt).errors(sets)
    between = [dt * (b - a) for a, b in pairwise(there)]
    if sorted(between)[(len(between) - 1) // 2] > 1.5 * dt:
        return  # every other frame: then that is the usual step
    found = Objective(mixed(1), u[there], grid, between).errors(sets)
    torch.testing.assert_close(found, whole[:, pairs])


def test_a_free_run_goes_through_a_gap(observe: Observe, mixed: Build) -> None:
    u, grid, dt = observe(0.5, 0.3)
    sets, there = torch.tensor([[0, 1]]), [0, 1, 2, 5, 6, 7, 8]
    between = [dt * (b - a) for a, b in pairwise(there)]
    whole = Objective(mixed(1), u, grid, dt).free_run(sets)
    found = Objective(mixed(1), u[there], grid, between).free_run(sets)
    torch.testing.assert_close(found, whole[:, [0, 1, 5, 6, 7]])


def test_strides_stay_within_runs() -> None:
    assert run_lengths(torch.tensor([True, True, False, False, True])) == [2, 1]
    mix = stride_mixture([2, 1], (1, 0), torch.ones(3).double())
    products = mix.T @ mix
    assert float(products[0, 1]) > 0
    assert products[:2, 2].tolist() == pytest.approx([0, 0])


def test_a_frame_of_nan_is_a_missing_frame() -> None:
    u, _ = solution(torch.arange(16).double() * DT)
    broken = u.clone()
    broken[[5, 9]] = torch.nan
    there = [i for i in range(16) if i not in (5, 9)]
    splitter = OperatorSplitter()
    found = splitter.fit(broken, DT).coefficients_
    assert "2 frames are missing (5, 9)" in splitter.understood_
    assert found == splitter.fit(u[there], times=[i * DT for i in there]).coefficients_
    assert found["c"] == pytest.approx(0.7, abs=0.02)
    assert found["D"] == pytest.approx(0.4, abs=0.02)


def test_a_frame_with_some_nan_is_filled() -> None:
    u, _ = solution(torch.arange(16).double() * DT)
    u[3] = torch.nan
    u[7, 0, 5] = torch.nan
    found = OperatorSplitter().fit(u, DT).coefficients_
    assert found["c"] == pytest.approx(0.7, abs=0.02)
    assert found["D"] == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({}, "either dt=0.1 or times="),
        ({"dt": 0.1, "times": [0, 1, 2, 3]}, "either dt=0.1 or times="),
        ({"times": [0, 1, 2]}, "4 frames need as many times, got 3"),
        ({"times": [0, 1, 1, 2]}, "must be finite and increase"),
        ({"times": [0, 1, 2, np.inf]}, "must be finite and increase"),
        ({"times": ["a", "b", "c", "d"]}, "must be a list of numbers"),
    ],
)
def test_unusable_times(how: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        Trajectories.from_numpy(np.zeros((4, 8)), **how)


# Grids


@given(
    shape=st.tuples(st.integers(8, 20), st.integers(8, 20)),
    target=st.tuples(st.integers(8, 40), st.integers(8, 40)),
    seed=st.integers(0, 99),
)
def test_fields_whose_modes_fit_are_resampled_exactly(
    shape: tuple[int, int], target: tuple[int, int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    modes = [(a, b, *rng.normal(size=2)) for a in range(-3, 4) for b in range(4)]

    def field(points: tuple[int, int]) -> Tensor:
        x, y = np.meshgrid(*(2 * np.pi * np.arange(n) / n for n in points), indexing="ij")
        waves = (p * np.cos(a * x + b * y) + q * np.sin(a * x + b * y) for a, b, p, q in modes)
        return torch.from_numpy(np.asarray(sum(waves)))

    torch.testing.assert_close(resample(field(shape), target), field(target))


@given(
    shape=st.lists(st.integers(2, 12), min_size=1, max_size=3),
    factor=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_finer_and_back_is_where_it_was(shape: list[int], factor: int, seed: int) -> None:
    u = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed)).double()
    fine = resample(u, [n * factor for n in shape])
    torch.testing.assert_close(resample(fine, shape), u)
    torch.testing.assert_close(fine[(slice(None), *[slice(None, None, factor)] * len(shape))], u)


def test_a_grid_bound_family_works_on_another_grid() -> None:
    """U-Nets see the field at their own spacing, the forecast comes back on the user's grid."""
    coarse = AdvectionDiffusion(Grid((200,), (16.0,)))
    initial = coarse.initial_fields(1, torch.Generator().manual_seed(1), "A+D")
    mu = {"c": torch.tensor([0.6]).double(), "D": torch.tensor([0.5]).double()}
    u = coarse.solve(initial, mu, torch.arange(20).double() * DT)[0]
    model = load_model("advection-diffusion", "unet")
    splitter = OperatorSplitter(model)
    with pytest.warns(OpsplitWarning, match="resampled from 200 to 208 points"):
        splitter.fit(u[:16], DT, dictionary=model.dictionary.subsample(48, seed=0))
    assert splitter.predict(4).shape == (4, 1, 200)
    assert -splitter.score(u[16:]) < 0.02


def test_walls_cannot_be_resampled(unet_folder: Any) -> None:
    from opsplit.operators.unet import UNet
    from opsplit.predict.working_grid import working_grid

    walled = UNet(1, 1, 0.1, boundary=("reflect",))
    with pytest.raises(OpsplitError, match="only periodic fields can be resampled"):
        working_grid(walled, Grid((64,), (16.0,), "reflect"), Grid((100,), (16.0,), "reflect"))


# What a model knows


def fitted(model: Any, u: Tensor, dt: float, extent: float = 16.0) -> OperatorSplitter:
    with no_warnings():
        return OperatorSplitter(model, Beam(1, 1)).fit(u, dt, extent)


def codes(splitter: OperatorSplitter) -> set[Code]:
    return {issue.code for issue in splitter.issues_}


def test_usual_data_have_no_notes() -> None:
    u, _ = solution(torch.arange(16).double() * DT, c=0.8, D=0.0)
    splitter = fitted("advection-diffusion", u, DT)
    assert splitter.notes_ == () and splitter.issues_ == ()
    assert splitter.status_ == "explained"


def test_an_unusual_step_is_noted_with_numbers() -> None:
    u, _ = solution(torch.arange(4).double() * 10 * DT)
    splitter = fitted("advection-diffusion", u, 10 * DT)
    assert any("1.01 apart" in n and "10 times more" in n for n in splitter.notes_)
    assert Code.DT in codes(splitter) and splitter.coefficient_intervals_ == {}


def test_an_unusual_amplitude_is_noted_where_it_matters(tiny_model: Model) -> None:
    u, _ = solution(torch.arange(8).double() * DT, D=0.0)
    assert Code.AMPLITUDE not in codes(fitted("advection-diffusion", 100 * u, DT))
    splitter = fitted("combined", 100 * u, 0.016)
    assert Code.AMPLITUDE in codes(splitter)
    assert any("The fields have a size of" in n and "times more" in n for n in splitter.notes_)


def test_frames_that_nothing_explains_are_noted() -> None:
    noise = torch.randn(8, 1, 64, generator=torch.Generator().manual_seed(0))
    splitter = fitted("advection-diffusion", noise, DT)
    assert splitter.verdict_.level is Level.UNEXPLAINED and splitter.status_ == "unexplained"
    assert any("do not trust the forecast" in n for n in splitter.notes_)
    assert splitter.forecast(3).status == "unexplained"
