"""The study behind the tables of the paper's appendix: resumable, and its pages are its lines."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from opsplit.grid import Grid
from opsplit.physics import Combined

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
sys.path.insert(0, str(ROOT / "benchmarks" / "paper_study"))


def study(*words: str, cwd: Path = ROOT) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / "paper_study"), *words]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_page_is_written_from_its_lines(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    for file in (RESULTS / "paper").glob("*.jsonl"):
        shutil.copy(file, tmp_path / "paper")
    study("report", "--out", str(tmp_path / "paper"))
    assert (tmp_path / "paper.md").read_text() == (RESULTS / "paper.md").read_text()


def test_every_table_and_figure_of_the_paper_is_listed() -> None:
    text = (RESULTS / "index.md").read_text()
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| (Table|Figure)", line)]
    named = ", ".join(row[0] for row in rows)
    numbers = [int(x) for x in re.findall(r"\d+", named)]
    assert numbers == [*range(1, 10), *range(1, 18)]
    for row in rows:
        for place in re.findall(r"\]\(([^)#]+)", row[2]):
            assert (RESULTS / place).exists(), place


def test_stages_of_a_training_and_their_composition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import splitting

    monkeypatch.setattr(splitting, "LONG", 2)
    monkeypatch.setattr(splitting, "STATES", 4)
    monkeypatch.setattr(splitting, "PHYSICS", Combined(Grid((64,), (16.0,))))
    asked = argparse.Namespace(steps=10, n=2, seed=0, out=tmp_path)
    splitting.run(asked)
    before = (tmp_path / "splitting.jsonl").read_bytes()
    assert capsys.readouterr().out
    splitting.run(asked)
    assert capsys.readouterr().out == "", "the same again has nothing to do"
    assert (tmp_path / "splitting.jsonl").read_bytes() == before
    rows = [json.loads(line) for line in before.splitlines()]
    assert [row["item"]["step"] for row in rows] == [1, 3, 5, 7, 10]
    for row in rows:
        assert {"command", "seed", "commit", "hardware"} <= row.keys()
        # One step of a composition errs about as much as its worse part.
        worse = max(row["heat"], row["dispersion"])
        assert 0.2 * worse < row["next"] < 3 * worse


def test_the_exact_flows_have_only_the_error_of_the_splitting() -> None:
    """Heat and dispersion commute: composed exactly, they are the solution of both."""
    import torch
    from splitting import PHYSICS, TRUE, alone, fields

    u = fields(2, torch.Generator().manual_seed(0))
    both = PHYSICS.solve(
        u.double(), {k: torch.full((2,), v) for k, v in TRUE.items()}, torch.tensor([PHYSICS.dt])
    )[:, 0]
    assert torch.allclose(alone(alone(u, "beta"), "gamma").double(), both, atol=1e-5)


def test_fine_modes_and_the_parts_of_the_truth() -> None:
    import torch
    from flow import FINE, fine, true_parts

    from opsplit import load_model

    x = torch.arange(64, dtype=torch.float64) * 2 * torch.pi / 64
    slow, fast = torch.cos((FINE - 1) * x), torch.cos(FINE * x)
    assert torch.allclose(fine((slow + fast).expand(64, 64)), fast.expand(64, 64), atol=1e-12)
    dictionary = load_model("navier-stokes", "spectral").dictionary
    euler, heat = true_parts(load_model("navier-stokes", "spectral"), 1e-3)
    assert float(dictionary.coefficients["advection"][euler]) == 1
    assert float(dictionary.coefficients["nu"][heat]) == pytest.approx(1e-3, rel=0.2)
