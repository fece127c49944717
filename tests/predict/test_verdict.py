"""The verdict: what it measures, and that nobody can overlook it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opsplit import OperatorSplitter
from opsplit.cli import main
from opsplit.errors import no_warnings
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.verdict import Basis, Level, Verdict, judge
from opsplit.search import Beam

DT = 10 / 99


def test_numbers_are_what_they_say(observe: Any, exact: Any) -> None:
    """With one operator and strength one, both numbers follow from two flows."""
    u, grid, dt = observe(0.5, 0.3, points=64)
    advection = exact([0.5], [])
    with no_warnings():
        splitter = OperatorSplitter(search=Beam(1, 1)).fit(u, dt, grid.extent, advection)

    def moved(v: torch.Tensor, time: float) -> torch.Tensor:
        k = torch.fft.rfftfreq(64, 0.25).double() * 2 * math.pi
        return torch.fft.irfft(torch.fft.rfft(v) * torch.exp(-1j * k * 0.5 * time), n=64)

    left = (moved(u[:-1], dt) - u[1:]).norm() / (u[1:] - u[:-1]).norm()
    assert splitter.verdict_.unexplained == pytest.approx(float(left), rel=1e-3)
    free = torch.cat([moved(u[:1], dt * i) for i in range(1, len(u))])
    skill = 1 - (free - u[1:]).norm() / (u[:1] - u[1:]).norm()
    assert splitter.verdict_.skill == pytest.approx(float(skill), rel=1e-3)


@pytest.mark.parametrize(
    "share, skill, level",
    [
        (0.01, 0.99, Level.EXPLAINED),
        (0.01, None, Level.EXPLAINED),
        (0.01, -3.0, Level.PARTLY),
        (0.01, -math.inf, Level.PARTLY),
        (0.06, 0.95, Level.PARTLY),
        (0.04, 0.85, Level.PARTLY),
        (0.9, 0.9, Level.PARTLY),
        (0.5, 0.3, Level.PARTLY),
        (0.9, 0.3, Level.UNEXPLAINED),
        (0.5, -0.1, Level.UNEXPLAINED),
        (0.5, None, Level.UNEXPLAINED),
        (math.inf, 0.0, Level.UNEXPLAINED),
    ],
)
def test_levels(share: float, skill: float | None, level: Level) -> None:
    assert judge(share, skill) is level
    told = Verdict(level, share, skill)
    assert json.loads(json.dumps(told.to_json(), allow_nan=False))["level"] == level.value
    assert ("do not trust" in told.text) == (level is Level.UNEXPLAINED)


def test_the_future_decides_if_it_is_known() -> None:
    last, truth = torch.zeros(1, 8), torch.ones(3, 1, 8)
    told = Verdict(Level.EXPLAINED, 0.05, 0.9)
    assert told.on_future(truth, truth, last) == Verdict(Level.EXPLAINED, 0.05, 1.0, Basis.FUTURE)
    worse = told.on_future(-truth, truth, last)
    assert worse.skill == pytest.approx(-1) and worse.level is Level.PARTLY
    assert told.on_future(truth, truth * torch.nan, last) == told


def unexplainable(kind: str) -> np.ndarray:
    rng = np.random.default_rng(900)
    x, t = np.arange(256) * 2 * np.pi / 256, np.arange(16)[:, None]
    if kind == "noise":
        return rng.normal(size=(16, 256))
    modes = [(k, rng.normal(), rng.uniform(0, 6)) for k in range(1, 5)]
    return sum(a * np.cos(k * x + p) * np.cos(0.12 * k * t) for k, a, p in modes)


@pytest.mark.parametrize("kind", ["noise", "waves"])
def test_what_no_composition_explains(kind: str) -> None:
    with no_warnings():
        splitter = OperatorSplitter().fit(unexplainable(kind), DT, 16.0)
    assert splitter.verdict_.level is Level.UNEXPLAINED
    assert splitter.coefficient_intervals_ == {}
    assert splitter.forecast(2).status == "unexplained"


def test_what_is_explained() -> None:
    whole = AdvectionDiffusion().generate("A+D", 1, seed=911, frames=16)
    splitter = OperatorSplitter().fit(whole)
    assert splitter.status_ == "explained" and splitter.notes_ == ()
    assert splitter.verdict_.unexplained < 0.05 and splitter.forecast(2).status == "ok"


def test_it_is_the_last_line_and_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", unexplainable("waves"))
    line = [
        "predict",
        "a.npy",
        "--dt",
        "0.101",
        "--extent",
        "16",
        "--steps",
        "3",
        "--report",
        "a.html",
    ]
    for again in range(2):
        with pytest.raises(SystemExit) as end:
            main(line)
        assert end.value.code == 3
        out = capsys.readouterr().out
        assert out.splitlines()[-1].startswith("Unexplained: one step leaves")
        assert "forecast unexplained: forecast/forecast.npy" in out and " ok" not in out
        assert ("finished before" in out) == bool(again)
    assert np.load("forecast/forecast.npy").shape == (3, 1, 256)
    assert "do not trust the forecast" in Path("a.html").read_text()
    with pytest.raises(SystemExit):
        main([*line, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"]["level"] == told["status"] == "unexplained"
    assert told["coefficient_intervals"] == {} and "±" not in told["equation"]


def test_a_missing_step_is_reported_before_torch_is_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((9, 16)))
    code = (
        "import sys\nfrom opsplit.cli import main\n"
        "try:\n    main(['predict', 'a.npy'])\n"
        "finally:\n    print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stdout == "False\n"
    assert "does not say the time between frames; add --dt" in done.stderr


@pytest.mark.parametrize("film", ["still", "walk"])
def test_noise_in_place_of_a_change_is_not_explained(film: str) -> None:
    """Whatever does nothing would fit frames that differ by noise alone."""
    rng = np.random.default_rng(2)
    x = 2 * math.pi * np.arange(64) / 64
    noise = 0.02 * rng.standard_normal((16, 64))
    u = np.sin(x) + np.cos(2 * x) + (noise if film == "still" else noise.cumsum(0))
    with no_warnings():
        splitter = OperatorSplitter("advection-diffusion").fit(u, 0.1, 10.0)
    assert splitter.status_ == "unexplained" and not splitter.coefficient_intervals_
