"""`opsplit demo` of every equation, and the comparison behind it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import opsplit
from opsplit.benchmark.tasks import columns, demo_column, example, test_window
from opsplit.errors import OpsplitError
from opsplit.metrics import nrmse
from opsplit.physics import PHYSICS

window_of = test_window
del test_window  # Its name is that of a test.


def test_unknown_physics(cli: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli("demo --physics heat")
    assert end.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said.count("\n") == 0
    assert "'heat'" in said
    for name in PHYSICS:
        assert name in said


@pytest.mark.parametrize("physics", [name for name in PHYSICS if not PHYSICS[name].model])
def test_the_search_beats_direct_prediction(
    physics: str, cli: Callable[[str], str], tmp_path: Path
) -> None:
    result = json.loads(cli(f"demo --physics {physics} --out made --json"))
    errors = result["nrmse"]
    assert errors["pursuit"] < 0.1 * errors["direct"]
    assert errors["pursuit"] < 0.05 * errors["persistence"]
    assert (tmp_path / "made" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_example_has_the_frames_of_its_column() -> None:
    column = columns("gray-scott")["GS"]
    observed, future = example(column, seed=1)
    assert observed.data.shape == (1, 16, 2, 64, 64)
    assert future.data.shape == (1, column.horizon, 2, 64, 64)
    # The forecast begins one frame after the window: a step like the last of the window.
    last, steps = observed.data[0, -1], observed.data[0].diff(dim=0).flatten(1).norm(dim=1)
    assert 0 < float((future.data[0, 0] - last).norm()) < 2 * float(steps[-1])


def test_an_example_is_the_first_test_window() -> None:
    column = demo_column("combined")
    assert column.split == "all3"
    for one, other in zip(example(column, 3), window_of(column, 0, 3), strict=True):
        assert torch.equal(one.data, other.data)


def test_compare_measures_what_it_predicts(tiny_folder: Path) -> None:
    observed, future = example(columns("advection-diffusion")["A+D"], seed=2)
    found = opsplit.compare(tiny_folder, observed, future, ("direct", "pursuit"))
    assert list(found.predictions) == list(found.errors) == ["persistence", "direct", "pursuit"]
    for name, frames in found.predictions.items():
        assert found.errors[name] == float(nrmse(frames[None], future.data))
    assert found.coefficients["pursuit"] == found.best.coefficients_
    assert found.true == {k: float(v[0]) for k, v in observed.coefficients.items()}
    assert found.seconds.keys() == found.fitted.keys() == {"direct", "pursuit"}
    few = opsplit.compare(tiny_folder, observed, future, ("pursuit",), operators=2)
    assert few.errors["persistence"] == found.errors["persistence"]
    assert few.errors["pursuit"] != found.errors["pursuit"]


def test_compare_takes_one_trajectory_and_a_method(tiny_folder: Path) -> None:
    observed, future = example(columns("advection-diffusion")["A+D"], seed=2)
    with pytest.raises(OpsplitError, match="at least one method"):
        opsplit.compare(tiny_folder, observed, future, ())
    with pytest.raises(OpsplitError, match="one trajectory, got 2 observed"):
        opsplit.compare(tiny_folder, observed[[0, 0]], future)


def test_in_space_the_operators_of_the_square_forecast(
    cli: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a small cube; nothing was trained in space."""
    small = {"grid": opsplit.Grid((16, 16, 16), (0.25,) * 3)}
    monkeypatch.setattr(PHYSICS["gray-scott-3d"], "presets", {"cpu": small})
    result = json.loads(cli("demo --physics gray-scott-3d --out made --json"))
    errors = result["nrmse"]
    assert set(errors) == {"persistence", "pursuit"}
    assert errors["pursuit"] < 0.1 * errors["persistence"]
    assert (tmp_path / "made" / "demo.png").read_bytes().startswith(b"\x89PNG")
