"""Results say which code made them, and nothing about the machine's folders."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from opsplit import _origin


def test_uncommitted_changes_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "opsplit"
    package.mkdir(parents=True)
    code = package / "_origin.py"
    code.write_text("a = 1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(_origin, "__file__", str(code))
    clean = _origin.commit()
    assert len(clean) == 12
    code.write_text("a = 2")
    assert _origin.commit() == f"{clean}+changes"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["demo", "--out", "made"], "opsplit demo --out made"),
        (["demo", "--out", "/home/me/made", "--seed", "1"], "opsplit demo --seed 1"),
        (["demo", "--out"], "opsplit demo --out"),
    ],
)
def test_a_command_without_machine_paths(
    words: list[str], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["opsplit", *words])
    assert _origin.command_line() == shown


def test_the_command_of_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["benchmarks/any_data", "road", "--out", "/home/me/rows", "--n", "2"]
    monkeypatch.setattr(sys, "argv", words)
    made = _origin.origin(0, program="python benchmarks/any_data")
    assert made["command"] == "python benchmarks/any_data road --n 2"


def test_stored_results_name_no_folder_of_a_machine() -> None:
    root = Path(__file__).parents[1]
    kept = [*(root / "docs").rglob("*.md"), *(root / "docs" / "results").rglob("*.json*")]
    kept += (root / "benchmarks").rglob("*.json")
    folders = re.compile(r"(?<![\w.~])/(?:tmp|home|root|work|mnt|Users)/(?!me/|you/)\w")
    named = [str(p.relative_to(root)) for p in kept if folders.search(p.read_text())]
    assert not named
