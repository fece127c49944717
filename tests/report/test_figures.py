"""`opsplit figures`: pictures and the numbers they are drawn from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from opsplit.benchmark.compare import METHODS
from opsplit.benchmark.tasks import columns, example, mechanisms_alone
from opsplit.commands.figures import point_errors, write_page
from opsplit.metrics import nrmse_per_frame
from opsplit.model import load_model
from opsplit.report.figures import Rollout, frames_figure, line_figure

PNG = b"\x89PNG"


def test_contour(cli: Callable[[str], str], tmp_path: Path) -> None:
    cli("figures --only contour --points 2 --n 1 --seed 3 --out figures")
    assert (tmp_path / "figures" / "contour.png").read_bytes().startswith(PNG)
    held = json.loads((tmp_path / "figures" / "contour.json").read_text())
    assert held["c"] == held["D"] == [0.01, 1.0]
    assert {"command", "seed", "commit", "hardware"} <= held.keys()
    page = (tmp_path / "figures" / "index.md").read_text()
    assert "![NRMSE over c and D by method](contour.png)" in page and held["command"] in page
    assert "rollout" not in page
    model = load_model("advection-diffusion", "spectral")
    again = point_errors(model, {"c": 1.0, "D": 0.01}, 1, seed=3)
    assert list(again) == list(METHODS)
    for name, error in again.items():
        assert held["nrmse"][name][1][0] == pytest.approx(error, rel=1e-6)


def test_points_of_the_map_are_not_measured_twice(
    cli: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[tuple[float, ...]] = []

    def fake(model: object, given: dict[str, float], *rest: object) -> dict[str, float]:
        measured.append(tuple(given.values()))
        if len(measured) == 3:
            raise KeyboardInterrupt
        return {name: 0.1 * len(measured) for name in METHODS}

    monkeypatch.setattr("opsplit.commands.figures.point_errors", fake)
    line = "figures --only contour --points 2 --n 1 --out figures"
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        cli(line)
    assert not (tmp_path / "figures" / "contour.png").exists()
    cli(line)
    assert len(measured) == 5 and len(set(measured)) == 4
    held = json.loads((tmp_path / "figures" / "contour.json").read_text())
    assert held["nrmse"]["beam"][0] == pytest.approx([0.1, 0.2])


def test_single_mechanisms_start_from_the_observed_fields() -> None:
    column = columns("gray-scott")["GS"]
    observed, future = example(column, seed=1)
    alone = mechanisms_alone(column, observed, future)
    assert list(alone) == ["reaction alone", "diffusion alone"]
    spread = alone["diffusion alone"]
    # Diffusion with killing keeps the mean of A, and B decays by exp(-k t).
    start = observed.data[0, 0].double()
    assert spread[:, 0].mean((1, 2)).tolist() == pytest.approx(
        [float(start[0].mean())] * len(spread), rel=1e-5
    )
    decay = torch.exp(-observed.coefficients["k"] * 16.0)
    assert float(spread[0, 1].mean()) == pytest.approx(float(start[1].mean() * decay), rel=1e-4)


def test_points(cli: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli("figures --points 1")
    assert "--points must be at least 2, got 1." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("physics", "split"), [("advection-diffusion", "A+D"), ("gray-scott", "GS")]
)
def test_rollout_pictures(physics: str, split: str, tmp_path: Path) -> None:
    observed, future = example(columns(physics)[split], seed=0)
    truth = future.data[0]
    predictions = {"persistence": observed.data[0, -1:].expand_as(truth), "pursuit": 1.01 * truth}
    alone = mechanisms_alone(columns(physics)[split], observed, future)
    rollout = Rollout(observed, future, predictions, "words", alone)
    assert list(rollout.shown) == ["pursuit"]
    assert torch.allclose(rollout.errors["pursuit"], torch.full((len(truth),), 0.01), rtol=1e-3)
    expected = nrmse_per_frame(predictions["persistence"][None], truth[None])[0]
    assert torch.equal(rollout.errors["persistence"], expected)
    assert rollout.moments[0] == pytest.approx(16 * observed.dt)
    path = tmp_path / "rollout.png"
    if observed.grid.ndim == 1:
        line_figure(rollout, path)
    else:
        frames_figure([rollout, rollout], path)
    assert path.read_bytes().startswith(PNG)


def test_the_page_shows_every_rollout_with_its_numbers(tmp_path: Path) -> None:
    origin = {"command": "opsplit figures", "seed": 0, "commit": "abc", "hardware": "two cores"}
    one = {"coefficients": {"nu": 0.01}, "nrmse": {"direct": 0.25, "pursuit": 0.0125}, "frames": 9}
    two = [one | {"picture": f"rollout-NS-{i}.png"} for i in (1, 2)]
    held = {"columns": {"NS": two, "A+D": [one | {"picture": "rollout-A+D.png"}]}} | origin
    (tmp_path / "rollouts.json").write_text(json.dumps(held))
    write_page(tmp_path)
    page = (tmp_path / "index.md").read_text()
    assert page.count("nu = 0.01. NRMSE of 9 frames: direct 0.25, pursuit 0.013.") == 3
    assert "](rollout-NS-2.png)" in page and "](rollout-A+D.png)" in page
    assert "contour" not in page and "`opsplit figures`, seed 0, commit abc" in page
