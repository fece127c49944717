"""What all searches share: budgets, interruption, re-ranking and what a search costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import OperatorFamily, Spectral, UNet, UserFunction
from opsplit.search import Beam, Cost, Objective, Pursuit, SearchResult, Strategy, Uniform
from opsplit.search.strategy import Record, Tried

Observe = Callable[..., tuple[Tensor, Grid, float]]
Build = Callable[..., OperatorDictionary]
SEARCHES = [Pursuit(), Beam(), Uniform(trials=5)]
LIMITS = [{"max_seconds": 0.0}, {"max_evaluations": 1}]
FEW = settings(max_examples=6)
every = pytest.mark.parametrize("search", SEARCHES, ids=lambda s: s.name)


def noisy(window: tuple[Tensor, Grid, float], seed: int) -> tuple[Tensor, Grid, float]:
    """The window with noise, so that compositions of one length differ in what they leave."""
    u, grid, dt = window
    random = torch.randn(u.shape, generator=torch.Generator().manual_seed(seed)).double()
    return u + 0.02 * random, grid, dt


def error_of(spent: Objective, found: SearchResult) -> float:
    """The pick's error, computed anew without a budget."""
    objective = Objective(spent.dictionary, spent.windows, spent.grid, spent.dt)
    sets = torch.tensor([found.pick.operators])
    strengths = torch.tensor([found.pick.strengths], dtype=torch.float64)
    return float(objective.score(sets, strengths))


# Budgets


@every
@pytest.mark.parametrize("limit", LIMITS, ids=lambda x: next(iter(x)))
@pytest.mark.parametrize("tight", [False, True])
def test_a_spent_budget_leaves_a_result_that_names_the_limit(
    search: Strategy, limit: dict[str, Any], tight: bool, observe: Observe, mixed: Build
) -> None:
    window, grid, dt = observe(0.5, 0.3)
    # With little memory candidates are scored one at a time, so that the first is all there is.
    objective = Objective(mixed(0), window, grid, dt, memory_mb=1e-2 if tight else 256)
    found = replace(search, **limit).run(objective)
    assert found.status.startswith(f"stopped by {next(iter(limit))}=")
    assert len(found.pick) == 1
    assert math.isfinite(found.pick.fit_error)
    assert found.pick.fit_error == pytest.approx(error_of(objective, found))
    assert found.pick.fit_error == min(c.fit_error for c in found.ranked)
    assert found.to_dict()["status"] == found.status


@every
@FEW
@given(seed=st.integers(0, 99), budget=st.integers(1, 3000))
def test_the_best_within_a_budget_is_the_best_of_what_was_scored(
    search: Strategy, observe: Observe, mixed: Build, seed: int, budget: int
) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, frames=4, seed=seed), memory_mb=1e-2)
    found = replace(search, max_evaluations=budget, rerank=False).run(objective)
    if "stopped" in found.status:
        assert found.status.endswith(f"stopped by max_evaluations={budget:,}")
        assert found.cost.evaluations >= budget
        assert found.pick == found.ranked[0]
    else:
        assert found.pick == replace(search, rerank=False).run(objective).pick


@every
def test_a_budget_that_is_not_reached_changes_nothing(
    search: Strategy, observe: Observe, mixed: Build
) -> None:
    objective = Objective(mixed(1), *observe(0.5, 0.3))
    free = search.run(objective)
    bound = replace(search, max_seconds=1e6, max_evaluations=10**12).run(objective)
    assert bound.pick.operators == free.pick.operators
    assert bound.pick.fit_error == pytest.approx(free.pick.fit_error, rel=1e-9)
    assert bound.status == free.status


@every
def test_every_run_has_its_own_budget(search: Strategy, observe: Observe, mixed: Build) -> None:
    objective = Objective(mixed(1), *observe(0.5, 0.3))
    first = search.run(objective)
    limited = replace(search, max_evaluations=first.cost.evaluations + 1)
    assert limited.run(objective).status == first.status
    again = search.run(objective)
    assert (again.cost.flows, again.cost.evaluations) == (first.cost.flows, first.cost.evaluations)


