"""The fitting error of many candidates at once equals the definition, one by one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import UserFunction
from opsplit.search import Objective
from opsplit.search.prefix import Extensions
from opsplit.splitting import SCHEMES, flows_per_step, split_step

Observe = Callable[..., tuple[Tensor, Grid, float]]
Build = Callable[..., OperatorDictionary]


def by_definition(
    dictionary: OperatorDictionary,
    window: Tensor,
    grid: Grid,
    dt: float,
    operators: list[int],
    scheme: str,
    refinement: int,
) -> float:
    """Mean over the transitions of `||prediction - next|| / ||next||`, frame by frame."""
    prepared = dictionary.prepare(grid, window)
    errors = []
    for now, after in pairwise(window):
        flows = [
            lambda u, h, i=i: prepared.flow(torch.tensor([i]), u, h)  # type: ignore[misc]
            for i in operators
        ]
        found = split_step(flows, now[None, None], dt, scheme, refinement)  # type: ignore[arg-type]
        errors.append(float((found[0, 0] - after).norm() / after.norm()))
    return sum(errors) / len(errors)


@pytest.mark.parametrize("refinement", [1, 2])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_scores_are_the_mean_relative_errors_of_one_step(
    scheme: str, refinement: int, observe: Observe, mixed: Build
) -> None:
    window, grid, dt = observe(0.4, 0.2, frames=4)
    dictionary = mixed(0)
    objective = Objective(dictionary, window, grid, dt, scheme, refinement)  # type: ignore[arg-type]
    for sets in ([[0], [4]], [[0, 1], [1, 0], [3, 4]], [[0, 3, 4], [5, 4, 3]]):
        found = objective.score(torch.tensor(sets)).tolist()
        expected = [
            by_definition(dictionary, window, grid, dt, s, scheme, refinement) for s in sets
        ]
        assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_true_composition_fits_to_rounding(scheme: str, observe: Observe, exact: Build) -> None:
    window, grid, dt = observe(0.4, 0.2)
    objective = Objective(exact([0.4], [0.2]), window, grid, dt, scheme)  # type: ignore[arg-type]
    right, one, other = (float(objective.score(torch.tensor([s]))) for s in ([0, 1], [0], [1]))
    assert right < 1e-12
    assert one > 1e-3 and other > 1e-3


@given(strengths=st.lists(st.floats(0, 2), min_size=2, max_size=2))
def test_strengths_multiply_the_operators(
    observe: Observe, exact: Build, strengths: list[float]
) -> None:
    window, grid, dt = observe(0.4, 0.2, frames=4)
    unit = Objective(exact([0.5], [0.3]), window, grid, dt)
    scaled = Objective(exact([0.5 * strengths[0]], [0.3 * strengths[1]]), window, grid, dt)
    pair = torch.tensor([[0, 1]])
    found = unit.score(pair, torch.tensor([strengths], dtype=torch.float64))
    torch.testing.assert_close(found, scaled.score(pair), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("refinement", [1, 2])
@pytest.mark.parametrize("scheme", ["lie", "strang"])
def test_extensions_of_a_prefix_score_like_whole_compositions(
    scheme: str, refinement: int, observe: Observe, mixed: Build
) -> None:
    window, grid, dt = observe(0.4, 0.2)
    objective = Objective(mixed(1), window, grid, dt, scheme, refinement)  # type: ignore[arg-type]
    kept = torch.tensor([[4, 0], [1, 3]])
    row, new = torch.tensor([0, 0, 1, 1]), torch.tensor([1, 3, 0, 5])
    frames = torch.tensor([5, 0, 3])
    whole = objective.errors(torch.cat([kept[row], new[:, None]], 1))[:, frames]
    for reuse in (False, True):
        found = Extensions(objective, kept, reuse=reuse).errors(row, new, frames)
        torch.testing.assert_close(found, whole, rtol=1e-10, atol=1e-14)


@given(
    memory_mb=st.sampled_from([1e-9, 0.03, 0.06]), size=st.integers(1, 3), seed=st.integers(0, 9)
)
def test_a_memory_limit_changes_the_chunks_and_not_the_scores(
    observe: Observe, mixed: Build, memory_mb: float, size: int, seed: int
) -> None:
    window, grid, dt = observe(0.4, 0.2, frames=5, seed=seed)
    dictionary = mixed(seed)
    tight = Objective(dictionary, window, grid, dt, memory_mb=memory_mb)
    wide = Objective(dictionary, window, grid, dt)
    assert tight.chunk < 10 < wide.chunk
    assert memory_mb > 1e-9 or tight.chunk == 1
    generator = torch.Generator().manual_seed(seed)
    sets = torch.stack([torch.randperm(6, generator=generator)[:size] for _ in range(10)])
    strengths = torch.rand(10, size, generator=generator, dtype=torch.float64)
    for weight in (None, strengths):
        torch.testing.assert_close(
            tight.score(sets, weight), wide.score(sets, weight), rtol=1e-12, atol=1e-14
        )


def test_an_operator_that_diverges_is_infinitely_bad_and_harms_no_other(
    observe: Observe, exact: Build
) -> None:
    window, grid, dt = observe(0.4, 0.2)
    good = exact([0.4, 0.1], [0.2])
    bad = (
        good.add(UserFunction(1, 1, step=lambda u, h: u * torch.nan))
        .add(UserFunction(1, 1, step=lambda u, h: u + torch.inf))
        .add(lambda u: 1e9 * u**9)
    )
    objective = Objective(bad, window, grid, dt)
    alone = Objective(good, window, grid, dt)
    singles = objective.score(torch.arange(6)[:, None])
    torch.testing.assert_close(singles[:3], alone.score(torch.arange(3)[:, None]))
    assert singles[3:].tolist() == [torch.inf] * 3
    pairs = torch.tensor([[3, 0], [0, 2], [2, 4], [1, 2], [5, 1]])
    scores = objective.score(pairs)
    torch.testing.assert_close(scores[[1, 3]], alone.score(pairs[[1, 3]]))
    assert scores[[0, 2, 4]].tolist() == [torch.inf] * 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("refinement", [1, 3])
def test_flows_are_counted(scheme: str, refinement: int, observe: Observe, exact: Build) -> None:
    window, grid, dt = observe(0.4, 0.2, frames=5)
    objective = Objective(exact([0.4, 0.1], [0.2]), window, grid, dt, scheme, refinement)  # type: ignore[arg-type]
    objective.score(torch.tensor([[0, 1, 2], [2, 1, 0]]))
    assert objective.meter.flows == 2 * 4 * flows_per_step(3, scheme, refinement)  # type: ignore[arg-type]


def test_a_frame_of_zeros_has_a_finite_error(exact: Build) -> None:
    window = torch.zeros(3, 1, 32, dtype=torch.float64)
    window[0, 0] = torch.sin(torch.arange(32) * 2 * torch.pi / 32)
    grid = Grid((32,), (16.0,))
    scores = Objective(exact([0.4], []), window, grid, 0.1).score(torch.tensor([[0]]))
    assert bool(torch.isfinite(scores).all()) and float(scores) > 0
    nothing = Objective(exact([0.4], []), torch.zeros_like(window), grid, 0.1)
    assert nothing.score(torch.tensor([[0]])).tolist() == [0]


def test_single_precision_agrees_with_double(observe: Observe, mixed: Build) -> None:
    window, grid, dt = observe(0.4, 0.2)
    pairs = torch.tensor([[0, 1], [3, 4]])
    fine = Objective(mixed(0), window, grid, dt).score(pairs)
    rough = Objective(mixed(0), window.float(), grid, dt).score(pairs)
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough.double(), fine, rtol=1e-3, atol=1e-6)


def test_nothing_to_compare_or_to_compose_is_refused(observe: Observe, exact: Build) -> None:
    window, grid, dt = observe(0.4, 0.2)
    with pytest.raises(OpsplitError, match="at least 2 observed frames, got 1"):
        Objective(exact([0.4], []), window[:1], grid, dt)
    with pytest.raises(OpsplitError, match="dictionary is empty"):
        Objective(exact([0.4], []).select([]), window, grid, dt)
    with pytest.raises(OpsplitError, match="need periodic axes"):
        Objective(exact([0.4], []), window, Grid((32,), (16.0,), "zero"), dt)
