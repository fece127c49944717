"""Searches by name: listed without torch, made with their defaults, written and read as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from opsplit.errors import OpsplitError
from opsplit.search import (
    SEARCHES,
    Beam,
    Objective,
    Pursuit,
    Strategy,
    Uniform,
    get_search,
    search_names,
)
from opsplit.search.strategy import Count, Record, Report, Tried


@dataclass(frozen=True)
class FirstOperator(Strategy):
    """Takes the first operator, whatever it does."""

    repeats: Count = 1

    kind = "first"

    def explore(self, objective: Objective, records: list[Record], report: Report) -> None:
        for record in records:
            record.pick = Tried((0,), 0.5)
            record.add(record.pick)
            record.status = "the first"


@pytest.fixture
def third_party() -> Iterator[None]:
    SEARCHES.add("first", FirstOperator)
    yield
    SEARCHES._own.pop("first")
    SEARCHES._loaded.pop("first")


def test_names_are_listed_without_torch() -> None:
    code = (
        "import sys; from opsplit.search import search_names; print(search_names());"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(search_names())


@pytest.mark.parametrize("name", ["pursuit", "beam", "uniform"])
def test_every_search_is_known_by_the_name_it_gives_to_results(name: str) -> None:
    assert name in search_names()
    assert get_search(name).name == name
    assert type(get_search(name)) is SEARCHES[name]


@pytest.mark.parametrize(
    "search",
    [Pursuit(strides=(1, 0), survivors=None), Beam(width=7, max_seconds=2.5), Uniform(9, seed=4)],
)
def test_settings_survive_json(search: Strategy) -> None:
    text = json.dumps(search.to_json())
    assert Strategy.from_json(json.loads(text)) == search


def test_a_search_of_another_package_is_one_class(third_party: None) -> None:
    assert "first" in search_names()
    assert get_search("first") == FirstOperator()
    with pytest.raises(OpsplitError, match="repeats must lie in 1"):
        FirstOperator(repeats=0)
    raw = {"kind": "first", "repeats": 3}
    assert Strategy.from_json(raw) == FirstOperator(repeats=3)
