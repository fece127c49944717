"""AdamW with a learning rate for every part of the hypernetwork, and its schedule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from opsplit.hypernetwork.disco import Disco
from opsplit.pretrain.config import Optimiser


def make_optimiser(disco: Disco, settings: Optimiser) -> torch.optim.AdamW:
    """The optimiser; `relative_rate` of a group is its rate relative to `learning_rate`."""
    decoder = disco.decoder
    others = [p for p in decoder.parameters() if p is not decoder.shared]
    shared = [] if decoder.shared is None else [decoder.shared]
    groups = [
        *_groups(disco.encoder.parameters(), settings.encoder_rate),
        *_groups(others, 1.0),
        *_groups(shared, settings.shared_rate),
    ]
    if len(disco.codebook):
        groups.append({"params": [disco.codebook], "relative_rate": 1.0, "weight_decay": 0.0})
    return torch.optim.AdamW(groups, lr=settings.learning_rate, weight_decay=settings.weight_decay)


def _groups(parameters: Iterable[nn.Parameter], rate: float) -> list[dict[str, Any]]:
    """Matrices, which decay, and vectors, which do not."""
    every = list(parameters)
    return [
        {"params": [p for p in every if p.ndim > 1], "relative_rate": rate},
        {"params": [p for p in every if p.ndim <= 1], "relative_rate": rate, "weight_decay": 0.0},
    ]


def set_rates(optimiser: Any, settings: Optimiser, step: int, done: float) -> None:
    """The learning rates of one step."""
    rate = settings.learning_rate * schedule(step, done, settings.warm_up)
    for group in optimiser.param_groups:
        group["lr"] = group["relative_rate"] * rate


def schedule(step: int, done: float, warm_up: int) -> float:
    """Linear warm-up in steps, then a cosine in the share of the budget that is used."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return min(1.0, (step + 1) / max(1, warm_up)) * (1e-3 + (1 - 1e-3) * cosine)
