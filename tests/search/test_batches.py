"""Several windows in shared calls give what each gives alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.search import Beam, Objective, Pursuit, SearchResult, Strategy, Uniform

Observe = Callable[..., tuple[Tensor, Grid, float]]
Build = Callable[..., OperatorDictionary]
FEW = settings(max_examples=4)
SEARCHES = [
    Pursuit(),
    Pursuit(refine="none", survivors=None, width=3, rerank=False),
    Beam(width=2),
    Beam(width=2, screen=False, rerank=True),
    Uniform(trials=10),
]
every = pytest.mark.parametrize("search", SEARCHES, ids=lambda s: s.name)
GRID, DT = Grid((32,), (16.0,)), 10 / 99


def batch(observe: Observe, seed: int, n: int = 3, frames: int = 5) -> Tensor:
    """Windows of different systems, with some noise so that no two fits are alike."""
    draw = torch.rand(n, 2, generator=torch.Generator().manual_seed(seed)).tolist()
    windows = [observe(c, D, frames=frames, seed=seed + i)[0] for i, (c, D) in enumerate(draw)]
    together = torch.stack(windows)
    random = torch.randn(together.shape, generator=torch.Generator().manual_seed(seed)).double()
    return together + 0.01 * random


def assert_same(one: SearchResult, other: SearchResult) -> None:
    """Equal but for rounding, which may turn the order within a composition."""
    assert set(one.pick.operators) == set(other.pick.operators)
    assert one.pick.fit_error == pytest.approx(other.pick.fit_error, rel=1e-6, abs=1e-12)
    assert one.status == other.status
    assert one.identified == pytest.approx(other.identified, rel=1e-5, abs=1e-9)
    assert one.spread == pytest.approx(other.spread, rel=1e-3, abs=1e-7)
    assert len(one.finalists) == len(other.finalists)


@every
@FEW
@given(seed=st.integers(0, 999))
def test_a_batch_of_windows_equals_one_by_one(
    search: Strategy, observe: Observe, mixed: Build, seed: int
) -> None:
    windows, dictionary = batch(observe, seed), mixed(seed)
    together = search.run_all(Objective(dictionary, windows, GRID, DT))
    assert len(together) == 3
    for found, window in zip(together, windows, strict=True):
        assert_same(found, search.run(Objective(dictionary, window, GRID, DT)))


@every
def test_windows_that_end_early_leave_the_others_alone(
    search: Strategy, observe: Observe, mixed: Build
) -> None:
    """A window of zeros and one that is steady, beside one that takes several parts."""
    windows = batch(observe, 1)
    windows[0] = 0
    windows[2] = windows[2, :1]
    together = search.run_all(Objective(mixed(1), windows, GRID, DT))
    for found, window in zip(together, windows, strict=True):
        alone = search.run(Objective(mixed(1), window, GRID, DT))
        assert found.pick.fit_error == pytest.approx(alone.pick.fit_error, rel=1e-6, abs=1e-12)
        assert found.status == alone.status


@every
def test_the_order_of_the_windows_does_not_matter(
    search: Strategy, observe: Observe, mixed: Build
) -> None:
    windows = batch(observe, 2)
    forward, backward = (
        search.run_all(Objective(mixed(2), w, GRID, DT)) for w in (windows, windows.flip(0))
    )
    for one, other in zip(forward, reversed(backward), strict=True):
        assert_same(one, other)


@every
def test_a_memory_limit_does_not_change_the_results(
    search: Strategy, observe: Observe, mixed: Build
) -> None:
    windows, dictionary = batch(observe, 3), mixed(3)
    # Just enough for the algebra of one window at a time.
    tight = 1.01 * 40 * len(dictionary) * windows[0].numel() / 2**20
    wide, narrow = (
        search.run_all(Objective(dictionary, windows, GRID, DT, memory_mb=mb))
        for mb in (256.0, tight)
    )
    for one, other in zip(wide, narrow, strict=True):
        assert_same(one, other)


def test_pursuit_gets_by_with_hardly_any_memory(observe: Observe, exact: Build) -> None:
    """Then fewer frames enter the algebra."""
    window, grid, dt = observe(0.5, 0.3, frames=9)
    found = Pursuit().run(Objective(exact([0.2], [0.1]), window, grid, dt, memory_mb=1e-9))
    assert found.identified == pytest.approx({"c": 0.5, "D": 0.3}, abs=0.01)


def test_candidates_are_scored_on_their_own_window(observe: Observe, mixed: Build) -> None:
    windows, dictionary = batch(observe, 4), mixed(4)
    together = Objective(dictionary, windows, GRID, DT)
    assert (len(together), together.transitions) == (3, 4)
    sets = torch.tensor([[0, 3], [1, 4], [0, 3], [5, 2]])
    strengths = torch.tensor([[1.0, 0.3], [0.5, 2.0], [1.0, 0.3], [0.0, 1.0]]).double()
    which = torch.tensor([2, 0, 1, 2])
    for i, w in enumerate(which.tolist()):
        alone = Objective(dictionary, windows[w], GRID, DT)
        one = (sets[[i]], strengths[[i]])
        for name in ("errors", "free_run"):
            found = getattr(together, name)(sets, strengths, which)[i]
            torch.testing.assert_close(found, getattr(alone, name)(*one)[0], rtol=1e-9, atol=1e-12)


def test_rates_are_those_of_every_window(observe: Observe, mixed: Build) -> None:
    windows, dictionary = batch(observe, 5), mixed(5)
    together = Objective(dictionary, windows, GRID, DT).rates(torch.tensor([2, 0]), 3)
    assert together.shape == (6, 2, 3, 1, 32)
    for place, w in enumerate((2, 0)):
        alone = Objective(dictionary, windows[w], GRID, DT, memory_mb=1e-9)
        rates = alone.rates(torch.tensor([0]), 3)
        torch.testing.assert_close(together[:, place], rates[:, 0], rtol=1e-10, atol=1e-12)
        assert alone.meter.evaluations == 6 * 3


@every
def test_the_cost_is_that_of_all_windows(search: Strategy, observe: Observe, mixed: Build) -> None:
    windows = batch(observe, 6)
    found = search.run_all(Objective(mixed(6), windows, GRID, DT))
    assert all(result.cost == found[0].cost for result in found)
    assert found[0].cost.flows > search.run(Objective(mixed(6), windows[0], GRID, DT)).cost.flows


def test_run_takes_one_window(observe: Observe, mixed: Build) -> None:
    objective = Objective(mixed(0), batch(observe, 0), GRID, DT)
    with pytest.raises(OpsplitError, match="run takes one window, run_all takes 3"):
        Beam().run(objective)


@pytest.mark.parametrize("search", [Pursuit, Beam, Uniform])
def test_windows_that_a_budget_did_not_reach_are_said_to_be_stopped(
    search: type[Strategy], observe: Observe, mixed: Build
) -> None:
    objective = Objective(mixed(0), batch(observe, 0), GRID, DT, memory_mb=1e-2)
    for found in search(max_evaluations=1).run_all(objective):
        assert found.status == "stopped by max_evaluations=1"
