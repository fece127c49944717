"""Every baseline learns, continues exactly, and comes back from disk as it was."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from opsplit.baselines import TRAINED
from opsplit.baselines.geps import GEPS
from opsplit.baselines.protocol import OBSERVED, Fitting
from opsplit.baselines.trained import NetworkForecaster, load_trained
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.metrics import nrmse
from opsplit.pretrain.config import Budget
from opsplit.pretrain.loop import Execution
from opsplit.trajectories import Trajectories

QUIET = Execution(threads=1, quiet=True)
NETWORKS = ("fno", "mpp", "geps")


def trained(
    name: str, data: Trajectories, folder: Path, steps: int, every: int | None = None
) -> NetworkForecaster:
    """A tiny model after so many steps of a training that ends there."""
    settings, fitting = TRAINED[name].preset("tiny", data.grid.ndim)
    if isinstance(settings, GEPS) and steps < 100:
        settings = replace(settings, adaptation_steps=2)
    budget = Budget(steps=steps, validate_every=every or steps)
    made = settings.train(data, folder, replace(fitting, budget=budget), "waves", QUIET)
    assert isinstance(made, NetworkForecaster)
    return made


def short_forecast(made: NetworkForecaster, data: Trajectories) -> float:
    """The error of four frames relative to that of a forecast that nothing changes."""
    held_out = data[7::8]
    observed, future = held_out.windows(OBSERVED, 3), held_out.windows(4, 3 + OBSERVED)
    still = observed.data[:, -1:].expand_as(future.data)
    errors = [nrmse(x, future.data).mean() for x in (made.forecast(observed, 4), still)]
    return float(errors[0] / errors[1])


@pytest.mark.parametrize(("name", "fixture", "steps"), [
    ("fno", "waves", 120), ("geps", "waves", 120), ("mpp", "blinking", 240)])  # fmt: skip
def test_a_short_training_beats_a_forecast_that_nothing_changes(
    name: str, fixture: str, steps: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    data = request.getfixturevalue(fixture)
    made = trained(name, data, tmp_path, steps)
    assert short_forecast(made, data) < 0.5
    assert {"nrmse", "persistence"} < made.facts["forecast"].keys()


def test_disco_learns_one_mechanism_within_a_budget_of_processor_minutes(
    waves: Trajectories, tmp_path: Path
) -> None:
    """Minutes may hold few steps, so the warm-up must be over after some of them."""
    settings, fitting = TRAINED["disco"].preset("tiny", 1)
    budget = Budget(steps=40, minutes=60, validate_every=40)
    fitting = replace(fitting, budget=budget, learning_rate=1e-2)
    to_the_right = waves[::2]
    began = time.process_time()
    made = settings.train(to_the_right, tmp_path, fitting, "waves", QUIET)
    spent = time.process_time() - began
    assert 0 < made.facts["minutes"] <= spent / 60
    observed, future = to_the_right[:4].windows(OBSERVED, 3), to_the_right[:4].windows(4, 19)
    still = observed.data[:, -1:].expand_as(future.data)
    errors = [nrmse(x, future.data).mean() for x in (made.forecast(observed, 4), still)]
    assert errors[0] < 0.2 * errors[1]


@pytest.mark.parametrize("name", [*NETWORKS, "zebra"])
def test_a_training_that_was_stopped_goes_on_exactly(
    name: str, waves: Trajectories, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "zebra":
        pytest.importorskip("vector_quantize_pytorch")
        pytest.importorskip("x_transformers")
    from opsplit.baselines.train import Training

    whole = trained(name, waves, tmp_path / "whole", 8, every=2)
    steps = Training.make_step

    def killed(self: Training, done: float) -> None:
        if self.step == 5:
            raise KeyboardInterrupt
        steps(self, done)
        self.save()

    monkeypatch.setattr(Training, "make_step", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(name, waves, tmp_path / "parts", 8, every=2)
    monkeypatch.setattr(Training, "make_step", steps)
    parts = trained(name, waves, tmp_path / "parts", 8, every=2)
    assert parts.fingerprint() == whole.fingerprint()
    curves = [made.facts["curve"] for made in (whole, parts)]
    for row, same in zip(*curves, strict=True):
        assert {k: v for k, v in row.items() if k != "seconds"} == {
            k: v for k, v in same.items() if k != "seconds"
        }


@pytest.mark.parametrize("name", NETWORKS)
def test_a_model_forecasts_the_same_from_disk_and_alone_or_in_a_batch(
    name: str, waves: Trajectories, tmp_path: Path
) -> None:
    made = trained(name, waves, tmp_path, 3)
    held = load_trained(tmp_path)
    observed = waves[:3].windows(OBSERVED, 0)
    frames = made.forecast(observed, 4)
    assert torch.equal(held.forecast(observed, 4), frames)
    assert held.fingerprint() == made.fingerprint() and held.facts == made.facts
    alone = held.forecast(observed[[1]], 4)
    assert torch.allclose(alone[0], frames[1], atol=1e-5)


def test_other_weights_or_settings_have_another_fingerprint(
    waves: Trajectories, tmp_path: Path
) -> None:
    made = trained("geps", waves, tmp_path, 2)
    assert load_trained(tmp_path, adaptation_steps=3).fingerprint() != made.fingerprint()
    with torch.no_grad():
        next(made.network.parameters()).add_(1e-3)
    assert made.fingerprint() != load_trained(tmp_path).fingerprint()


def test_windows_unlike_the_training_data_are_refused(waves: Trajectories, tmp_path: Path) -> None:
    made = trained("fno", waves, tmp_path, 1)
    coarse = Trajectories(
        waves.data[..., ::2], waves.times, Grid((16,), (32.0,)), waves.channels
    ).windows(OBSERVED, 0)
    with pytest.raises(OpsplitError, match=r"points per axis \(32,\), got \(16,\)"):
        made.forecast(coarse, 1)
    slow = replace(waves, times=2 * waves.times).windows(OBSERVED, 0)
    with pytest.raises(OpsplitError, match="frames 1 apart, these are 2 apart"):
        made.forecast(slow, 1)


def test_a_folder_without_a_finished_training_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OpsplitError, match="holds no trained baseline; run `opsplit pretrain"):
        load_trained(tmp_path)


def test_other_settings_do_not_continue_a_run(waves: Trajectories, tmp_path: Path) -> None:
    trained("fno", waves, tmp_path, 1)
    settings, fitting = TRAINED["fno"].preset("tiny", 1)
    other: Fitting = replace(fitting, learning_rate=1e-4)
    with pytest.raises(OpsplitError, match="other settings"):
        settings.train(waves, tmp_path, other, "waves", QUIET)


def test_zebra_reports_the_floor_of_its_tokenizer_and_learns_to_continue_tokens(
    blinking: Trajectories, tmp_path: Path
) -> None:
    pytest.importorskip("vector_quantize_pytorch")
    pytest.importorskip("x_transformers")
    made = trained("zebra", blinking, tmp_path, 200)
    assert made.facts["validation"]["reconstruction"] < 0.2
    assert short_forecast(made, blinking) < 0.7
    held = load_trained(tmp_path)
    observed = blinking[:2].windows(OBSERVED, 0)
    assert torch.equal(held.forecast(observed, 3, seed=5), made.forecast(observed, 3, seed=5))
