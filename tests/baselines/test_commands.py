"""Baselines on the command line and in the tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import pytest
import torch
from torch import Tensor, nn

from opsplit.baselines import TRAINED
from opsplit.baselines.protocol import Baseline, Fitting, Network, relative
from opsplit.baselines.windows import Windows
from opsplit.benchmark.run import Cell, Runner
from opsplit.benchmark.tasks import COLUMNS
from opsplit.cli import main
from opsplit.pretrain.config import Budget
from opsplit.pretrain.sources import Facts


@dataclass(frozen=True)
class Damping(Baseline):
    """A toy: the next frame is the last one times a number."""

    kind = "damping"
    start: float = 1.0

    @classmethod
    def preset(cls, name: Literal["paper", "cpu", "tiny"], ndim: int) -> tuple[Self, Fitting]:
        return cls(), Fitting(Budget(steps=5, validate_every=5), batch=2, learning_rate=0.1)

    def build(self, facts: Facts) -> DampingNetwork:
        return DampingNetwork(self.start)


class DampingNetwork(Network):
    def __init__(self, start: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(start))

    def loss(self, windows: Windows, stage: str) -> Tensor:
        return relative(self.factor * windows.frames[:, -2], windows.frames[:, -1])

    def forecast(self, observed: Tensor, horizon: int) -> Tensor:
        return torch.stack([self.factor**k * observed[:, -1] for k in range(1, horizon + 1)], 1)


@pytest.fixture
def damping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A toy baseline in the registry, trained by the command into the usual folder."""
    for name in ("_own", "_loaded"):
        monkeypatch.setattr(TRAINED, name, dict(getattr(TRAINED, name)))
    TRAINED.add("damping", Damping)
    monkeypatch.chdir(tmp_path)
    words = "pretrain advection-diffusion --method damping --model.start 0.9 --threads 1 --json"
    main(words.split())
    return tmp_path


def test_a_trained_baseline_has_a_row_like_any_other_method(
    damping: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = damping / "runs" / "baselines" / "advection-diffusion" / "damping"
    assert json.loads((run / "metrics.json").read_text())["steps"] == 5
    words = "benchmark advection-diffusion --method persistence,damping --column c --n 3"
    main([*words.split(), "--cache", "rows", "--out", "tables", "--json"])
    still, found = json.loads(capsys.readouterr().out)
    assert (still["method"], found["method"], found["n"]) == ("persistence", "damping", 3)
    assert found["training_minutes"] > 0 and found["training_command"]
    assert found["errors"].keys() == still["errors"].keys()


def test_rows_outlive_the_weights_and_a_new_training_is_measured_anew(damping: Path) -> None:
    rows, runs = damping / "rows", damping / "runs" / "baselines"
    cell = Cell("advection-diffusion", "c", "damping", None, 2)
    first = Runner(rows).record(cell)
    gone = Runner(rows, baselines=damping / "nowhere")
    assert first is not None and gone.record(cell) == first
    words = "pretrain advection-diffusion --method damping --model.start 0.5 --threads 1 --json"
    main([*words.split(), "--out", str(damping / "other" / "advection-diffusion" / "damping")])
    other = Runner(rows, baselines=damping / "other").record(cell)
    assert other is not None and other["nrmse"] != first["nrmse"]
    assert Runner(rows, baselines=runs).record(cell) == first


def test_a_method_without_weights_or_rows_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "benchmark advection-diffusion --method fno --column c --n 1"
    with pytest.raises(SystemExit):
        main([*words.split(), "--cache", str(tmp_path), "--out", str(tmp_path / "t"),
              "--baselines", str(tmp_path / "none")])  # fmt: skip
    said = capsys.readouterr().err
    assert "run `opsplit pretrain advection-diffusion --method fno` first" in said


def test_every_published_number_of_a_baseline_is_there() -> None:
    columns = [c for named in COLUMNS.values() for c in named.values()]
    assert len(columns) == 11
    for column in columns:
        assert {"fno", "mpp", "geps", "zebra", "disco"} <= column.published.keys()
        assert column.published["disco"] == column.published["direct"]


@pytest.mark.parametrize("flag", ["--recipe x", "--config x.toml", "--processes 2"])
def test_flags_that_a_baseline_does_not_have_are_refused(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = f"pretrain advection-diffusion --method fno --preset tiny --out {tmp_path} {flag}"
    with pytest.raises(SystemExit):
        main(words.split())
    assert flag.split()[0] in capsys.readouterr().err


def test_an_unknown_method_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["pretrain", "advection-diffusion", "--method", "oracle"])
    assert "choose from fno, mpp, geps, zebra, disco" in capsys.readouterr().err
