"""Selecting, merging, flowing, pruning: operators and the facts that go with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dictionaries import FIELDS, GRID, KINDS, RATES, SPEEDS, coded, flow_of, of_family
from hypothesis import given
from hypothesis import strategies as st

from opsplit.dictionary import MAX_STRENGTH, OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.operators import Conserving, Homogeneous, Polynomial, Spectral, Symbol, UserFunction
from opsplit.terms import Term


@pytest.fixture
def lines(exact: Callable[..., OperatorDictionary]) -> OperatorDictionary:
    return exact(SPEEDS, RATES)


@given(index=st.lists(st.integers(0, 5), max_size=8))
def test_selected_operators_act_as_before(
    exact: Callable[..., OperatorDictionary], index: list[int]
) -> None:
    whole = exact(SPEEDS, RATES)
    part = whole.select(index)
    assert len(part) == len(index)
    assert part.coefficients["c"].tolist() == whole.coefficients["c"][index].tolist()
    for new, old in enumerate(index):
        torch.testing.assert_close(flow_of(part, new), flow_of(whole, old))


def test_positions_may_be_a_list_an_array_or_a_tensor(lines: OperatorDictionary) -> None:
    for index in ([4, 1], np.array([4, 1]), torch.tensor([4, 1])):
        assert lines.select(index).coefficients["D"].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("index", [[-1], [6], [0, 99]])
def test_positions_outside_are_refused(lines: OperatorDictionary, index: list[int]) -> None:
    with pytest.raises(OpsplitError, match=r"Positions must lie in 0\.\.5"):
        lines.select(index)


def test_operators_are_filtered_by_their_coefficients(lines: OperatorDictionary) -> None:
    fast = lines.where(lambda mu: mu["c"] > 0.25)
    assert fast.coefficients["c"].tolist() == [0.3, 0.4]
    nothing = lines.where(lambda mu: False)
    assert len(nothing) == 0
    assert "empty" in repr(nothing)


@given(n=st.integers(1, 6), seed=st.integers(0, 99))
def test_a_subsample_is_a_reproducible_subset_in_order(
    exact: Callable[..., OperatorDictionary], n: int, seed: int
) -> None:
    whole = exact(range(1, 7), ())
    values = whole.subsample(n, seed).coefficients["c"].tolist()
    assert values == sorted(set(values)) and len(values) == n
    assert set(values) <= set(range(1, 7))
    assert values == whole.subsample(n, seed).coefficients["c"].tolist()


def test_all_operators_are_sampled_alike(exact: Callable[..., OperatorDictionary]) -> None:
    whole = exact(range(6), ())
    counts = np.zeros(6)
    for seed in range(200):
        counts[whole.subsample(3, seed).coefficients["c"].astype(int)] += 1
    assert abs(counts - 100).max() < 5 * np.sqrt(50)


@pytest.mark.parametrize("n", [0, -1, 7])
def test_an_impossible_subsample_is_refused(lines: OperatorDictionary, n: int) -> None:
    with pytest.raises(OpsplitError, match=f"Cannot take {n} of 6"):
        lines.subsample(n, 0)


# Several families


def test_merged_families_act_each_as_alone(lines: OperatorDictionary) -> None:
    other = coded(scale=2.0)
    both = lines.merge(other)
    assert len(both) == 9
    index = torch.tensor([7, 0, 8, 5, 6, 0])
    u = FIELDS.expand(6, -1, -1, -1) + torch.arange(6)[:, None, None, None]
    durations = torch.linspace(0, 0.1, 6, dtype=torch.float64)
    together = both.prepare(GRID, u).flow(index, u, durations)
    for e, (i, h) in enumerate(zip(index.tolist(), durations.tolist(), strict=True)):
        own, place = (lines, i) if i < 6 else (other, i - 6)
        torch.testing.assert_close(together[e : e + 1], flow_of(own, place, u[e : e + 1], h))
    one = both.prepare(GRID, u).flow(index, u, 0.05)
    torch.testing.assert_close(one[2:3], flow_of(other, 2, u[2:3], 0.05))


def test_a_merged_dictionary_knows_all_coefficients_and_fills_in_zeros(
    lines: OperatorDictionary,
) -> None:
    both = lines.merge(coded())
    assert both.coefficients["c"].tolist() == [*SPEEDS, 0, 0, 0, 0, 0]
    assert both.coefficients["D"].tolist() == [0, 0, 0, 0, *RATES, 0, 0, 0]
    assert both.coefficients["alpha"].tolist() == [0, 0, 0, 0, 0, 0, 0, 0.5, 1.0]
    assert both.provenance == ("exact",) * 6 + ("unknown",) * 3
    assert both.describe(1) == "c=0.2" and both.describe(6) == "#6"
    assert "6 linear + 3 spectral" in repr(both)


def test_selection_keeps_families_together(lines: OperatorDictionary) -> None:
    both = lines.merge(coded())
    some = both.select([8, 0, 7, 5])
    assert [len(part) for part in some.parts] == [2, 2]
    assert some.coefficients["c"].tolist() == [0.1, 0, 0, 0]
    assert some.coefficients["alpha"].tolist() == [0, 0, 1.0, 0.5]
    torch.testing.assert_close(flow_of(some, 2), flow_of(both, 8))


def test_an_empty_dictionary_is_the_neutral_element_of_merging(lines: OperatorDictionary) -> None:
    empty = lines.select([])
    for merged in (empty.merge(lines), lines.merge(empty)):
        assert len(merged) == 6
        assert merged.coefficients["c"].tolist() == lines.coefficients["c"].tolist()
        assert torch.equal(flow_of(merged, 3), flow_of(lines, 3))


def test_operators_on_other_fields_are_not_merged(lines: OperatorDictionary) -> None:
    for channels, ndim in ((2, 1), (1, 2)):
        other = OperatorDictionary.analytic(channels, ndim, [{"diffusion": 1.0}])
        with pytest.raises(OpsplitError, match=r"1-D fields with 1 channels cannot join"):
            lines.merge(other)


def test_operators_act_on_fields_divided_by_their_scale() -> None:
    """`f(u / s) s`: an operator that is not linear notices."""
    small, large = coded(scale=1.0), coded(scale=10.0)
    torch.testing.assert_close(flow_of(large, 1, FIELDS), 10 * flow_of(small, 1, FIELDS / 10))
    assert float((flow_of(large, 1) - flow_of(small, 1)).abs().max()) > 1e-9


def test_a_function_of_the_user_joins_the_dictionary(lines: OperatorDictionary) -> None:
    more = lines.add(lambda u: -u, coefficients={"k": 1.0}, provenance="mine")
    assert len(more) == 7
    assert more.coefficients["k"].tolist() == [0, 0, 0, 0, 0, 0, 1.0]
    assert more.provenance[-1] == "mine"
    assert more.describe(6) == "k=1"
    decayed = flow_of(more, 6, h=0.01)
    torch.testing.assert_close(decayed, FIELDS * np.exp(-0.01), rtol=1e-10, atol=0)
    stepped = lines.add(UserFunction(1, 1, step=lambda u, h: u + h))
    torch.testing.assert_close(flow_of(stepped, 6, h=0.25), FIELDS + 0.25)


def test_a_function_needs_a_dictionary_that_knows_the_fields(lines: OperatorDictionary) -> None:
    with pytest.raises(OpsplitError, match="empty"):
        lines.select([]).add(lambda u: -u)
    alone = lines.select([]).add(UserFunction(1, 1, step=lambda u, h: u + h))
    torch.testing.assert_close(flow_of(alone, 0, h=0.25), FIELDS + 0.25)


def test_numbers_of_coefficients_and_operators_must_agree(lines: OperatorDictionary) -> None:
    with pytest.raises(OpsplitError, match="6 operators but 2 of 'c'"):
        OperatorDictionary(lines.parts, {"c": np.zeros(2)})
    with pytest.raises(OpsplitError, match="6 operators but 1 of 'provenance'"):
        OperatorDictionary(lines.parts, {}, ("one",))


def test_prepared_operators_follow_the_precision_of_the_fields(lines: OperatorDictionary) -> None:
    for dictionary in (lines, coded()):
        assert flow_of(dictionary, 0, FIELDS.float()).dtype == torch.float32
        assert flow_of(dictionary, 0, FIELDS).dtype == torch.float64


# Facts of operators


TERMS = {"c": Term("-u_x", 1, 1, True), "D": Term("u_xx", 2, 1)}


@pytest.fixture
def known(lines: OperatorDictionary) -> OperatorDictionary:
    return replace(lines, terms=TERMS, max_strengths=np.arange(1.0, 7.0))


def test_terms_and_strengths_survive_selection(known: OperatorDictionary) -> None:
    for some in (known.select([5, 1]), known.where(lambda mu: mu["c"] in (0.2,) or mu["D"] == 2)):
        assert some.terms == TERMS
        assert sorted(some.max_strengths.tolist()) == [2.0, 6.0]
        assert some.max_strengths[some.coefficients["c"] == 0.2].tolist() == [2.0]
    assert len(known.subsample(3, 0).max_strengths) == 3


def test_terms_and_strengths_survive_merging(known: OperatorDictionary) -> None:
    other = replace(coded(), terms={"alpha": Term("-(u^2)_x", 1, 2), "c": Term("other")})
    both = known.merge(other)
    assert both.terms == {**TERMS, "alpha": Term("-(u^2)_x", 1, 2)}
    assert both.max_strengths.tolist() == [1, 2, 3, 4, 5, 6, *[MAX_STRENGTH] * 3]
    assert known.add(lambda u: -u).max_strengths.tolist() == [1, 2, 3, 4, 5, 6, MAX_STRENGTH]


def test_terms_and_strengths_survive_the_disk(known: OperatorDictionary, tmp_path: Path) -> None:
    known.save(tmp_path)
    loaded = OperatorDictionary.load(tmp_path)
    assert loaded.terms == TERMS
    assert loaded.max_strengths.tolist() == known.max_strengths.tolist()


def test_strengths_are_set_for_all_and_counted(known: OperatorDictionary) -> None:
    assert set(known.with_max_strength(8.0).max_strengths) == {8.0}
    assert set(coded().max_strengths) == {MAX_STRENGTH}
    with pytest.raises(OpsplitError, match="6 operators but 2 of 'max_strengths'"):
        replace(known, max_strengths=np.ones(2))


# Pruning


def polynomial_with_weights(weights: list[list[float]]) -> OperatorDictionary:
    """Operators of `1, u, u^2` with these weights and some diffusion."""
    family = Spectral(1, 1, 0.01, Symbol(0), Polynomial(2))
    linear = torch.tensor([[0.0, 0.3, 0.0, 0.5, 0.0]]).expand(len(weights), 5)
    codes = torch.cat([linear, torch.tensor(weights)], 1)
    return OperatorDictionary(
        (Part(family, codes),), {"k": np.arange(len(weights), dtype=float)}, terms={"k": Term("u")}
    ).with_max_strength(7.0)


def test_pruning_keeps_large_weights_and_makes_small_ones_exactly_zero(tmp_path: Path) -> None:
    full = polynomial_with_weights([[0.001, -0.02, 0.5], [0.003, 0.004, -0.002]])
    pruned = full.pruned(0.01)
    weights = pruned.parts[0].parameters()[:, -3:]
    torch.testing.assert_close(weights, torch.tensor([[0, -0.02, 0.5], [0, 0, 0]]))
    assert pruned.terms == full.terms and set(pruned.max_strengths) == {7.0}
    assert pruned.provenance == full.provenance
    pruned.save(tmp_path)
    loaded = OperatorDictionary.load(tmp_path)
    assert torch.equal(loaded.parts[0].parameters(), pruned.parts[0].parameters())
    assert not loaded.parts[0].parameters()[1, -3:].any()


def test_operators_with_zero_weights_flow_exactly_as_linear_ones() -> None:
    """One step of any length, where the others need many; alone and beside others."""
    pruned = polynomial_with_weights([[0.0, -0.02, 0.5], [0.003, 0.004, -0.002]]).pruned(0.01)
    linear = Spectral(1, 1, None, Symbol(0))
    plain = OperatorDictionary((Part(linear, pruned.parts[0].codes[:, :5]),))
    for h in (0.004, 0.1):
        assert torch.equal(flow_of(pruned, 1, h=h), flow_of(plain, 1, h=h))
        assert not torch.equal(flow_of(pruned, 0, h=h), flow_of(plain, 0, h=h))
        both = FIELDS.expand(2, -1, -1, -1)
        together = pruned.prepare(GRID, both).flow(torch.tensor([0, 1]), both, h)
        assert torch.equal(together[1:], flow_of(plain, 1, h=h))


@pytest.mark.parametrize("kind", ["gated", "flux", "unet", "nested", "linear symbol"])
def test_operators_without_such_weights_keep_their_codes(kind: str) -> None:
    """A search may still move codes that pruning has nothing to do with."""
    held = of_family(KINDS[kind], decoder=True)
    pruned = held.pruned(0.1)
    assert pruned.parts[0] is held.parts[0]


def test_pruned_operators_are_parameters_inside_wrappers_too() -> None:
    inner = Spectral(1, 1, 0.1, Symbol(2), Polynomial(2, mixing=tuple(np.eye(3).flatten())))
    held = of_family(Homogeneous(Conserving(inner), "learned"), decoder=True)
    pruned = held.pruned(1e-12)
    assert pruned.parts[0].decoder is None
    assert pruned.parts[0].codes.shape == (2, held.parts[0].family.n_parameters)
    torch.testing.assert_close(flow_of(pruned, 1), flow_of(held, 1))
    assert not pruned.pruned(100.0).parts[0].codes[:, -4:-1].any()
