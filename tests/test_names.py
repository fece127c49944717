"""Equations are named in their own files, in their recipes and in the benchmark, nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opsplit.physics import PHYSICS

SOURCE = Path(__file__).parents[1] / "src" / "opsplit"
HOMES = ("physics/", "zoo/", "benchmark/tasks.py")
FILES = [
    file
    for file in sorted(SOURCE.rglob("*.py"))
    if not str(file.relative_to(SOURCE)).startswith(HOMES)
]
SPELLINGS = {
    word
    for name in PHYSICS
    for word in (name, name.replace("-", "_"), name.replace("-", " "), PHYSICS[name].__name__)
}
PATTERN = re.compile(rf"\b({'|'.join(sorted(map(re.escape, SPELLINGS)))})\b", re.IGNORECASE)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_no_equation_is_named(file: Path) -> None:
    lines = file.read_text().splitlines()
    named = [f"{i}: {line.strip()}" for i, line in enumerate(lines, 1) if PATTERN.search(line)]
    assert not named


def test_the_pattern_finds_every_spelling() -> None:
    for word in SPELLINGS:
        assert PATTERN.search(f'model = "{word.upper()}"')
