"""Pursuit: beam search without strengths, planted strengths recovered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import Linear, UserFunction
from opsplit.search import Beam, Objective, Pursuit, get_search

Observe = Callable[..., tuple[Tensor, Grid, float]]
Build = Callable[..., OperatorDictionary]
Smooth = Callable[..., Tensor]
Plant = Callable[..., tuple[Tensor, Grid, float]]
NEVER = -1e9  # a threshold that never stops
FEW = settings(max_examples=10)
GRID, DT = Grid((32,), (16.0,)), 10 / 99
TERMS = {"c": "advection", "D": "diffusion", "r": "reaction", "g": "dispersion"}
RANGES = {"c": (0.1, 1.5), "D": (0.05, 1.0), "r": (-1.0, -0.1), "g": (0.02, 0.3)}


@pytest.fixture(scope="module")
def plant(smooth: Smooth) -> Plant:
    """A window of the exact solution with these coefficients, and noise if it is asked for."""

    def solve(
        truth: dict[str, float], frames: int = 12, seed: int = 0, noise: float = 0.0
    ) -> tuple[Tensor, Grid, float]:
        family = Linear(1, 1)
        terms: dict[str, Any] = {TERMS[name]: value for name, value in truth.items()}
        prepared = family.prepare(family.parameters(**terms), GRID)
        start = smooth(GRID, (1, 1, 1), seed=seed)
        u = torch.cat([family.flow(prepared, start, DT * i)[0] for i in range(frames)])
        random = torch.randn(u.shape, generator=torch.Generator().manual_seed(seed)).double()
        return u + noise * u.std() * random, GRID, DT

    return solve


def mechanisms(**values: list[float]) -> OperatorDictionary:
    """Exact operators of one mechanism each, with their coefficients."""
    pairs = [(name, v) for name, row in values.items() for v in row]
    known = {name: [v if n == name else 0.0 for n, v in pairs] for name in TERMS}
    return OperatorDictionary.analytic(1, 1, [{TERMS[n]: v} for n, v in pairs], known)


def shuffled(dictionary: OperatorDictionary, order: list[int]) -> OperatorDictionary:
    """The operators in any order, whatever their families."""
    first, *rest = (dictionary.select([i]) for i in order)
    for one in rest:
        first = first.merge(one)
    return first


TOOLS = mechanisms(c=[0.1, 0.6, 1.0], D=[0.05, 0.4, 1.0], r=[-0.3, -1.0], g=[0.02, 0.1])


# Without strengths it is beam search


def as_beam(width: int, max_parts: int, threshold: float) -> Pursuit:
    return Pursuit(
        max_parts=max_parts,
        threshold=threshold,
        tolerance=0.0,
        refine="none",
        width=width,
        survivors=None,
        rerank=False,
    )


@FEW
@given(
    seed=st.integers(0, 99),
    width=st.integers(1, 6),
    max_parts=st.integers(1, 4),
    threshold=st.sampled_from([0.0, 0.05, 0.3, NEVER]),
)
def test_without_strengths_it_is_beam_search_on_flows_that_commute(
    observe: Observe, seed: int, width: int, max_parts: int, threshold: float
) -> None:
    draw = torch.rand(7, generator=torch.Generator().manual_seed(seed)).tolist()
    dictionary = mechanisms(c=draw[:3], D=draw[3:5], r=[-draw[5]], g=[0.1 * draw[6]])
    objective = Objective(dictionary, *observe(0.5, 0.3, frames=5, seed=seed))
    beam = Beam(width, max_parts, threshold).run(objective)
    found = as_beam(width, max_parts, threshold).run(objective)
    assert set(found.pick.operators) == set(beam.pick.operators)
    assert found.pick.strengths == (1.0,) * len(found.pick)
    assert found.pick.fit_error == pytest.approx(beam.pick.fit_error, rel=1e-9, abs=1e-13)
    assert found.status == beam.status


@FEW
@given(seed=st.integers(0, 99), width=st.integers(1, 6))
@example(seed=44, width=3)
@example(seed=28, width=6)
def test_without_strengths_it_is_beam_search_on_flows_that_do_not_commute(
    observe: Observe, mixed: Build, seed: int, width: int
) -> None:
    objective = Objective(mixed(seed), *observe(0.5, 0.3, frames=5, seed=seed))
    beam = Beam(width, 4, 0.05).run(objective)
    found = as_beam(width, 4, 0.05).run(objective)
    assert set(found.pick.operators) == set(beam.pick.operators)
    assert found.pick.fit_error == pytest.approx(beam.pick.fit_error, rel=1e-9)


def test_without_strengths_an_operator_without_effect_explains_a_window_at_rest() -> None:
    objective = Objective(mechanisms(r=[-1.0], c=[0.5]), torch.ones(5, 1, 32).double(), GRID, DT)
    beam, found = (s.run(objective) for s in (Beam(), as_beam(4, 5, 0.05)))
    assert beam.pick.operators == found.pick.operators == (1,)
    assert found.pick.fit_error == 0


# Planted strengths are recovered


def test_two_mechanisms_that_nearly_cancel_do_not_stop_the_search(plant: Plant) -> None:
    truth = {"c": 0.375, "D": 0.5, "g": 0.1875}
    found = Pursuit().run(Objective(TOOLS, *plant(truth, seed=0)))
    assert found.pick.coefficients == pytest.approx({"r": 0.0} | truth, abs=1e-3)


@given(data=st.data(), seed=st.integers(0, 999))
def test_planted_compositions_and_strengths_are_recovered(
    plant: Plant, data: st.DataObject, seed: int
) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(TERMS)), min_size=1, unique=True))
    truth = {name: data.draw(st.floats(*RANGES[name]), name) for name in names}
    found = Pursuit().run(Objective(TOOLS, *plant(truth, seed=seed)))
    everything = dict.fromkeys(TERMS, 0.0) | truth
    assert len(found.pick) == len(truth)
    assert found.pick.fit_error < 2e-5
    assert found.pick.coefficients == pytest.approx(everything, abs=1e-3)
    assert found.identified == pytest.approx(everything, abs=1e-3)


@pytest.mark.parametrize("strides", [(1,), (4,), (0,), (2, 3), (1, 4, 0), (1, 99)])
def test_all_strides_recover_the_same_strengths(strides: tuple[int, ...], plant: Plant) -> None:
    truth = {"c": 0.83, "D": 0.21, "g": 0.07}
    dictionary = mechanisms(c=[0.5], D=[0.1], r=[-0.5], g=[0.1])
    found = Pursuit(strides=strides).run(Objective(dictionary, *plant(truth)))
    assert found.identified == pytest.approx(truth | {"r": 0.0}, abs=1e-3)


@pytest.mark.parametrize("frames", [2, 3, 5])
def test_the_last_frames_are_enough_for_the_algebra(frames: int, plant: Plant) -> None:
    dictionary = mechanisms(c=[0.5], D=[0.1], r=[-0.5])
    search = Pursuit(screen_frames=frames)
    found = search.run(Objective(dictionary, *plant({"c": 0.83, "D": 0.21})))
    assert found.pick.coefficients == pytest.approx(
        {"c": 0.83, "D": 0.21, "r": 0, "g": 0}, abs=0.01
    )


def test_two_frames_are_a_window(plant: Plant) -> None:
    dictionary = mechanisms(c=[0.5], D=[0.1])
    found = Pursuit().run(Objective(dictionary, *plant({"c": 0.4, "D": 0.05}, frames=2)))
    assert found.pick.coefficients["c"] == pytest.approx(0.4, abs=2e-3)
    assert found.pick.coefficients["D"] == pytest.approx(0.05, abs=2e-3)


def test_duplicates_share_one_part(plant: Plant) -> None:
    dictionary = mechanisms(c=[0.5] * 4, D=[0.1] * 4)
    found = Pursuit().run(Objective(dictionary, *plant({"c": 0.8, "D": 0.3})))
    assert len(found.pick) == 2
    assert found.identified == pytest.approx({"c": 0.8, "D": 0.3, "r": 0, "g": 0}, abs=1e-3)


def test_a_window_of_zeros_is_explained_by_anything() -> None:
    found = Pursuit().run(Objective(TOOLS, torch.zeros(6, 1, 32).double(), GRID, DT))
    assert found.pick.fit_error == 0
    assert len(found.pick) == 1
    assert all(value == value for value in found.identified.values())


@given(seed=st.integers(0, 99), frames=st.integers(2, 9))
def test_a_steady_state_has_no_dynamics(smooth: Smooth, seed: int, frames: int) -> None:
    window = smooth(GRID, (1, 1), seed=seed).expand(frames, 1, 32)
    found = Pursuit().run(Objective(TOOLS, window, GRID, DT))
    assert found.pick.fit_error < 1e-12
    assert found.identified == pytest.approx(dict.fromkeys(TERMS, 0.0), abs=1e-9)


# What holds on any window


@given(
    seed=st.integers(0, 99),
    most=st.sampled_from([0.2, 1.0, 4.0]),
    noise=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_strengths_stay_within_their_bounds(
    plant: Plant, mixed: Build, seed: int, most: float, noise: float
) -> None:
    window = plant({"c": 0.9, "D": 0.4}, frames=5, seed=seed, noise=noise)
    found = Pursuit(max_strength=most, max_parts=3).run(Objective(mixed(seed), *window))
    for composition in (found.pick, *found.ranked):
        assert all(0 <= s <= most for s in composition.strengths)
        assert len(set(composition.operators)) == len(composition)


@FEW
@given(seed=st.integers(0, 99), noise=st.sampled_from([0.02, 0.3]))
@example(seed=1, noise=0.02)
@example(seed=8, noise=0.02)
def test_every_error_is_that_of_its_own_strengths(plant: Plant, seed: int, noise: float) -> None:
    window = plant({"c": 0.5, "D": 0.3, "r": -0.4}, frames=9, seed=seed, noise=noise)
    objective = Objective(TOOLS, *window)
    for c in Pursuit().run(objective).ranked:
        sets, strengths = torch.tensor([c.operators]), torch.tensor([c.strengths])
        error = float(objective.score(sets, strengths.double()))
        assert c.fit_error == pytest.approx(error, rel=1e-6, abs=1e-10)


@given(
    seed=st.integers(0, 99),
    noise=st.sampled_from([0.0, 0.02, 0.3]),
    threshold=st.sampled_from([0.0, 0.05, 0.3]),
)
def test_an_accepted_part_never_worsens_the_fit(
    plant: Plant, mixed: Build, seed: int, noise: float, threshold: float
) -> None:
    window = plant({"c": 0.9, "D": 0.4}, frames=5, seed=seed, noise=noise)
    search = Pursuit(threshold=threshold, rerank=False, tolerance=0)
    found = search.run(Objective(mixed(seed), *window))
    accepted = [row["fit_error"] for row in found.rows() if row["parts"] <= len(found.pick)]
    assert len(accepted) == len(found.pick)
    assert all(after <= (1 - threshold) * before for before, after in pairwise(accepted))


@given(seed=st.integers(0, 99), refine=st.sampled_from(["none", "strengths"]))
def test_one_more_operator_never_worsens_an_exhaustive_search(
    plant: Plant, mixed: Build, seed: int, refine: Any
) -> None:
    window = plant({"c": 0.9, "D": 0.4}, frames=5, seed=seed, noise=0.1)
    search = Pursuit(
        max_parts=2,
        threshold=0,
        tolerance=0,
        refine=refine,
        width=99,
        survivors=None,
        iterations=0,
        rerank=False,
    )
    draw = torch.rand(7, generator=torch.Generator().manual_seed(seed)).tolist()
    many = mechanisms(c=draw[:2], D=draw[2:4], r=[-draw[4]], g=[0.1 * draw[5], 0.1 * draw[6]])
    errors = [
        search.run(Objective(many.select(range(n)), *window)).pick.fit_error for n in range(1, 8)
    ]
    assert all(b <= a * (1 + 1e-9) for a, b in pairwise(errors))


@FEW
@given(seed=st.integers(0, 99), extra=st.floats(0.05, 1.0))
def test_one_more_operator_does_not_hide_an_exact_explanation(
    plant: Plant, seed: int, extra: float
) -> None:
    window = plant({"c": 0.8, "D": 0.3}, frames=8, seed=seed)
    for name in TERMS:
        value = -extra if name == "r" else 0.3 * extra if name == "g" else extra
        more = mechanisms(c=[0.5], D=[0.1]).merge(mechanisms(**{name: [value]}))
        assert Pursuit(width=len(more)).run(Objective(more, *window)).pick.fit_error < 2e-5


@FEW
@given(seed=st.integers(0, 99), order=st.permutations(range(6)))
def test_the_order_of_the_dictionary_changes_nothing_but_positions(
    plant: Plant, mixed: Build, seed: int, order: list[int]
) -> None:
    dictionary = mixed(seed)
    window = plant({"c": 0.9, "D": 0.4}, frames=5, seed=seed, noise=0.1)
    found = Pursuit(max_parts=3).run(Objective(dictionary, *window))
    turned = Pursuit(max_parts=3).run(Objective(shuffled(dictionary, order), *window))
    strengths = dict(zip(found.pick.operators, found.pick.strengths, strict=True))
    moved = dict(zip(turned.pick.operators, turned.pick.strengths, strict=True))
    # Rounding may turn the order within a composition, which splitting feels a little.
    assert {order[i] for i in moved} == set(strengths)
    assert {order[i]: s for i, s in moved.items()} == pytest.approx(strengths, rel=0.02, abs=1e-3)
    assert turned.pick.fit_error == pytest.approx(found.pick.fit_error, rel=0.01)
    assert turned.identified == pytest.approx(found.identified, rel=0.05, abs=1e-3)


# Operators that diverge


def broken(kind: str) -> UserFunction:
    steps: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "nan": lambda u, h: u * torch.nan,
        "infinite": lambda u, h: u / 0,
        "overflowing": lambda u, h: u * 1e300,
    }
    if kind in steps:
        return UserFunction(1, 1, step=steps[kind])
    return UserFunction(1, 1, f=lambda u: 1e9 * u**9)


@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("kind", ["nan", "infinite", "overflowing", "stiff"])
def test_operators_that_diverge_never_win(kind: str, count: int, plant: Plant) -> None:
    bad = TOOLS.select([]).add(broken(kind), torch.ones(count, 1, dtype=torch.float64))
    window = plant({"c": 0.8, "D": 0.3})
    for dictionary in (TOOLS.merge(bad), bad.merge(TOOLS)):
        found = Pursuit().run(Objective(dictionary, *window))
        assert found.pick.fit_error < 2e-5
        assert found.identified["c"] == pytest.approx(0.8, abs=1e-3)
        assert found.identified["D"] == pytest.approx(0.3, abs=1e-3)


@pytest.mark.parametrize("refine", ["none", "strengths"])
@pytest.mark.parametrize("kind", ["nan", "infinite"])
def test_a_dictionary_that_only_diverges_is_a_result_and_says_so(
    kind: str, refine: Any, plant: Plant
) -> None:
    bad = TOOLS.select([]).add(broken(kind), torch.ones(12, 1, dtype=torch.float64))
    found = Pursuit(refine=refine).run(Objective(bad, *plant({"c": 0.8})))
    assert found.pick.fit_error == float("inf")
    assert "no operator of the dictionary gave a finite prediction" in found.status


# Settings


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"refine": "all"}, "refine must be one of none, strengths, codes, got 'all'"),
        ({"max_strength": 0.0}, "max_strength must lie in .*, got 0"),
        ({"max_strength": float("nan")}, "max_strength must be a number"),
        ({"strides": ()}, "strides is empty"),
        ({"strides": (1, -1)}, "strides must lie in 0.*, got -1"),
        ({"screen_frames": 1}, "screen_frames must lie in 2.*, got 1"),
        ({"width": 0}, "width must lie in 1.*, got 0"),
        ({"max_parts": 0}, "max_parts must lie in 1.*, got 0"),
        ({"survivors": 0}, "survivors must lie in 1.*, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        replace(Pursuit(), **changes)


def test_it_is_found_by_its_name() -> None:
    assert get_search("pursuit") == Pursuit()


@pytest.mark.parametrize("most", [None, 2.0, 6.0])
def test_strengths_go_as_far_as_the_dictionary_says_if_not_told(
    plant: Plant, most: float | None
) -> None:
    """Five times a slow advection explains the window; the bound lets it, or not."""
    window = plant({"c": 0.5}, frames=6)
    dictionary = mechanisms(c=[0.1])
    for own in (3.0, 8.0):
        bounded = replace(dictionary, max_strengths=np.array([own]))
        found = Pursuit(max_strength=most).run(Objective(bounded, *window)).pick
        assert found.strengths[0] == pytest.approx(min(5.0, most or own), rel=1e-3)


def test_a_large_mean_hides_no_mechanism(plant: Plant) -> None:
    """Beside a mean of one everything is small; what a part leaves of the change is not."""
    u, grid, dt = plant({"c": 0.5, "D": 0.3})
    found = Pursuit().run(Objective(TOOLS, 1 + 2e-4 * u, grid, dt))
    assert found.identified["c"] == pytest.approx(0.5, rel=1e-3)
    assert found.identified["D"] == pytest.approx(0.3, rel=1e-3)
