"""Random search: reproducible, never worse than the best single operator, within its lengths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import UserFunction
from opsplit.search import Objective, Uniform

Observe = Callable[..., tuple[Tensor, Grid, float]]
Build = Callable[..., OperatorDictionary]


@given(
    n=st.integers(1, 12),
    trials=st.integers(1, 40),
    max_parts=st.integers(1, 6),
    seed=st.integers(0, 9999),
)
def test_sets_are_drawn_without_replacement_and_within_their_lengths(
    n: int, trials: int, max_parts: int, seed: int
) -> None:
    sets = Uniform(trials, max_parts, seed).draw(n)
    assert len(sets) == trials
    for operators in sets:
        assert 1 <= len(operators) <= min(max_parts, n)
        assert len(set(operators)) == len(operators)
        assert set(operators) <= set(range(n))
    assert sets == Uniform(trials, max_parts, seed).draw(n)


def test_lengths_and_operators_are_uniform() -> None:
    sets = Uniform(4000, 4, seed=0).draw(10)
    lengths = Counter(map(len, sets))
    assert set(lengths) == {1, 2, 3, 4}
    assert all(abs(count - 1000) < 5 * 27.4 for count in lengths.values())
    members = Counter(i for operators in sets for i in operators)
    assert all(abs(members[i] - 1000) < 5 * 32 for i in range(10))


@given(seed=st.integers(0, 99))
def test_the_same_seed_gives_the_same_result(observe: Observe, mixed: Build, seed: int) -> None:
    window = observe(0.5, 0.3, frames=4)
    first, again = (
        Uniform(trials=10, seed=seed).run(Objective(mixed(0), *window)) for _ in range(2)
    )
    assert first.pick == again.pick
    assert first.ranked == again.ranked


def test_another_seed_tries_other_sets() -> None:
    assert Uniform(seed=0).draw(10) != Uniform(seed=1).draw(10)


@given(trials=st.integers(1, 8), seed=st.integers(0, 99))
def test_it_is_never_worse_than_the_best_single_operator(
    observe: Observe, mixed: Build, trials: int, seed: int
) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, frames=4))
    singles = objective.score(torch.arange(6)[:, None])
    drawn = [objective.score(torch.tensor([s])).item() for s in Uniform(trials, 4, seed).draw(6)]
    found = Uniform(trials, 4, seed).run(objective)
    assert found.pick.fit_error == pytest.approx(min([*singles.tolist(), *drawn]))


def test_one_part_is_the_best_single_operator(observe: Observe, mixed: Build) -> None:
    objective = Objective(mixed(0), *observe(0.5, 0.3))
    singles = objective.score(torch.arange(6)[:, None])
    assert Uniform(5, 1).run(objective).pick.operators == (int(singles.argmin()),)


def test_a_planted_composition_is_recovered(observe: Observe, exact: Build) -> None:
    dictionary = exact([0.1, 0.27, 0.5], [0.06, 0.3])
    found = Uniform(trials=100, max_parts=3).run(Objective(dictionary, *observe(0.5, 0.3)))
    assert found.pick.coefficients == {"c": 0.5, "D": 0.3}
    assert found.pick.fit_error < 1e-12
    assert found.status == "100 sets tried"


def test_operators_that_diverge_never_win(observe: Observe, exact: Build) -> None:
    bad = (
        exact([0.5], [0.3])
        .add(UserFunction(1, 1, step=lambda u, h: u * torch.nan))
        .add(lambda u: 1e9 * u**9)
        .select([2, 3, 0, 1])
    )
    found = Uniform(trials=60, max_parts=3).run(Objective(bad, *observe(0.5, 0.3)))
    assert found.pick.coefficients == {"c": 0.5, "D": 0.3}
    assert all(c.fit_error < float("inf") for c in found.ranked)


def test_a_memory_limit_does_not_change_the_result(observe: Observe, mixed: Build) -> None:
    wide, tight = (
        Uniform(20).run(Objective(mixed(0), *observe(0.5, 0.3), memory_mb=mb)) for mb in (512, 1e-9)
    )
    assert wide.pick.operators == tight.pick.operators
    assert [c.operators for c in wide.ranked] == [c.operators for c in tight.ranked]


@pytest.mark.parametrize(("field", "value"), [("trials", 0), ("max_parts", 0)])
def test_settings_that_leave_nothing_to_try_are_refused(field: str, value: int) -> None:
    with pytest.raises(OpsplitError, match=f"Uniform: {field} must lie in 1.*, got 0"):
        Uniform(**{field: value})


@given(seed=st.integers(0, 99), trials=st.integers(30, 120))
def test_looking_at_few_transitions_first_changes_the_cost_only(
    observe: Observe, mixed: Build, seed: int, trials: int
) -> None:
    window = observe(0.5, 0.3, frames=8, seed=seed)
    search = Uniform(trials, 3, seed)
    quick = search.run(Objective(mixed(seed), *window))
    whole = replace(search, screen=False).run(Objective(mixed(seed), *window))
    assert quick.pick.operators == whole.pick.operators
    assert quick.pick.fit_error == pytest.approx(whole.pick.fit_error, rel=1e-9)
    assert [c.operators for c in quick.finalists] == [c.operators for c in whole.finalists]
    assert quick.cost.evaluations <= whole.cost.evaluations
