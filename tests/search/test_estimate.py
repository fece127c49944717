"""One estimate: the table, the equation and the coefficients are the same numbers."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from opsplit import OperatorSplitter, Pursuit
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import no_warnings
from opsplit.grid import Grid
from opsplit.model import load_model
from opsplit.predict.compatibility import Code
from opsplit.search.estimate import Mechanisms, _rival
from opsplit.search.objective import Objective
from opsplit.search.screen import Screen

GRID, DT = Grid((64,), (16.0,)), 0.1
MODEL = load_model("advection-diffusion", "spectral")


def three(wrong: float = 1.0) -> OperatorDictionary:
    """Exact advection, diffusion and dispersion; one speed may be called by a wrong number."""
    values = [0.2, 0.5, 1.0]
    operators = [{word: v} for word in ("advection", "diffusion") for v in values]
    # With this sign, long waves move to the right as those of advection do.
    operators += [{"dispersion": -v} for v in values]
    known = {
        name: [v if i // 3 == place else 0.0 for i, v in enumerate(3 * values)]
        for place, name in enumerate(("c", "D", "g"))
    }
    known["c"][1] *= wrong
    return OperatorDictionary.analytic(1, 1, operators, known)


def moving(modes: tuple[int, ...], c: float = 0.7) -> torch.Tensor:
    t, x = torch.arange(10).double() * DT, torch.arange(64).double() / 4
    waves = [torch.sin(2 * np.pi * m * (x - c * t[:, None]) / 16 + m) / m for m in modes]
    return torch.stack(waves).sum(0)[:, None]


def test_a_single_wave_cannot_tell_advection_from_dispersion() -> None:
    search = Pursuit(max_parts=2)
    alone = search.run(Objective(three(), moving((2,)), GRID, DT))
    assert {frozenset(pair) for pair in alone.alike} == {frozenset(("c", "g"))}
    several = search.run(Objective(three(), moving((1, 2, 5)), GRID, DT))
    assert several.alike == ()
    assert several.identified["c"] == pytest.approx(0.7, rel=1e-3)


def test_a_wave_is_said_to_be_ambiguous() -> None:
    with no_warnings():
        found = OperatorSplitter(MODEL, Pursuit(max_parts=2)).fit(
            moving((2,)), DT, 16.0, dictionary=three()
        )
    (issue,) = [i for i in found.issues_ if i.code is Code.ALIKE]
    assert "act alike" in issue.text and found.coefficient_intervals_ == {}


@pytest.mark.parametrize("wrong", [1.0, 1.05, 3.0])
def test_the_table_the_equation_and_the_coefficients_agree(wrong: float) -> None:
    with no_warnings():
        found = OperatorSplitter(MODEL, Pursuit(max_parts=2)).fit(
            moving((1, 2, 5)), DT, 16.0, dictionary=three(wrong)
        )
    (row,) = [row for row in found.search_table_ if row["pick"]]
    assert {k: row[k] for k in found.coefficients_} == found.coefficients_
    assert found.composition_.coefficients == found.coefficients_
    assert f"{found.coefficients_['c']:.4g}" in found.equation_


def test_where_operators_disagree_the_pick_stands_and_the_spread_grows() -> None:
    search, u = Pursuit(max_parts=1), moving((1, 2, 5))
    sure, torn = (search.run(Objective(three(w), u, GRID, DT)) for w in (1.0, 3.0))
    (own,) = torn.pick.operators
    said = torn.pick.strengths[0] * three(3.0).coefficients["c"][own]
    assert torn.identified["c"] == pytest.approx(said, rel=1e-6)
    assert torn.spread["c"] > 0.1 > 1e-3 > sure.spread["c"]


def test_opposite_operators_never_join() -> None:
    both = three().merge(replace(three(), coefficients={"c": -three().coefficients["c"]}))
    table = Mechanisms.of(both.coefficients, len(both))
    apart = table.opposite(np.array([[0], [3]]))
    assert np.flatnonzero(apart[0]).tolist() == [9, 10, 11]
    assert not apart[1].any()


def test_a_mechanism_is_no_rival_of_itself() -> None:
    """Where no operator of another mechanism is possible, nothing acts alike."""
    known = Mechanisms(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), ("c", "D"))
    screen = cast(Screen, SimpleNamespace(mechanisms=known))
    assert _rival(screen, 1, [], np.array([5.0, 5.0, -np.inf])) is None
    assert _rival(screen, 1, [], np.array([5.0, 5.0, 4.99])) == 2
