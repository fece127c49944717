"""Results say which code made them, and nothing about the machine's folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opsplit import _files


def test_uncommitted_changes_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "src" / "opsplit"
    package.mkdir(parents=True)
    code = package / "_files.py"
    code.write_text("a = 1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(_files, "__file__", str(code))
    clean = _files.commit()
    assert len(clean) == 12
    code.write_text("a = 2")
    assert _files.commit() == f"{clean}+changes"


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
    assert _files.command_line() == shown
