"""Trainings of the study: advection-diffusion, simulated, with a recipe and a split."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from opsplit import Model, load_model
from opsplit._files import read_json, write_json
from opsplit.pretrain.config import preset_settings
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.run import pretrain

NAME = "advection-diffusion"
MINUTES = "core_minutes.json"


def trained(folder: Path, steps: int, recipe: str = "in-context", split: str = "train") -> Model:
    """A spectral model after so many steps; a finished one is loaded, a stopped one goes on."""
    if (folder / "metrics.json").exists():
        return load_model(folder)
    _, usual = preset_settings("cpu")
    batches = replace(usual.batches, split=split, warm_up_states=0.0, durations=(1.0,))
    if recipe == "plain":
        batches = replace(batches, states=16)
    budget = replace(usual.budget, steps=steps, minutes=None, validate_every=steps)
    training = replace(usual, recipe=recipe, budget=budget, batches=batches)
    began = time.process_time()
    model = pretrain(NAME, folder, operator="spectral", training=training,
                     execution=Execution(threads=1, quiet=True))  # fmt: skip
    stamped(folder, began)
    return model


def stamped(folder: Path, began: float) -> None:
    """Leave the minutes of one core that a training took beside its model."""
    write_json(folder / MINUTES, {"core_minutes": (time.process_time() - began) / 60})


def minutes_of(folder: Path) -> dict[str, float]:
    """Minutes of one core; none if the training was stopped in between."""
    file = folder / MINUTES
    return read_json(file) if file.exists() else {}
