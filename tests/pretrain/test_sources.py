"""Training batches: exact pairs from the solver, honest windows from stored trajectories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.hypernetwork.config import Recipe
from opsplit.physics import AdvectionDiffusion
from opsplit.pretrain.batch import Batch
from opsplit.pretrain.config import Batches, TrainConfig
from opsplit.pretrain.sources import (
    FreshSource,
    StoredSource,
    _uneven,
    lost_frames,
    resolved_frames,
)
from opsplit.trajectories import Trajectories


def settings(recipe: Recipe = "in-context", **batches: Any) -> TrainConfig:
    return TrainConfig(recipe=recipe, batches=Batches(**batches))


DURATIONS = st.sampled_from([0.25, 0.5, 1.0, 2.0])


@pytest.fixture(scope="module")
def line() -> AdvectionDiffusion:
    """An odd number of points: no Nyquist mode, whose phase a real field cannot hold."""
    return AdvectionDiffusion(Grid((33,), (16.0,)))


def draw(physics: AdvectionDiffusion, config: TrainConfig, seed: int) -> Batch:
    return FreshSource(physics).draw(config, torch.Generator().manual_seed(seed))


def evolve(physics: AdvectionDiffusion, batch: Batch, states: Tensor, time: float) -> Tensor:
    """States `(E, K, ...)` after `time` of the dynamics of their own environment."""
    k = states.shape[1]
    mu = {name: v.repeat_interleave(k) for name, v in batch.coefficients.items()}
    solution = physics.solve(states.flatten(0, 1).double(), mu, torch.tensor([time]))
    return solution[:, 0].unflatten(0, states.shape[:2]).float()


@given(
    recipe=st.sampled_from(["in-context", "plain"]),
    duration=DURATIONS,
    warm_up=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**20),
)
def test_fresh_targets_are_the_exact_solution(
    line: AdvectionDiffusion, recipe: Recipe, duration: float, warm_up: float, seed: int
) -> None:
    config = settings(
        recipe=recipe, environments=3, states=4, durations=(duration,), warm_up_states=warm_up
    )
    batch = draw(line, config, seed)
    assert batch.duration == pytest.approx(duration * line.dt)
    assert batch.state.shape == batch.target.shape == (3, 4, 1, 33)
    assert batch.state.dtype == batch.target.dtype == batch.context.dtype == torch.float32
    exact = evolve(line, batch, batch.state, batch.duration)
    torch.testing.assert_close(batch.target, exact, rtol=1e-4, atol=1e-5)


@given(recipe=st.sampled_from(["in-context", "plain"]), seed=st.integers(0, 2**20))
def test_fresh_contexts_are_frames_dt_apart(
    line: AdvectionDiffusion, recipe: Recipe, seed: int
) -> None:
    batch = draw(line, settings(recipe=recipe, environments=3, states=2, context=7), seed)
    assert batch.context.shape == (3, 7, 1, 33)
    after = evolve(line, batch, batch.context[:, :-1], line.dt)
    torch.testing.assert_close(batch.context[:, 1:], after, rtol=1e-4, atol=1e-5)


@given(duration=DURATIONS, seed=st.integers(0, 2**20))
def test_plain_states_follow_their_context(
    line: AdvectionDiffusion, duration: float, seed: int
) -> None:
    config = settings(recipe="plain", environments=3, states=4, durations=(duration,))
    batch = draw(line, config, seed)
    assert torch.equal(batch.state[:, 0], batch.context[:, -1])
    after = evolve(line, batch, batch.state[:, :-1], line.dt)
    torch.testing.assert_close(batch.state[:, 1:], after, rtol=1e-4, atol=1e-5)


def closest(batch: Batch) -> float:
    """Smallest gap between amplitudes, which advection keeps, of contexts and states."""
    everyone = torch.cat([batch.context[:, :1], batch.state], 1).flatten(0, 1)[:, 0]
    size = torch.fft.rfft(everyone.double())[:, 1:3].abs()
    ratio = (size[:, 0] / size[:, 1]).log()
    return float((ratio[:, None] - ratio[None]).abs().fill_diagonal_(1).min())


@given(seed=st.integers(0, 2**20))
def test_in_context_states_are_of_other_trajectories(line: AdvectionDiffusion, seed: int) -> None:
    config = settings(environments=2, states=4, split="c")
    assert closest(draw(line, config, seed)) > 1e-5
    assert closest(draw(line, settings("plain", environments=2, states=4, split="c"), seed)) < 1e-5


def test_fresh_batches_come_from_their_seed(line: AdvectionDiffusion) -> None:
    config = settings(environments=3, states=4, durations=(0.5, 1.0), warm_up_states=0.5)
    first, again, other = (draw(line, config, seed) for seed in (1, 1, 2))
    for name in ("context", "state", "target"):
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert not torch.equal(getattr(first, name), getattr(other, name))
    drawn = {draw(line, config, seed).duration for seed in range(20)}
    assert drawn == {0.5 * line.dt, line.dt}


@pytest.mark.parametrize("shape", [(32,), (16, 32), (16, 16, 32)])
def test_uneven_fields_differ_in_their_largest_scales_only(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    axes = tuple(range(-len(shape), 0))
    grid = Grid(shape, (1.0,) * len(shape))
    fields = torch.randn(5, 2, *shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(_uneven(fields, 0.0, grid, generator), fields)
    uneven = _uneven(fields, 1.0, grid, generator)
    factors = torch.fft.fftn(uneven, dim=axes) / torch.fft.fftn(fields, dim=axes)
    assert float(factors.imag.abs().max()) < 1e-9
    along = factors.real[(..., *[0] * (len(shape) - 1), slice(0, 16))]
    assert bool((along[..., 1:9] <= 1).all()) and float(along[..., 1:9].min()) < 0.1
    torch.testing.assert_close(along[..., [0, *range(9, 16)]], torch.ones(5, 2, 8).double())


def test_mechanisms_name_the_active_coefficients(line: AdvectionDiffusion) -> None:
    for split, expected in {"train": {"c", "D"}, "mixed-1.0": {"c+D"}, "c": {"c"}}.items():
        batch = draw(line, settings(environments=40, states=1, split=split), 0)
        assert set(batch.mechanisms()) == expected
        assert batch.environment.tolist() == [-1] * 40


def test_fresh_windows_must_fit(line: AdvectionDiffusion) -> None:
    with pytest.raises(OpsplitError, match="100 frames"):
        draw(line, settings(recipe="plain", environments=1, states=90), 0)
    with pytest.raises(OpsplitError, match="100 frames"):
        draw(line, settings(environments=1, states=1, context=101), 0)


def numbered(coefficients: Sequence[int], frames: int) -> Trajectories:
    """Fields that say where they come from: `1000 trajectory + frame` at every point."""
    n = len(coefficients)
    mark = 1000.0 * torch.arange(n)[:, None] + torch.arange(frames)
    data = mark[:, :, None, None].expand(n, frames, 1, 4).clone()
    times = 0.5 * torch.arange(frames, dtype=torch.float64)
    mu = {"mu": torch.tensor(coefficients, dtype=torch.float64)}
    return Trajectories(data, times, Grid((4,), (1.0,)), ("u",), mu)


@given(
    coefficients=st.lists(st.integers(0, 3), min_size=1, max_size=7),
    recipe=st.sampled_from(["in-context", "codebook", "plain"]),
    stride=st.integers(1, 3),
    spare=st.integers(1, 6),
    seed=st.integers(0, 2**20),
)
def test_stored_pairs_are_one_stride_apart_and_of_one_environment(
    coefficients: list[int], recipe: Recipe, stride: int, spare: int, seed: int
) -> None:
    config = settings(
        recipe=recipe, environments=4, states=5, context=4, durations=(float(stride),)
    )
    stored = numbered(coefficients, frames=config.batches.context + stride + spare)
    source = StoredSource(stored)
    assert source.environments == len(set(coefficients))
    assert source.coefficients()["mu"].tolist() == list(dict.fromkeys(coefficients))
    batch = source.draw(config, torch.Generator().manual_seed(seed))
    assert batch.duration == stride * 0.5
    assert torch.equal(batch.target, batch.state + stride)
    origin, frame = batch.state[:, :, 0, 0].long() // 1000, batch.state[:, :, 0, 0].long() % 1000
    window = batch.context[:, :, 0, 0].long()
    assert torch.equal(window.diff(dim=1), torch.ones_like(window[:, 1:]))
    assert int((frame + stride).max()) < len(stored.times)
    for e, row in enumerate(batch.environment.tolist()):
        value = float(source.coefficients()["mu"][row])
        assert float(batch.coefficients["mu"][e]) == value
        assert coefficients[int(window[e, 0]) // 1000] == value
        assert {coefficients[i] for i in origin[e].tolist()} == {value}
        if recipe == "plain":
            assert set(origin[e].tolist()) == {int(window[e, 0]) // 1000}
            assert int(frame[e].min()) >= int(window[e, -1]) % 1000


def test_stored_draws_reach_every_frame_and_trajectory() -> None:
    stored = numbered([0, 0, 1], frames=8)
    config = settings(recipe="codebook", environments=64, states=16, context=4)
    batch = StoredSource(stored).draw(config, torch.Generator().manual_seed(0))
    seen = set(batch.state[:, :, 0, 0].long().flatten().tolist())
    assert seen == {1000 * i + t for i in range(3) for t in range(7)}
    assert set(batch.context[:, 0, 0, 0].long().tolist()) == {
        1000 * i + t for i in range(3) for t in range(5)
    }


def test_mechanisms_are_drawn_equally_often_and_their_values_too() -> None:
    """One environment without `mu`, nine with it: a half is without."""
    source = StoredSource(numbered([0, *range(1, 10)], frames=8))
    config = settings(recipe="codebook", environments=3600, states=1, context=4)
    batch = source.draw(config, torch.Generator().manual_seed(0))
    counts = batch.environment.bincount(minlength=10).double()
    assert float(counts[0]) == pytest.approx(1800, abs=5 * math.sqrt(900))
    assert counts[1:].tolist() == pytest.approx([200] * 9, abs=5 * math.sqrt(200))


def steepening(first_lost: Sequence[int], frames: int, share: float) -> Trajectories:
    """Waves of height `1 + frame`; from some frame on, `share` of their energy is in mode 12."""
    x = 2 * math.pi * torch.arange(32) / 32
    heights = 1 + torch.arange(frames)[:, None]
    low, high = heights * torch.cos(x), math.sqrt(share / (1 - share)) * heights * torch.cos(12 * x)
    lost = [(torch.arange(frames) >= i).float()[:, None] for i in first_lost]
    data = torch.stack([low + on * high for on in lost])[:, :, None]
    return Trajectories(data, torch.arange(frames).double(), Grid((32,), (5.0,)))


@given(first=st.lists(st.integers(0, 9), min_size=1, max_size=4), share=st.floats(0.01, 0.9))
def test_frames_are_resolved_until_the_upper_modes_hold_too_much(
    first: list[int], share: float
) -> None:
    stored = steepening(first, 8, share)
    # What begins unresolved is taken whole, like what never is.
    expected = [i if 0 < i < 8 else 8 for i in first]
    assert resolved_frames(stored, 0.9 * share).tolist() == expected
    assert resolved_frames(stored, 1.1 * share).tolist() == [8] * len(first)


@given(
    recipe=st.sampled_from(["in-context", "codebook", "plain"]),
    lost=st.integers(6, 20),
    seed=st.integers(0, 2**20),
)
def test_lost_frames_are_not_drawn(recipe: Recipe, lost: int, seed: int) -> None:
    config = settings(recipe=recipe, environments=4, states=8, context=4, durations=(1.0,))
    batch = StoredSource(steepening([lost], 20, 0.5), resolved=0.1).draw(
        config, torch.Generator().manual_seed(seed)
    )
    for drawn in (batch.context, batch.state, batch.target):
        assert float(torch.fft.rfft(drawn)[..., 12].abs().max()) < 1e-3


def test_without_coefficients_every_trajectory_is_an_environment() -> None:
    known = numbered([0, 0, 0], frames=8)
    source = StoredSource(Trajectories(known.data, known.times, known.grid))
    assert source.environments == 3
    assert source.coefficients() == {}
    batch = source.draw(settings(environments=2, states=1, context=4), torch.Generator())
    assert batch.mechanisms() == ["none", "none"]


@pytest.mark.parametrize("recipe, fewest", [("codebook", 17), ("plain", 18)])
def test_too_few_stored_frames(recipe: Recipe, fewest: int) -> None:
    config = settings(recipe=recipe, environments=2, states=2)
    with pytest.raises(OpsplitError, match=f"the data have {fewest - 1}"):
        StoredSource(numbered([0, 1], fewest - 1)).draw(config, torch.Generator())
    batch = StoredSource(numbered([0, 1], fewest)).draw(config, torch.Generator())
    assert batch.context.shape[1] == 16


def test_durations_between_stored_frames_are_refused() -> None:
    source = StoredSource(numbered([0, 1], 30))
    with pytest.raises(OpsplitError, match=r"whole numbers of frames.*such as 0.5 1"):
        source.draw(settings(durations=(1.0, 1.5)), torch.Generator())


@pytest.mark.parametrize("duration", [-0.5, 0.0])
def test_durations_are_positive(duration: float) -> None:
    with pytest.raises(OpsplitError, match="durations must be positive"):
        settings(durations=(1.0, duration))


@given(parts=st.integers(1, 5), seed=st.integers(0, 2**20))
def test_a_share_of_a_frame_is_a_chain_of_flows_to_the_next(parts: int, seed: int) -> None:
    source = StoredSource(numbered([0, 1], 30))
    config = settings(environments=2, states=3, durations=(1 / parts,))
    batch = source.draw(config, torch.Generator().manual_seed(seed))
    assert len(batch.shares) == parts
    assert min(batch.shares) >= 0 and sum(batch.shares) == pytest.approx(1)
    assert batch.duration == source.data.dt
    whole = source.draw(settings(environments=2, states=3), torch.Generator().manual_seed(seed))
    assert whole.shares == (1.0,)
    assert batch.to(torch.device("cpu")).shares == batch.shares


def test_broken_trajectories_are_refused() -> None:
    stored = numbered([0, 1, 1], 8)
    stored.data[1, 3] = torch.nan
    with pytest.raises(OpsplitError, match="1 of 3 trajectories hold NaN"):
        StoredSource(stored)


def test_coefficients_that_are_no_numbers_are_refused() -> None:
    stored = numbered([0, 1, 1], 8)
    name = next(iter(stored.coefficients))
    stored.coefficients[name][1] = torch.nan
    with pytest.raises(OpsplitError, match=f"The coefficient {name} is not a finite number"):
        StoredSource(stored)


@given(power=st.integers(-25, 25))
def test_fields_of_any_size_have_a_scale(power: int) -> None:
    """Squares of single precision overflow beyond 1e19."""
    stored = numbered([0, 1, 1], 8)
    usual = StoredSource(stored).facts("any").scale
    scaled = replace(stored, data=stored.data * 10.0**power)
    assert StoredSource(scaled).facts("any").scale == pytest.approx(usual * 10.0**power, rel=1e-4)
    assert torch.equal(lost_frames(scaled, 1e-4), lost_frames(stored, 1e-4))
