"""Settings of short trainings, and what a run left in its folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from opsplit.hypernetwork.config import ModelConfig
from opsplit.pretrain.config import (
    Batches,
    Budget,
    Optimiser,
    TrainConfig,
)
from opsplit.pretrain.loggers import read_metrics
from opsplit.pretrain.loop import Execution

QUICK = TrainConfig(
    budget=Budget(steps=8, validate_every=3, checkpoint_steps=2),
    batches=Batches(environments=2, states=2, context=4),
    optimiser=Optimiser(learning_rate=3e-3, warm_up=2, ema=0.9),
)


QUIET = Execution(threads=1, quiet=True)


Small = Callable[..., ModelConfig]


def changed(config: TrainConfig, **changes: Any) -> TrainConfig:
    """Settings with others in some of their groups."""
    groups = {
        key: replace(getattr(config, key), **value) if isinstance(value, dict) else value
        for key, value in changes.items()
    }
    return replace(config, **groups)


def tensors(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "resume.safetensors")


def facts(folder: Path) -> dict[str, Any]:
    with safe_open(folder / "resume.safetensors", "pt") as file:
        return json.loads(file.metadata()["facts"])


def curve(folder: Path) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in read_metrics(folder)]
