"""Files of a run that somebody else may have written: a sentence, or the run as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from opsplit.errors import OpsplitError
from opsplit.model import Model
from opsplit.operators import GatedProducts
from opsplit.pretrain.checkpoint import FILE
from opsplit.pretrain.config import preset_settings
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.run import pretrain


def run(folder: Path, steps: int = 102) -> Model:
    """Two steps more than the run that is there."""
    training = preset_settings("tiny")[1]
    training = replace(training, budget=replace(training.budget, steps=steps, validate_every=100))
    quiet = Execution(threads=1, quiet=True)
    return pretrain("advection-diffusion", folder, operator=GatedProducts(copies=2),
                    training=training, preset="tiny", execution=quiet)  # fmt: skip


def tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], Any], facts: Any) -> None:
    held = load_file(path)
    change(held)
    told = (
        {} if facts is None else {"facts": facts if isinstance(facts, str) else json.dumps(facts)}
    )
    save_file(held, path, told)


GOOD = {"step": 100, "seconds": 1.0, "running": 0.1}
SPOILT: dict[str, Callable[[Path], Any]] = {
    "nan": lambda p: tensors(p, lambda t: [v.fill_(torch.nan) for v in t.values()], GOOD),
    "no facts": lambda p: tensors(p, lambda t: None, None),
    "facts no JSON": lambda p: tensors(p, lambda t: None, "{"),
    "facts a list": lambda p: tensors(p, lambda t: None, [1]),
    "a step of words": lambda p: tensors(p, lambda t: None, {**GOOD, "step": "many"}),
    "endless steps": lambda p: tensors(p, lambda t: None, {**GOOD, "step": float("inf")}),
    "a missing weight": lambda p: tensors(p, lambda t: t.pop(sorted(t)[0]), GOOD),
    "another shape": lambda p: tensors(p, lambda t: t.update({sorted(t)[-1]: torch.zeros(1, 7)}),
                                       GOOD),
    "whole numbers": lambda p: tensors(p, lambda t: t.update({"x": torch.zeros(2).int()}), GOOD),
    "text": lambda p: p.write_text("no tensors"),
    "empty": lambda p: p.write_bytes(b""),
}  # fmt: skip


@pytest.mark.parametrize("way", SPOILT)
def test_a_spoilt_resume_file_is_refused(tiny_folder: Path, tmp_path: Path, way: str) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "run"))
    SPOILT[way](folder / FILE)
    with pytest.raises(OpsplitError, match=r"resume\.safetensors .*to start this run again"):
        run(folder)


def test_the_run_goes_on_from_a_good_one(tiny_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "run"))
    tensors(folder / FILE, lambda t: None, GOOD)
    (folder / "metrics.json").write_text("[1, 2]")
    (folder / "metrics.csv").write_bytes(b"\xff\xfe\nstep,seconds\nx,y\nnan,1\n")
    assert run(folder).metrics["steps"] == 102


@pytest.mark.parametrize("text", ["[]", "3", "null", '"a"'])
def test_settings_of_another_kind_are_refused(tiny_folder: Path, tmp_path: Path, text: str) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "run"))
    (folder / "training.json").write_text(text)
    with pytest.raises(OpsplitError, match=r"training\.json does not hold the settings"):
        run(folder)


@pytest.mark.parametrize(
    "metrics",
    [[], 3, {"before": 3}, {"before": [3]}, {"structure": "a"}, {"minutes": "a"}, {"command": 1},
     {"before": [{"minutes": []}]}],
)  # fmt: skip
def test_metrics_of_another_kind_are_refused(
    tiny_folder: Path, tmp_path: Path, metrics: Any
) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    (folder / "metrics.json").write_text(json.dumps(metrics))
    with pytest.raises(OpsplitError, match=r"metrics\.json"):
        Model.load(folder)


def test_a_model_that_is_half_written_is_no_model(tiny_model: Model, tmp_path: Path) -> None:
    """The old weights beside a new configuration would look like a model."""
    folder = tiny_model.save(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").mkdir()
    with pytest.raises(OpsplitError, match="Cannot write"):
        tiny_model.save(folder)
    assert not (folder / "config.json").exists()
