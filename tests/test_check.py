"""`opsplit check`: good data pass, every kind of fault is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import opsplit
from opsplit.cli import main
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.check import Finding
from opsplit.trajectories import Trajectories

Cli = Callable[[str], str]


@pytest.fixture(scope="module")
def good() -> Trajectories:
    """One window of advection with diffusion, with its coefficients."""
    return AdvectionDiffusion().generate("A+D", 1, seed=5, frames=16)


@pytest.fixture
def checked(cli: Cli) -> Callable[..., tuple[int, dict[str, dict[str, str]]]]:
    """The exit code and every finding by its name."""

    def run(line: str, capsys: pytest.CaptureFixture[str]) -> Any:
        code = 0
        try:
            out = cli(f"check {line} --json")
        except SystemExit as end:
            code, out = int(str(end.code)), capsys.readouterr().out
        held = json.loads(out)
        assert held["faults"] == sum(f["verdict"] == "fault" for f in held["checks"])
        return code, {f["check"]: f for f in held["checks"]}

    return run


def test_good_data_pass(
    good: Trajectories, checked: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    good.save(tmp_path / "a.npz")
    code, found = checked("a.npz", capsys)
    assert code == 0 and {f["verdict"] for f in found.values()} == {"ok"}
    assert set(found) == {
        "constant dt", "finite", "missing frames", "steady steps", "boundary of x",
        "resolved spectrum", "mean of u", "coefficient c", "coefficient D",
    }  # fmt: skip
    assert "conserved" in found["mean of u"]["words"]


def test_a_wrong_coefficient_is_a_fault(
    good: Trajectories, checked: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    told = {"c": good.coefficients["c"], "D": 1.2 * good.coefficients["D"]}
    replace(good, coefficients=told).save(tmp_path / "a.npz")
    code, found = checked("a.npz", capsys)
    assert code == 1
    assert found["coefficient D"]["verdict"] == "fault"
    assert "do not obey" in found["coefficient D"]["words"]
    assert found["coefficient c"]["verdict"] == "ok"


def run(u: np.ndarray, path: Path, **more: Any) -> dict[str, Finding]:
    """Findings on an array without coefficients, which needs no fits."""
    np.savez(path / "a.npz", u=u, **more)
    return {f.check: f for f in opsplit.check(path / "a.npz")}


@pytest.fixture
def wave() -> np.ndarray:
    x, t = np.arange(64) / 4, np.arange(30) * 0.1
    return 1 + np.sin(np.pi * (x[None] - t[:, None]) / 4)


def test_holes(wave: np.ndarray, tmp_path: Path) -> None:
    wave[4, 5] = np.nan
    found = run(wave, tmp_path, dt=0.1)
    assert found["finite"].verdict == "fault"
    assert "(u 1), the first in frame 4 of trajectory 0" in found["finite"].words
    assert found["missing frames"].verdict == "ok"


def test_missing_frames(wave: np.ndarray, tmp_path: Path) -> None:
    wave[4] = np.nan
    found = run(wave, tmp_path, dt=0.1)
    assert found["finite"].verdict == "ok" and found["missing frames"].verdict == "warning"
    assert "1 frame(s) are all NaN, the first is frame 4" in found["missing frames"].words
    wave[:] = np.nan
    assert run(wave, tmp_path, dt=0.1)["missing frames"].verdict == "fault"


def test_a_dropped_frame(wave: np.ndarray, tmp_path: Path) -> None:
    cut = np.delete(wave, 10, 0)
    told = run(cut, tmp_path, t=np.delete(np.arange(30) * 0.1, 10))
    assert told["constant dt"].verdict == told["missing frames"].verdict == "warning"
    assert "leave out 1 frame(s), the first after frame 9" in told["missing frames"].words
    assert told["steady steps"].verdict == "ok"
    # The times do not say it, but the field leaps.
    silent = run(cut, tmp_path, dt=0.1)
    assert silent["constant dt"].verdict == silent["missing frames"].verdict == "ok"
    assert silent["steady steps"].verdict == "warning"
    assert "from frame 9 to 10 the field changes 2 times" in silent["steady steps"].words


def test_a_repeated_frame(wave: np.ndarray, tmp_path: Path) -> None:
    found = run(np.insert(wave, 10, wave[10], 0), tmp_path, dt=0.1)
    assert found["steady steps"].verdict == "warning" and "repeat" in found["steady steps"].words


def test_irregular_and_unknown_times(wave: np.ndarray, tmp_path: Path) -> None:
    times = np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 30))
    assert run(wave, tmp_path, t=times)["constant dt"].verdict == "warning"
    assert "add --dt" in run(wave, tmp_path)["constant dt"].words


def test_ends(tmp_path: Path) -> None:
    ramp = np.exp(np.linspace(0, 2, 64)) * np.ones((9, 1))
    guessed = run(ramp, tmp_path, dt=0.1)["boundary of x"]
    assert guessed.verdict == "warning" and "not periodic" in guessed.words
    recording = opsplit.read(ramp, dt=0.1, boundary="periodic")
    told = {f.check: f for f in opsplit.check(recording)}["boundary of x"]
    assert told.verdict == "fault" and "said to be periodic" in told.words
    recording = opsplit.read(ramp, dt=0.1, boundary="insulated")
    told = {f.check: f for f in opsplit.check(recording)}["boundary of x"]
    assert told.verdict == "warning" and "said to be neumann, but at a wall" in told.words
    even = np.cos(np.linspace(0, np.pi, 64)) * np.ones((9, 1))
    recording = opsplit.read(even, dt=0.1, boundary="insulated")
    assert {f.check: f for f in opsplit.check(recording)}["boundary of x"].verdict == "ok"


def test_a_rod_between_fixed_values_is_not_called_periodic(tmp_path: Path) -> None:
    x = np.linspace(0, np.pi, 65)
    rod = np.exp(-0.01 * np.arange(9))[:, None] * np.sin(x) + 0.3 * np.sin(3 * x)
    guessed = run(rod, tmp_path, dt=0.1)["boundary of x"]
    assert guessed.verdict == "warning" and "look like dirichlet ends" in guessed.words
    warm = run(300 + rod, tmp_path, dt=0.1)["boundary of x"]
    assert "look like dirichlet=300 ends" in warm.words
    told = opsplit.check(opsplit.read(rod, dt=0.1, boundary="fixed"))
    assert {f.check: f for f in told}["boundary of x"].verdict == "ok"


def test_noise_and_means(wave: np.ndarray, tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=wave.shape)
    found = run(noise, tmp_path, dt=0.1)["resolved spectrum"]
    assert found.verdict == "warning" and found.words.startswith("3")
    growing = run(wave * np.exp(0.1 * np.arange(30))[:, None], tmp_path, dt=0.1)
    assert "not conserved" in growing["mean of u"].words
    assert run(wave, tmp_path, dt=0.1)["resolved spectrum"].verdict == "ok"


def test_coefficients_that_nobody_knows(wave: np.ndarray, tmp_path: Path) -> None:
    words = run(wave, tmp_path, dt=0.1, Re=100.0)["coefficients"].words
    assert words == "not compared: no bundled model knows all of Re."
    assert run(wave, tmp_path, dt=0.1)["coefficients"].words == "not compared: none are stored."


def test_the_model_must_know_the_coefficients(cli: Cli, good: Trajectories, tmp_path: Path) -> None:
    replace(good, coefficients={"q": torch.ones(1)}).save(tmp_path / "a.npz")
    with pytest.raises(SystemExit) as end:
        cli("check a.npz --model advection-diffusion")
    assert end.value.code == 2


def test_a_model_that_is_not_there_is_no_fault_of_every_file(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", np.zeros((8, 32)))
    with pytest.raises(SystemExit) as end:
        main(["check", str(tmp_path / "u.npy"), "--dt", "0.1", "--model", "nope", "--every"])
    assert end.value.code == 2
