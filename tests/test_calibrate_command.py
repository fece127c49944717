"""`opsplit calibrate` writes what puts a model's intervals into use."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from opsplit.calibration import Calibration
from opsplit.model import Model
from opsplit.physics import AdvectionDiffusion
from opsplit.predict.estimator import OperatorSplitter

Cli = Callable[..., str]


def test_calibrate(cli: Cli, tmp_path: Path, tiny_folder: Path) -> None:
    line = f"calibrate --model {tiny_folder} --n 1 --seed 5 --out factors"
    result = json.loads(cli(f"{line} --json"))
    found = Calibration.load(tmp_path / "factors")
    assert found is not None
    assert (found.strategy, found.n) == ("pursuit", result["trajectories"])
    # Trajectories that this small model does not explain do not count.
    assert 1 <= found.n <= 3
    assert result["tested"]["all"]["forecast"] <= 3
    assert result["shown"] == [], "so few tests say nothing"
    assert result["forecast_factor_90"] == pytest.approx(found.forecast_factor(0.9))
    assert result["coefficient_factors_90"].keys() == found.coefficients.keys() <= {"c", "D"}
    assert found.origin["seed"] == 5
    assert found.origin["command"] == f"opsplit {line} --json"
    assert {"commit", "hardware"} <= found.origin.keys()
    # The same again is read back; words say where it is.
    words = cli(line)
    assert f"{found.n} trajectories" in words
    assert "calibration.json" in words
    assert "finished before" in words


def test_a_calibration_in_the_models_folder_is_in_use(
    cli: Cli, tmp_path: Path, tiny_folder: Path
) -> None:
    shutil.copytree(tiny_folder, tmp_path / "model")
    cli("calibrate --model model --n 1 --seed 6 --out model --json")
    model = Model.load(tmp_path / "model")
    assert model.calibration is not None
    whole = AdvectionDiffusion().generate("A+D", 1, seed=5, frames=16)
    splitter = OperatorSplitter(tmp_path / "model").fit(whole.data[0], whole.dt, 16.0)
    _, lower, upper = splitter.predict(2, return_interval=0.9)
    assert bool((lower < upper).all())
    assert splitter.intervals(0.9).keys() <= {"c", "D"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [("--n 0", "--n must be a positive number"), ("--model nowhere", "Unknown model 'nowhere'")],
)
def test_what_cannot_be_calibrated_is_one_sentence(
    flags: str, sentence: str, cli: Cli, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli(f"calibrate --model {tiny_folder} {flags} --out x")
    assert sentence in capsys.readouterr().err
