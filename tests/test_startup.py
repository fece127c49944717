"""Start-up: a forecast imports what it uses, and one command is one import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opsplit import cli
from opsplit.commands.common import Common

HEAVY = (
    "torch._dynamo",
    "torch.utils.flop_counter",
    "sympy",
    "h5py",
    "xarray",
    "pandas",
    "scipy",
    "lightning_fabric",
    "matplotlib.pyplot",
    "opsplit.commands.pretrain",
    "opsplit.benchmark",
)


def python(code: str, *arguments: str) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_forecast_imports_nothing_heavy_that_it_does_not_use(tmp_path: Path) -> None:
    x = np.arange(64) * 2 * np.pi / 64
    frames = np.stack([np.sin(x - 0.05 * i) + np.cos(2 * x - 0.1 * i) for i in range(6)])
    np.save(tmp_path / "frames.npy", frames)
    code = (
        "import gc, sys; from opsplit.cli import main; main(sys.argv[1:]);"
        f"print('imported', *(m for m in {HEAVY} if m in sys.modules));"
        "print('collecting', gc.isenabled(), gc.get_freeze_count() > 100_000)"
    )
    file, out = str(tmp_path / "frames.npy"), tmp_path / "out"
    said = python(code, "predict", file, "--dt", "0.1", "--steps", "3", "--out", str(out))
    assert (out / "forecast.png").exists()
    assert said.splitlines()[-2:] == ["imported", "collecting True True"]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_found_by_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert issubclass(cli.command_class(name), Common)
    with pytest.raises(SystemExit, match="0"):
        cli.parse([name, "--help"])
    assert f"usage: opsplit {name} " in capsys.readouterr().out


def test_an_unknown_command_is_answered_with_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.parse(["predcit"])
    assert "predict" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        cli.parse(["--help"])
    page = capsys.readouterr().out
    assert all(name in page for name in cli.COMMANDS)
