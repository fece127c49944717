"""Factors of intervals: ranks of scores, levels, deviations."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.calibration import coefficient_scale, forecast_deviation
from opsplit.conformal import LEVELS, conformal_quantiles, interpolate
from opsplit.errors import OpsplitError


@pytest.mark.parametrize("seed", range(3))
def test_conformal_intervals_cover_at_their_level(seed: int) -> None:
    """Normal errors whose size varies a hundredfold, the size being known as the spread."""
    generator = torch.Generator().manual_seed(seed)

    def scores() -> Tensor:
        spread = 10 ** (2 * torch.rand(2000, generator=generator) - 1)
        error = spread * torch.randn(2000, generator=generator)
        return error.abs() / spread

    factors, fresh = conformal_quantiles(scores()), scores()
    for level in (0.5, 0.8, 0.9, 0.95):
        covered = float((fresh <= interpolate(factors, level)).double().mean())
        assert covered == pytest.approx(level, abs=0.03)
    # The factors are those of the normal distribution.
    assert interpolate(factors, 0.9) == pytest.approx(1.645, abs=0.12)


@given(n=st.integers(1, 300), level=st.sampled_from(LEVELS))
def test_the_quantile_of_n_scores_has_rank_n_plus_one_times_the_level(n: int, level: float) -> None:
    scores = 1.0 + torch.randperm(n, generator=torch.Generator().manual_seed(n))
    rank = min(n, math.ceil(round((n + 1) * level, 9)))
    assert conformal_quantiles(scores)[LEVELS.index(level)] == rank


@given(n=st.integers(2, 40), points=st.integers(1, 9), level=st.sampled_from(LEVELS))
def test_points_of_one_trajectory_do_not_count_as_many(n: int, points: int, level: float) -> None:
    """With all scores of a trajectory alike, its points are one score."""
    scores = torch.randn(n, generator=torch.Generator().manual_seed(n)).abs()
    place = LEVELS.index(level)
    many = conformal_quantiles(scores[:, None].expand(n, points), n)
    assert many[place] == pytest.approx(conformal_quantiles(scores)[place])


@given(scores=st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_higher_levels_have_larger_factors(scores: list[float]) -> None:
    factors = conformal_quantiles(torch.tensor(scores, dtype=torch.float64))
    assert len(factors) == len(LEVELS)
    assert list(factors) == sorted(factors)
    assert set(factors) <= set(torch.tensor(scores, dtype=torch.float64).tolist())


@given(
    factors=st.lists(st.floats(0, 100), min_size=99, max_size=99).map(sorted),
    levels=st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)).map(sorted),
)
def test_factors_between_levels_are_monotone(factors: list[float], levels: list[float]) -> None:
    low, high = (interpolate(factors, level) for level in levels)
    assert low <= high + 1e-9
    assert factors[0] <= low + 1e-9 and high <= factors[-1] + 1e-9


def test_factors_at_kept_levels_are_the_kept_ones() -> None:
    factors = [x**2 for x in LEVELS]
    assert [interpolate(factors, x) for x in LEVELS] == pytest.approx(factors, rel=1e-9)
    assert interpolate(factors, 0.905) == pytest.approx((0.9**2 + 0.91**2) / 2)


def test_an_infinite_factor_does_not_spoil_the_levels_beside_it() -> None:
    """A forecast that diverged in one trajectory of many."""
    factors = [*LEVELS[:90], *[math.inf] * 9]
    assert interpolate(factors, 0.89) == pytest.approx(0.89)
    assert interpolate(factors, 0.9) == pytest.approx(0.9)
    assert interpolate(factors, 0.95) == math.inf


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 90.0, math.nan])
def test_a_level_that_is_no_probability_is_refused(level: float) -> None:
    with pytest.raises(OpsplitError, match=r"to 0.99, got|must be a number, got nan"):
        interpolate(LEVELS, level)


# Scales


@given(value=st.floats(-10, 10), spread=st.floats(0, 10))
def test_no_spread_is_believed_to_be_nothing(value: float, spread: float) -> None:
    scale = coefficient_scale(value, spread)
    assert scale >= spread
    assert scale > 0
    assert scale == coefficient_scale(-value, spread)
    assert coefficient_scale(2 * value, spread) >= scale


def test_the_deviation_is_what_finalists_disagree_by_and_what_the_pick_missed() -> None:
    pick = torch.ones(4, 2, 8)
    apart = torch.stack([pick, pick + 0.2])
    found = forecast_deviation(pick, apart, 0.0, observed=8)
    torch.testing.assert_close(found, torch.full((4, 2), 0.2 / math.sqrt(2)))
    alone = forecast_deviation(pick, pick[None], 0.1, observed=8)
    assert alone.shape == (4, 2)
    assert bool((alone.diff(dim=0) > 0).all())
    assert bool((alone >= 0.1).all())
    both = forecast_deviation(pick, apart, 0.1, observed=8)
    torch.testing.assert_close(both, (found**2 + alone**2).sqrt())


def test_a_finalist_that_diverges_does_not_spoil_the_deviation() -> None:
    pick = torch.ones(3, 1, 8)
    members = torch.stack([pick, pick * torch.nan])
    assert bool(forecast_deviation(pick, members, 0.1, 8).isfinite().all())
    assert bool((forecast_deviation(0 * pick, 0 * members[:1], 0.0, 8) > 0).all())


# Files
