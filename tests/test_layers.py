"""Layers and names: what a module may import, and which words it may know."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsplit.physics import PHYSICS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "opsplit"
MOST_LINES = 400


def lint_imports(package: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """The import contract of `config`, checked on the package in that folder."""
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", config],
        env=os.environ | {"PYTHONPATH": str(package)},
        cwd=package,
        capture_output=True,
        text=True,
    )


def test_modules_import_only_from_lower_layers() -> None:
    done = lint_imports(PACKAGE.parent, ROOT / "pyproject.toml")
    assert done.returncode == 0, done.stdout


def test_the_contract_names_every_module() -> None:
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = contract["contracts"]
    named = {name for layer in layers["layers"] for name in re.split(r"\s*[:|]\s*", layer)}
    found = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert named == found - {"__init__", *layers["exhaustive_ignores"]}


def test_a_module_that_looks_upwards_breaks_the_contract(tmp_path: Path) -> None:
    for path in PACKAGE.rglob("*.py"):
        copy = tmp_path / path.relative_to(PACKAGE.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text())
    grid = tmp_path / "opsplit" / "grid.py"
    grid.write_text(grid.read_text() + "\nfrom opsplit.search import Strategy\n")
    done = lint_imports(tmp_path, ROOT / "pyproject.toml")
    assert done.returncode == 1
    assert "opsplit.grid -> opsplit.search" in done.stdout


def equation_names() -> re.Pattern[str]:
    """Every spelling of the equations' names; one that is an English word counts if quoted."""
    words = []
    for name in PHYSICS:
        parts = name.split("-")
        words.append("[-_ ]?".join(parts) if len(parts) > 1 else rf"[\"'`]{name}\b")
    return re.compile("|".join(words), re.IGNORECASE)


def without_examples(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines, except the examples of docstrings and what they print."""
    example = False
    for i, line in enumerate(map(str.strip, text.splitlines()), 1):
        inside = example and line != "" and not line.endswith('"""')
        example = line.startswith(">>>") or inside
        if not example:
            yield i, line


def test_only_examples_and_what_they_print_are_left_out() -> None:
    text = 'a\n    >>> f(\n    ... 1)\n    2\n\n    b\n    >>> g()\n    3\n    """\nc\n'
    assert [line for _, line in without_examples(text)] == ["a", "", "b", '"""', "c"]


@pytest.mark.parametrize(
    "path",
    [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] not in ("physics", "zoo")
        and path != PACKAGE / "benchmark" / "tasks.py"
    ],
)
def test_no_module_knows_an_equation_by_name(path: str) -> None:
    pattern = equation_names()
    lines = without_examples((PACKAGE / path).read_text())
    found = [f"{path}:{i}: {line}" for i, line in lines if pattern.search(line)]
    assert not found, "\n".join(found)


def test_the_pattern_finds_every_spelling() -> None:
    pattern = equation_names()
    for name in PHYSICS:
        for word in (name, name.replace("-", "_"), name.upper()):
            assert pattern.search(f'model = "{word}"')
        assert "-" not in name or pattern.search(f"{name.replace('-', ' ')}: {name.title()}")


def test_files_are_short_enough_to_read() -> None:
    lengths = {p: p.read_text().count("\n") for p in PACKAGE.rglob("*.py")}
    long = {str(p.relative_to(PACKAGE)): n for p, n in lengths.items() if n > MOST_LINES}
    assert not long
