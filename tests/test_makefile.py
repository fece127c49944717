"""Every command of `make results` is understood by the program that it names."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsplit.cli import parse

ROOT = Path(__file__).parents[1]
SIBLINGS = ("coarse_data", "common", "report", "settings")
"""Modules that lie beside a script and whose names other scripts use too."""


def commands() -> list[list[str]]:
    """The commands of the target `results`, with its variables filled in."""
    text = (ROOT / "Makefile").read_text()
    variables = dict(re.findall(r"^(\w+) :?= (.*)$", text, re.M))
    lines = text.split("\nresults:")[1].split("\n\n")[0].splitlines()[1:]
    found = [re.sub(r"\$\((\w+)\)", lambda m: variables[m[1]], line) for line in lines]
    return [shlex.split(line) for line in found if "benchmark" in line or "opsplit " in line]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    held = {name: sys.modules.pop(name) for name in SIBLINGS if name in sys.modules}
    yield monkeypatch
    for name in SIBLINGS:
        sys.modules.pop(name, None)
    sys.modules.update(held)


def test_the_target_has_all_parts_of_the_study() -> None:
    named = {part for words in commands() for part in words}
    studies = {"benchmarks/baselines", "benchmarks/paper_study", "benchmarks/search_study"}
    assert studies <= named
    assert {"splitting", "robustness", "wallclock", "scaling", "benchmark", "figures"} <= named


@pytest.mark.parametrize("study", ["baselines", "paper_study", "search_study"])
def test_the_scripts_understand_their_commands(study: str, alone: pytest.MonkeyPatch) -> None:
    script = ROOT / "benchmarks" / study
    alone.syspath_prepend(str(script))
    parser = runpy.run_path(str(script / "__main__.py"), run_name="study")["parser"]()
    mine = [words for words in commands() if f"benchmarks/{study}" in words]
    assert mine
    for words in mine:
        parser.parse_args(words[words.index(f"benchmarks/{study}") + 1 :])


def test_opsplit_understands_its_commands() -> None:
    mine = [words for words in commands() if words[0].endswith("/opsplit")]
    assert mine
    for words in mine:
        parse(words[1:])
