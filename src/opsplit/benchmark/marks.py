"""Which model and which search a measured row belongs to.

A mark is a short hash of what decides a forecast: how the operators act, which coefficients they
stand for, and the settings of the search. It does not depend on how a model is stored, so that
rows outlive a new file format and rounding on another processor.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from opsplit.benchmark.tasks import OBSERVED, Column
from opsplit.dictionary import OperatorDictionary
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.physics import get_physics
from opsplit.search import Strategy

PROBED = 8
"""Operators of a dictionary that are looked at."""


def mark(model: Model, column: Column, search: Strategy | None) -> str:
    """The mark of a model on a column with a search; none for the operator it reads itself."""
    physics = get_physics(column.physics)
    if search is None:
        window = torch.stack(
            [probe(physics.grid, len(physics.channels), 0.1 * i) for i in range(OBSERVED)]
        )
        facts: list[Any] = ["direct", actions(model.read(window.float()), physics.grid, physics.dt)]
    else:
        facts = [
            search.name,
            actions(model.dictionary, physics.grid, physics.dt),
            {k: [f"{x:.6g}" for x in v] for k, v in model.dictionary.coefficients.items()},
            asdict(search),
        ]
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@torch.no_grad()
def actions(dictionary: OperatorDictionary, grid: Grid, dt: float) -> list[str]:
    """How a fixed field changes in one frame under operators of a dictionary, in four digits."""
    few = dictionary.select(torch.linspace(0, len(dictionary) - 1, PROBED).long().unique())
    u = probe(grid, few.parts[0].family.channels)
    states = u.expand(len(few), 1, *u.shape)
    moved = few.prepare(grid, u).flow(torch.arange(len(few)), states.contiguous(), dt) - states
    # A weight for every number, so that fields that are mirrored or moved differ.
    weight = 1.5 + torch.cos(torch.arange(u.numel(), dtype=u.dtype)).reshape(u.shape)
    sizes = (weight * moved.abs()).flatten(1).sum(1) / u.numel()
    return [f"{float(size):.4g}" for size in sizes]


def probe(grid: Grid, channels: int, phase: float = 0.0) -> Tensor:
    """A smooth field `(channel, *space)`, the same everywhere and at any time."""
    u = torch.zeros(channels, *grid.shape, dtype=torch.float64)
    for axis, (x, length) in enumerate(zip(grid.axes(), grid.extent, strict=True)):
        angle = 2 * torch.pi * x / length
        for channel in range(channels):
            wave = torch.sin((axis + 1) * angle + channel + phase) + torch.cos(3 * angle - phase)
            u[channel] += 0.25 * wave.reshape([-1 if a == axis else 1 for a in range(grid.ndim)])
    return 0.5 + u


def evenly(dictionary: OperatorDictionary, n: int | None) -> OperatorDictionary:
    """Every so-manyth operator, up to the last, so that `n` are left."""
    if n is None or n >= len(dictionary):
        return dictionary
    stride = len(dictionary) // n
    return dictionary.select(range(stride - 1, len(dictionary), stride))