@every
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"max_seconds": -1.0}, r"max_seconds must lie in 0\.\..*, got -1"),
        ({"max_seconds": math.nan}, "max_seconds must be a number"),
        ({"max_evaluations": -5}, r"max_evaluations must lie in 0\.\..*, got -5"),
        ({"finalists": 0}, r"finalists must lie in 1\.\..*, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    search: Strategy, changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        replace(search, **changes)


# The progress line


@every
def test_the_progress_line_shows_the_best_composition_so_far(
    search: Strategy, observe: Observe, mixed: Build
) -> None:
    lines: list[str] = []
    objective = Objective(mixed(0), *noisy(observe(0.5, 0.3), 0))
    found = replace(search, rerank=False).run(objective, lambda share, words: lines.append(words))
    assert lines[-1] == f"best {found.pick.fit_error:.4g}: {found.pick.label}"


# Interruption


@every
def test_an_interruption_keeps_the_best_so_far(
    search: Strategy, observe: Observe, mixed: Build
) -> None:
    def report(share: float, words: str) -> None:
        raise KeyboardInterrupt

    objective = Objective(mixed(0), *noisy(observe(0.5, 0.3), 0))
    found = search.run(objective, report)
    assert found.status == "interrupted"
    assert found.pick.fit_error == pytest.approx(error_of(objective, found))
    assert found.pick.fit_error == min(c.fit_error for c in found.ranked)


@every
def test_an_interruption_inside_an_operator_keeps_the_best_so_far(
    search: Strategy, observe: Observe, exact: Build
) -> None:
    calls, most = 0, math.inf

    def step(u: Tensor, h: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls > most:
            raise KeyboardInterrupt
        return u * torch.exp(-h)

    dictionary = exact([0.2, 0.5], [0.3]).add(UserFunction(1, 1, step=step))
    window = noisy(observe(0.5, 0.3), 0)
    plain = replace(search, rerank=False)
    plain.run(Objective(dictionary, *window))
    calls, most = 0, calls - 1
    found = plain.run(Objective(dictionary, *window))
    assert found.status == "interrupted"
    assert math.isfinite(found.pick.fit_error)


@every
def test_an_interruption_before_anything_was_scored_is_passed_on(
    search: Strategy, observe: Observe, exact: Build
) -> None:
    def step(u: Tensor, h: Tensor) -> Tensor:
        raise KeyboardInterrupt

    dictionary = exact([0.2], []).add(UserFunction(1, 1, step=step))
    with pytest.raises(KeyboardInterrupt):
        search.run(Objective(dictionary, *observe(0.5, 0.3)))


@every
def test_progress_is_a_share_that_ends_with_one_or_early(
    search: Strategy, observe: Observe, mixed: Build
) -> None:
    shares: list[float] = []
    search.run(Objective(mixed(0), *observe(0.5, 0.3)), lambda share, words: shares.append(share))
    assert shares == sorted(shares)
    assert shares[0] > 0 and shares[-1] <= 1


# Re-ranking


def test_pursuit_reranks_and_the_papers_searches_do_not() -> None:
    assert Pursuit().rerank
    assert not Beam().rerank
    assert not Uniform().rerank


@every
@FEW
@given(seed=st.integers(0, 99), slack=st.sampled_from([0.0, 0.05, 0.5]))
def test_the_finalist_that_runs_freely_best_is_picked(
    search: Strategy, observe: Observe, mixed: Build, seed: int, slack: float
) -> None:
    objective = Objective(mixed(seed), *noisy(observe(0.5, 0.3, frames=5, seed=seed), seed))
    found = replace(search, rerank=True, slack=slack, finalists=4).run(objective)
    plain = replace(search, rerank=False, slack=slack, finalists=4).run(objective)
    assert 1 <= len(found.finalists) <= 4
    for c in found.finalists:
        assert len(c) == len(plain.pick)
        assert c.fit_error <= (1 + slack) * plain.pick.fit_error + 1e-12
        sets, strengths = torch.tensor([c.operators]), torch.tensor([c.strengths])
        freely = float(objective.free_run(sets, strengths.double()).mean())
        assert c.free_run_error == pytest.approx(freely, rel=1e-6)
    assert found.pick in found.finalists
    assert found.pick.free_run_error == min(float(c.free_run_error) for c in found.finalists)  # type: ignore[arg-type]


def test_every_finalist_has_run_freely(observe: Observe, exact: Build) -> None:
    """A pick that fits a little worse than the best does not let worse ones in."""
    values = [0.1 * i for i in range(1, 9)]
    u, grid, dt = observe(0.53, 0.37, frames=5, seed=91)
    random = torch.randn(u.shape, generator=torch.Generator().manual_seed(91)).double()
    objective = Objective(exact(values, values), u + 0.005 * random, grid, dt)
    found = Beam(max_parts=2, rerank=True, slack=0.2).run(objective)
    assert found.pick.fit_error > found.ranked[0].fit_error
    assert all(c.free_run_error is not None for c in found.finalists)
    assert all(c.fit_error <= 1.2 * found.ranked[0].fit_error for c in found.finalists)


@every
def test_without_reranking_the_best_fit_of_its_length_is_picked(
    search: Strategy, observe: Observe, mixed: Build
) -> None:
    objective = Objective(mixed(3), *noisy(observe(0.5, 0.3, frames=5), 3))
    found = replace(search, rerank=False).run(objective)
    alike = [c for c in found.ranked if len(c) == len(found.pick)]
    assert found.pick.fit_error == min(c.fit_error for c in alike)
    assert found.pick.free_run_error is None
    assert found.finalists[0] == found.pick


def test_a_record_keeps_the_better_of_two_scores() -> None:
    record = Record()
    for error in (0.3, 0.1, 0.2, math.nan):
        record.add(Tried((0, 1), error))
    record.add(Tried((2,), math.inf))
    assert [t.error for t in record.ranked()] == [0.1]


# Cost


@pytest.mark.parametrize("family", [UNet(1, 1, max_step=1.0), Spectral(1, 1, max_step=1.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_operations_are_evaluations_times_those_of_one(
    family: OperatorFamily, dtype: torch.dtype, observe: Observe
) -> None:
    start = family.initialisation(torch.Generator().manual_seed(0)).start
    dictionary = OperatorDictionary((Part(family, start.expand(2, -1)),))
    window, grid, dt = observe(0.5, 0.3, frames=3)
    cost = Pursuit(max_parts=1).run(Objective(dictionary, window.to(dtype), grid, dt)).cost
    assert cost.evaluations > 0
    assert cost.evaluation_flops == family.flops(grid) > 0
    assert cost.flops == cost.evaluations * family.flops(grid)
    assert cost.to_dict()["evaluations"] == cost.evaluations


def test_a_larger_network_needs_more_operations(observe: Observe) -> None:
    _, grid, _ = observe(0.5, 0.3)
    counts = []
    for width in (4, 8):
        family = UNet(1, 1, max_step=1.0, width=width)
        start = family.initialisation(torch.Generator().manual_seed(0)).start
        dictionary = OperatorDictionary((Part(family, start[None]),))
        counts.append(dictionary.prepare(grid, start).flops())
    assert 2 * counts[0] < counts[1] < 4.5 * counts[0]


def test_a_cost_that_is_not_counted_is_zero() -> None:
    assert Cost(1, 2, 0.1).flops == 0


@pytest.mark.parametrize("windows", [1, 3])
@pytest.mark.parametrize("screen_frames", [None, 4])
def test_pursuit_counts_the_rates_and_the_flows(
    windows: int, screen_frames: int | None, observe: Observe, exact: Build
) -> None:
    dictionary = exact([0.2, 0.9], [0.1, 0.5])
    window, grid, dt = observe(0.5, 0.3, frames=6)
    objective = Objective(dictionary, window.expand(windows, *window.shape), grid, dt)
    cost = Pursuit(screen_frames=screen_frames).run_all(objective)[0].cost
    # Exact flows are one evaluation each.
    # Two speeds and two diffusivities: one rate each, the others are multiples.
    assert cost.evaluations == windows * 2 * (screen_frames or 6) + cost.flows
    # Its flows are those of whole transitions, and of free runs over the window.
    assert cost.flows % 5 == 0


def test_pursuit_spends_less_than_beam_in_a_large_dictionary(
    observe: Observe, exact: Build
) -> None:
    dictionary = exact([0.05 * i for i in range(1, 21)], [0.05 * i for i in range(1, 21)])
    costs = [s.run(Objective(dictionary, *observe(0.51, 0.33))).cost for s in (Pursuit(), Beam())]
    assert costs[0].evaluations < costs[1].evaluations
