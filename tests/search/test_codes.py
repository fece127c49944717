"""Moving the codes of picked operators: never worse, and nothing that was given changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.predict.estimator import OperatorSplitter
from opsplit.search import Objective, Pursuit, SearchResult

Observe = Callable[..., tuple[Tensor, Grid, float]]
Exact = Callable[..., OperatorDictionary]
SYSTEMS = [(0.5, 0.3, 0), (0.9, 0.05, 1), (1.5, 0.0, 2)]
CODES = Pursuit(refine="codes", max_parts=2, survivors=2)


@pytest.fixture(scope="module")
def few(tiny_model: Model) -> OperatorDictionary:
    """Some operators of a model, so that codes have something to add."""
    n = len(tiny_model.dictionary)
    return tiny_model.dictionary.select(list(range(0, n, max(1, n // 6)))[:6])


def both(
    dictionary: OperatorDictionary, window: Tensor, grid: Grid, dt: float
) -> list[SearchResult]:
    """What strengths alone find, and what codes add."""
    searches = (replace(CODES, refine="strengths"), CODES)
    return [s.run(Objective(dictionary, window.float(), grid, dt)) for s in searches]


@pytest.mark.parametrize(("c", "D", "seed"), SYSTEMS)
def test_codes_never_fit_worse_than_strengths(
    c: float, D: float, seed: int, few: OperatorDictionary, observe: Observe
) -> None:
    plain, refined = both(few, *observe(c, D, frames=5, points=64, seed=seed))
    assert refined.pick.fit_error <= plain.pick.fit_error
    assert refined.status.startswith(plain.status)


def test_codes_help_a_small_dictionary(few: OperatorDictionary, observe: Observe) -> None:
    plain, refined = both(few, *observe(0.5, 0.3, frames=5, points=64))
    assert refined.pick.fit_error < plain.pick.fit_error
    assert "codes refined from" in refined.status
    assert refined.cost.evaluations > plain.cost.evaluations


def test_the_refined_operators_live_in_the_results_dictionary(
    few: OperatorDictionary, observe: Observe
) -> None:
    window, grid, dt = observe(0.5, 0.3, frames=5, points=64)
    plain, refined = both(few, window, grid, dt)
    assert plain.dictionary is None
    own = refined.dictionary
    assert own is not None
    assert len(own) == len(few) + len(refined.pick)
    assert min(refined.pick.operators) == len(few)
    # The error is that of these operators with these strengths.
    objective = Objective(own, window.float(), grid, dt)
    strengths = torch.tensor([refined.pick.strengths], dtype=torch.float64)
    error = float(objective.score(torch.tensor([refined.pick.operators]), strengths))
    assert refined.pick.fit_error == pytest.approx(error, rel=1e-3)
    # An operator keeps the coefficients of the one it came from.
    for new, old in zip(refined.pick.operators, plain.pick.operators, strict=True):
        assert own.provenance[new] == f"refined from operator {old}"
        assert all(v[new] == few.coefficients[k][old] for k, v in own.coefficients.items())
    assert refined.identified == plain.identified


def test_weights_and_the_given_dictionary_stay(few: OperatorDictionary, observe: Observe) -> None:
    (part,) = few.parts
    assert part.decoder is not None
    weights = {name: t.clone() for name, t in part.decoder.state_dict().items()}
    codes, coefficients = part.codes.clone(), {k: v.copy() for k, v in few.coefficients.items()}
    window, grid, dt = observe(0.5, 0.3, frames=5, points=64)
    found = CODES.run(Objective(few, window.float(), grid, dt))
    assert found.dictionary is not None
    assert torch.equal(part.codes, codes)
    assert all(torch.equal(t, weights[name]) for name, t in part.decoder.state_dict().items())
    assert all(np.array_equal(v, coefficients[k]) for k, v in few.coefficients.items())
    assert len(few) == 6
    assert torch.equal(found.dictionary.parts[0].codes, codes)


@pytest.mark.parametrize("most", [0.3, 1.0])
def test_strengths_stay_within_their_bounds(
    most: float, few: OperatorDictionary, observe: Observe
) -> None:
    window, grid, dt = observe(1.5, 0.6, frames=5, points=64)
    found = replace(CODES, max_strength=most).run(Objective(few, window.float(), grid, dt))
    assert all(0 <= s <= most for s in found.pick.strengths)


def test_operators_without_a_code_are_left_as_they_are(exact: Exact, observe: Observe) -> None:
    dictionary = exact([0.2, 0.9], [0.1])
    found, plain = (
        Pursuit(refine=refine).run(Objective(dictionary, *observe(0.5, 0.3)))  # type: ignore[arg-type]
        for refine in ("codes", "strengths")
    )
    assert found.pick == plain.pick
    assert found.dictionary is None
    labels = ", ".join(f"[{dictionary.describe(i)}]" for i in found.pick.operators)
    assert found.status == f"{plain.status}; codes not refined: no decoder for {labels}"


def test_a_budget_ends_the_refinement_and_keeps_the_pick(
    few: OperatorDictionary, observe: Observe
) -> None:
    window, grid, dt = observe(0.5, 0.3, frames=5, points=64)
    plain, _ = both(few, window, grid, dt)
    search = replace(CODES, max_evaluations=plain.cost.evaluations)
    found = search.run(Objective(few, window.float(), grid, dt))
    assert found.pick.operators == plain.pick.operators
    assert found.dictionary is None


def test_several_windows_are_refined_each_for_itself(
    few: OperatorDictionary, observe: Observe
) -> None:
    windows = [observe(c, D, frames=4, points=64, seed=s)[0].float() for c, D, s in SYSTEMS[:2]]
    _, grid, dt = observe(0.5, 0.3, frames=4, points=64)
    together = CODES.run_all(Objective(few, torch.stack(windows), grid, dt))
    for found, window in zip(together, windows, strict=True):
        alone = CODES.run(Objective(few, window, grid, dt))
        assert found.pick.fit_error == pytest.approx(alone.pick.fit_error, rel=0.05)
        assert (found.dictionary is None) == (alone.dictionary is None)


def test_an_estimator_forecasts_with_refined_operators(
    tiny_model: Model, few: OperatorDictionary, observe: Observe
) -> None:
    u, _, dt = observe(0.5, 0.3, frames=10, points=64)
    splitter = OperatorSplitter(tiny_model, CODES).fit(u[:6], dt, dictionary=few)
    found = splitter.search_result_
    assert found.dictionary is not None
    own = splitter.search_result_.dictionary
    assert own is not None
    assert min(splitter.composition_.operators) == len(own) - len(splitter.composition_)
    forecast = splitter.predict(4)
    assert forecast.shape == (4, 1, 64)
    plain = OperatorSplitter(tiny_model, replace(CODES, refine="strengths"))
    plain.fit(u[:6], dt, dictionary=few)
    assert splitter.fit_error_ <= plain.fit_error_
    error, before = (float((s.predict(4) - u[6:]).norm()) for s in (splitter, plain))
    assert error < 2 * before
