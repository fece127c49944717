"""What a search hands back: a table with an arrow, CSV and JSON that parse."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.grid import Grid
from opsplit.operators import UserFunction
from opsplit.search import Beam, Composition, Objective, SearchResult, Uniform

Observe = Callable[..., tuple[Tensor, Grid, float]]
Build = Callable[..., OperatorDictionary]


@pytest.fixture(params=["beam", "uniform"])
def result(request: pytest.FixtureRequest, observe: Observe, exact: Build) -> SearchResult:
    """A search among good operators and one that diverges."""
    bad = UserFunction(1, 1, step=lambda u, h: u * torch.nan)
    dictionary = exact([0.5, 0.2, 0.1], [0.3, 0.1]).add(bad)
    search = {"beam": Beam(max_parts=4), "uniform": Uniform(40)}[request.param]
    return search.run(Objective(dictionary, *observe(0.5, 0.3)))


def strict(text: str) -> dict:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    held = json.loads(text, parse_constant=refuse)
    assert isinstance(held, dict)
    return held


def test_the_table_has_one_row_per_length_and_an_arrow_at_the_pick(result: SearchResult) -> None:
    rows = result.rows()
    lengths = [row["parts"] for row in rows]
    assert lengths == sorted({len(c) for c in result.ranked})
    (arrow,) = [row for row in rows if row["pick"]]
    assert arrow["pick"] == ">>>>"
    assert arrow["parts"] == len(result.pick)
    assert arrow["composition"] == result.pick.label
    for row in rows:
        same = [c.fit_error for c in result.ranked if len(c) == row["parts"]]
        assert row["fit_error"] == min(same)
        assert {"c", "D"} <= row.keys()


def test_the_printed_table_holds_header_rows_and_cost(result: SearchResult) -> None:
    lines = str(result).splitlines()
    assert lines[0].split() == ["pick", "parts", "fit_error", "c", "D", "composition"]
    assert len(lines) == len(result.rows()) + 2
    assert sum(line.startswith(">>>>") for line in lines) == 1
    assert f"{result.cost.evaluations:,} operator evaluations" in lines[-1]


def test_compositions_are_ranked_by_their_error(result: SearchResult) -> None:
    errors = [c.fit_error for c in result.ranked]
    assert errors == sorted(errors)
    assert result.pick.operators in [c.operators for c in result.ranked]


def test_the_csv_holds_every_ranked_composition(result: SearchResult, tmp_path: Path) -> None:
    result.save(tmp_path / "deep")
    rows = list(csv.DictReader((tmp_path / "deep" / "search.csv").open()))
    assert len(rows) == len(result.ranked)
    assert [int(row["rank"]) for row in rows] == list(range(1, len(rows) + 1))
    for row, c in zip(rows, result.ranked, strict=True):
        assert tuple(map(int, row["operators"].split())) == c.operators
        assert float(row["fit_error"]) == c.fit_error
        assert float(row["c"]) == c.coefficients["c"]
        assert row["composition"] == c.label
        assert int(row["parts"]) == len(c)
    (picked,) = [row for row in rows if row["pick"] == "1"]
    assert tuple(map(int, picked["operators"].split())) == result.pick.operators


def test_the_json_is_the_result(result: SearchResult, tmp_path: Path) -> None:
    result.save(tmp_path)
    held = strict((tmp_path / "search.json").read_text())
    assert tuple(held["pick"]["operators"]) == result.pick.operators
    assert held["pick"]["fit_error"] == result.pick.fit_error
    assert held["pick"]["coefficients"] == dict(result.pick.coefficients)
    assert len(held["ranked"]) == len(result.ranked)
    assert held["cost"]["flows"] == result.cost.flows
    assert held["strategy"] == result.strategy and held["status"] == result.status


def test_a_result_without_a_finite_error_is_still_json(
    observe: Observe, exact: Build, tmp_path: Path
) -> None:
    bad = exact([0.5], []).select([]).add(UserFunction(1, 1, step=lambda u, h: u * torch.nan))
    for search in (Beam(), Uniform(3)):
        search.run(Objective(bad, *observe(0.5, 0.3))).save(tmp_path)
        assert strict((tmp_path / "search.json").read_text())["pick"]["fit_error"] is None


def test_coefficients_are_the_weighted_sum_of_the_parts(exact: Build) -> None:
    dictionary = exact([0.5, 0.2], [0.3])
    plain = Composition.of(dictionary, (2, 0, 1), 0.1)
    assert plain.coefficients == pytest.approx({"c": 0.7, "D": 0.3})
    assert plain.strengths == (1.0, 1.0, 1.0)
    assert plain.label == "[D=0.3] + [c=0.5] + [c=0.2]"
    assert len(plain) == 3
    scaled = Composition.of(dictionary, (0, 2), 0.1, (2.0, 0.5))
    assert scaled.coefficients == pytest.approx({"c": 1.0, "D": 0.15})
    assert scaled.label == "2 [c=0.5] + 0.5 [D=0.3]"


def test_operators_without_coefficients_are_named_by_their_place() -> None:
    nameless = OperatorDictionary.analytic(1, 1, [{"diffusion": 1.0}] * 2)
    found = Composition.of(nameless, (1, 0), 0.5)
    assert found.label == "[#1] + [#0]"
    assert found.coefficients == {}
    assert not np.isnan(found.fit_error)
