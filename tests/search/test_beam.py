"""Beam search against exhaustive search, its shortcuts, its threshold and its end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import UserFunction
from opsplit.search import Beam, Objective, SearchResult, Uniform, get_search
from opsplit.search.partial import spaced_order
from opsplit.splitting import SCHEMES, flows_per_step

Observe = Callable[..., tuple[Tensor, Grid, float]]
Build = Callable[..., OperatorDictionary]
NEVER = -1e9  # a threshold that never stops
FEW = settings(max_examples=10)


def errors_by_length(result: SearchResult) -> dict[int, tuple[frozenset[int], float]]:
    best: dict[int, tuple[frozenset[int], float]] = {}
    for c in result.ranked:
        best.setdefault(len(c), (frozenset(c.operators), c.fit_error))
    return best


def same_errors(a: dict[tuple[int, ...], float], b: dict[tuple[int, ...], float]) -> bool:
    return a.keys() == b.keys() and all(
        error == pytest.approx(b[key], rel=1e-9, abs=1e-13) for key, error in a.items()
    )


def table(result: SearchResult) -> dict[tuple[int, ...], float]:
    return {c.operators: c.fit_error for c in result.ranked}


@FEW
@given(seed=st.integers(0, 99), c=st.floats(0, 1), D=st.floats(0, 1))
def test_with_all_sets_kept_it_is_exhaustive_search_over_pairs(
    observe: Observe, mixed: Build, seed: int, c: float, D: float
) -> None:
    objective = Objective(mixed(seed), *observe(c, D, seed=seed))
    singles = objective.score(torch.arange(6)[:, None])
    rank = torch.sort(singles, stable=True).indices.tolist()
    # Beam extends better operators by worse ones, and the order within a pair matters.
    pairs = torch.tensor(list(combinations(rank, 2)))
    scores = objective.score(pairs)
    found = Beam(width=6, max_parts=2, threshold=NEVER).run(objective)
    assert found.pick.operators == tuple(pairs[scores.argmin()].tolist())
    assert found.pick.fit_error == pytest.approx(float(scores.min()), rel=1e-9)
    assert found.ranked[0].fit_error == pytest.approx(
        min(float(scores.min()), float(singles.min())), rel=1e-9
    )


@FEW
@given(seed=st.integers(0, 99))
def test_with_all_sets_kept_every_subset_is_scored_once(
    observe: Observe, mixed: Build, seed: int
) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, frames=3, seed=seed))
    found = Beam(width=100, max_parts=6, threshold=NEVER, screen=False).run(objective)
    sets = [frozenset(c.operators) for c in found.ranked]
    assert len(sets) == len(set(sets)) == 2**6 - 1


@FEW
@given(seed=st.integers(0, 99), width=st.integers(1, 5))
def test_one_part_is_the_best_single_operator(
    observe: Observe, mixed: Build, seed: int, width: int
) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, seed=seed))
    singles = objective.score(torch.arange(6)[:, None])
    found = Beam(width=width, max_parts=1).run(objective)
    assert found.pick.operators == (int(singles.argmin()),)
    assert found.pick.fit_error == pytest.approx(float(singles.min()))


@FEW
@given(seed=st.integers(0, 99))
def test_a_beam_of_one_is_the_greedy_search(observe: Observe, mixed: Build, seed: int) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, seed=seed))
    held: list[int] = []
    for _ in range(4):
        more = [[*held, j] for j in range(6) if j not in held]
        held = more[int(objective.score(torch.tensor(more)).argmin())]
    found = Beam(width=1, max_parts=4, threshold=NEVER).run(objective)
    assert found.pick.operators == tuple(held)


@FEW
@given(seed=st.integers(0, 99), width=st.integers(1, 4))
def test_a_wider_beam_that_keeps_everything_is_never_worse_on_pairs(
    observe: Observe, mixed: Build, seed: int, width: int
) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, seed=seed))
    narrow, wide = (
        Beam(width=w, max_parts=2, threshold=NEVER).run(objective).pick.fit_error
        for w in (width, 6)
    )
    assert wide <= narrow * (1 + 1e-9)


# Shortcuts


@pytest.mark.parametrize("refinement", [1, 2])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_reuse_changes_the_cost_and_not_the_scores(
    scheme: str, refinement: int, observe: Observe, mixed: Build
) -> None:
    for seed in range(3):
        results = []
        for reuse in (True, False):
            objective = Objective(mixed(seed), *observe(0.5, 0.3), scheme, refinement)
            beam = Beam(width=2, max_parts=4, threshold=NEVER, reuse=reuse, screen=False)
            results.append(beam.run(objective))
        assert same_errors(*(table(result) for result in results))
        assert results[0].pick.operators == results[1].pick.operators
        with_reuse, without = (result.cost.flows for result in results)
        assert with_reuse == without if scheme == "fourth" else with_reuse < without


@FEW
@given(
    seed=st.integers(0, 10_000),
    width=st.integers(1, 3),
    frames=st.sampled_from([2, 3, 4, 8, 10]),
    scheme=st.sampled_from(SCHEMES),
)
def test_screening_never_changes_the_result(
    observe: Observe, mixed: Build, seed: int, width: int, frames: int, scheme: str
) -> None:
    results = []
    for screen in (True, False):
        objective = Objective(mixed(seed), *observe(0.5, 0.3, frames=frames, seed=seed), scheme)  # type: ignore[arg-type]
        results.append(Beam(width, 4, NEVER, screen=screen).run(objective))
    screened, full = results
    assert screened.pick.operators == full.pick.operators
    best = [{len(o): (o, e) for o, e in reversed(table(r).items())} for r in results]
    assert best[0].keys() == best[1].keys()
    for size, (operators, error) in best[0].items():
        assert operators == best[1][size][0]
        assert error == pytest.approx(best[1][size][1], rel=1e-9, abs=1e-13)
    for operators, error in table(screened).items():
        assert error == pytest.approx(table(full)[operators], rel=1e-9, abs=1e-13)


def test_screening_saves_flows_in_a_large_dictionary(observe: Observe, exact: Build) -> None:
    dictionary = exact([0.05 * i for i in range(20)], [0.05 * i for i in range(1, 20)])
    flows = []
    for screen in (True, False):
        objective = Objective(dictionary, *observe(0.5, 0.3, frames=16))
        flows.append(Beam(screen=screen).run(objective).cost.flows)
    assert flows[0] < 0.7 * flows[1]


@given(n=st.integers(1, 60))
def test_transitions_are_screened_in_an_order_that_holds_each_once(n: int) -> None:
    order = spaced_order(n)
    assert sorted(order) == list(range(n))
    # Its beginning is spread: the first few leave no gap longer than half of the whole.
    beginning = sorted(order[:3])
    assert max(b - a for a, b in zip(beginning, [*beginning[1:], n], strict=True)) <= (n + 1) / 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_cost_without_shortcuts_is_the_number_of_candidates_times_their_flows(
    scheme: str, observe: Observe, exact: Build
) -> None:
    objective = Objective(exact([0.1, 0.2, 0.3], [0.1, 0.2]), *observe(0.5, 0.3, frames=4), scheme)  # type: ignore[arg-type]
    found = Beam(1, 3, NEVER, reuse=False, screen=False).run(objective)
    candidates = {1: 5, 2: 4, 3: 3}
    assert found.cost.flows == 3 * sum(
        n * flows_per_step(size, scheme)  # type: ignore[arg-type]
        for size, n in candidates.items()
    )
    assert found.cost.evaluations == found.cost.flows


def test_a_memory_limit_does_not_change_the_result(observe: Observe, mixed: Build) -> None:
    wide, tight = (
        Beam(3, 4, NEVER).run(Objective(mixed(2), *observe(0.5, 0.3), memory_mb=mb))
        for mb in (512, 1e-9)
    )
    assert same_errors(table(wide), table(tight))
    assert wide.pick.operators == tight.pick.operators


# Where it ends


@FEW
@given(seed=st.integers(0, 99), threshold=st.floats(0, 0.99), width=st.integers(1, 4))
def test_the_last_length_that_improves_by_the_threshold_is_picked(
    observe: Observe, mixed: Build, seed: int, threshold: float, width: int
) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, seed=seed))
    best = errors_by_length(Beam(width, 5, NEVER).run(objective))
    expected = 1
    while expected < 5 and best[expected + 1][1] < (1 - threshold) * best[expected][1]:
        expected += 1
    found = Beam(width, 5, threshold).run(objective)
    assert (frozenset(found.pick.operators), found.pick.fit_error) == best[expected]
    tried = max(len(c) for c in found.ranked)
    assert tried == min(expected + 1, 5)
    stopped = f"{expected + 1} parts improve by less than {threshold:.0%}"
    assert found.status == (stopped if expected < 5 else "longest composition of 5 reached")


@FEW
@given(seed=st.integers(0, 99), width=st.integers(1, 4), max_parts=st.integers(1, 9))
def test_no_composition_is_too_long_or_repeats_an_operator(
    observe: Observe, mixed: Build, seed: int, width: int, max_parts: int
) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, frames=4, seed=seed))
    found = Beam(width, max_parts, NEVER).run(objective)
    assert len(found.pick) == min(max_parts, 6)
    for composition in (found.pick, *found.ranked):
        assert len(composition) <= max_parts
        assert len(set(composition.operators)) == len(composition)
    sets = [frozenset(c.operators) for c in found.ranked]
    assert len(sets) == len(set(sets))


def test_equal_errors_keep_the_order_of_the_dictionary(observe: Observe, exact: Build) -> None:
    twins = exact([0.5, 0.5, 0.5], [0.3, 0.3])
    found = Beam().run(Objective(twins, *observe(0.5, 0.3)))
    assert set(found.pick.operators) == {0, 3}


@FEW
@given(
    c=st.sampled_from([0.1, 0.27, 0.5, 0.93]),
    D=st.sampled_from([0.06, 0.3, 0.71]),
    seed=st.integers(0, 99),
)
def test_a_planted_composition_is_recovered(
    observe: Observe, exact: Build, c: float, D: float, seed: int
) -> None:
    dictionary = exact([0.1, 0.27, 0.5, 0.93], [0.06, 0.3, 0.71])
    found = Beam(width=4).run(Objective(dictionary, *observe(c, D, seed=seed)))
    assert found.pick.coefficients == {"c": c, "D": D}
    assert len(found.pick) == 2
    assert found.pick.fit_error < 1e-12


def test_a_planted_composition_of_three_is_recovered(observe: Observe, exact: Build) -> None:
    dictionary = exact([0.5, 0.93], [0.1, 0.7])
    found = Beam(width=4).run(Objective(dictionary, *observe(0.5 + 0.93, 0.1)))
    assert set(found.pick.operators) == {0, 1, 2}
    assert found.pick.coefficients == pytest.approx({"c": 1.43, "D": 0.1})
    assert found.pick.fit_error < 1e-12


@pytest.mark.parametrize("screen", [True, False])
def test_operators_that_diverge_never_win(screen: bool, observe: Observe, exact: Build) -> None:
    good = exact([0.5, 0.1, 0.2, 0.9], [0.3, 0.1, 0.9])
    bad = good
    for step in (lambda u, h: u * torch.nan, lambda u, h: u * 1e300, lambda u, h: u / 0):
        bad = bad.add(UserFunction(1, 1, step=step))
    bad = bad.add(lambda u: 1e9 * u**9)
    # Bad ones first, so that no tie is broken in favour of the good.
    order = [7, 8, 9, 10, *range(7)]
    window = observe(0.5, 0.3)
    clean = Beam(screen=screen).run(Objective(good, *window))
    found = Beam(screen=screen).run(Objective(bad, *window))
    assert found.pick.operators == clean.pick.operators
    assert found.pick.fit_error == pytest.approx(clean.pick.fit_error, abs=1e-12)
    turned = Beam(screen=screen).run(Objective(bad.select(order), *window))
    assert turned.pick.coefficients == clean.pick.coefficients


@pytest.mark.parametrize("screen", [True, False])
def test_a_dictionary_that_only_diverges_is_a_result_and_says_so(
    screen: bool, observe: Observe, exact: Build
) -> None:
    family = UserFunction(1, 1, step=lambda u, h: u * torch.nan)
    bad = exact([0.5], []).select([]).add(family, torch.ones(12, 1))
    for search in (Beam(screen=screen), Uniform()):
        found = search.run(Objective(bad, *observe(0.5, 0.3)))
        assert found.pick.fit_error == float("inf")
        assert "no operator of the dictionary gave a finite prediction" in found.status
        assert "inf" in str(found)


@pytest.mark.parametrize(("field", "value"), [("width", 0), ("max_parts", 0)])
def test_settings_that_leave_nothing_to_try_are_refused(field: str, value: int) -> None:
    with pytest.raises(OpsplitError, match=f"Beam: {field} must lie in 1..*, got 0"):
        Beam(**{field: value})


def test_a_strategy_is_found_by_its_name_or_is_itself() -> None:
    assert get_search("beam") == Beam()
    assert get_search("uniform") == Uniform()
    mine = Beam(width=9)
    assert get_search(mine) is mine
    with pytest.raises(OpsplitError, match=r"Unknown search 'x'; choose from .*beam"):
        get_search("x")
