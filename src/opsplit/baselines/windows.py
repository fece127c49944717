"""Training windows: consecutive frames of one trajectory, and which dynamics they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.physics import Physics
from opsplit.pretrain.sources import FreshSource, StoredSource

HELD_OUT = 8
"""Of so many stored trajectories one is kept for validation."""


@dataclass(frozen=True)
class Windows:
    """Some windows of training data."""

    frames: Tensor
    """`(n, time, channel, *space)`"""
    environment: Tensor
    """Which dynamics each belongs to, or -1."""


class WindowSource(Protocol):
    """Anything that can draw windows."""

    environments: int
    """Number of different dynamics (0: new ones in every batch)."""

    def draw(
        self, n: int, length: int, generator: torch.Generator, held_out: bool = False
    ) -> Windows: ...


def open_windows(source: FreshSource | StoredSource, environments: int, seed: int) -> WindowSource:
    """Windows of a source of training data.

    Arguments:
        environments: how many dynamics to draw once and for all, of an equation that is simulated
            (0: new ones in every batch).
    """
    if isinstance(source, StoredSource):
        return StoredWindows(source)
    return FreshWindows(source.physics, environments, seed)


class FreshWindows:
    """New fields in every batch, with new coefficients or those of a fixed list."""

    def __init__(self, physics: Physics, environments: int, seed: int) -> None:
        self.physics, self.environments = physics, environments
        generator = torch.Generator().manual_seed(seed)
        self.listed = physics.sample_coefficients("train", environments, generator)

    def draw(
        self, n: int, length: int, generator: torch.Generator, held_out: bool = False
    ) -> Windows:
        """Windows; what no other seed has drawn is unseen, so `held_out` changes nothing."""
        physics = self.physics
        _check_length(length, physics.frames)
        environment = torch.full((n,), -1)
        coefficients = physics.sample_coefficients("train", n, generator)
        if self.environments:
            environment = torch.randint(self.environments, (n,), generator=generator)
            coefficients = {name: v[environment] for name, v in self.listed.items()}
        fields = physics.initial_fields(n, generator, "train")
        begin = torch.randint(physics.frames - length + 1, (n, 1), generator=generator)
        times = (begin + torch.arange(length)).double() * physics.dt
        return Windows(physics.solve(fields, coefficients, times).float(), environment)


class StoredWindows:
    """Windows of stored trajectories; one of every `HELD_OUT` trajectories is only validated on."""

    def __init__(self, source: StoredSource) -> None:
        self.source, self.environments = source, source.environments
        number = torch.arange(len(source.data))
        kept = number % HELD_OUT == HELD_OUT - 1
        self.seen, self.unseen = number[~kept], number[kept]

    def draw(
        self, n: int, length: int, generator: torch.Generator, held_out: bool = False
    ) -> Windows:
        data = self.source.data
        _check_length(length, len(data.times))
        # Data with fewer trajectories than one in eight are validated on themselves.
        group = self.unseen if held_out and len(self.unseen) else self.seen
        chosen = group[torch.randint(len(group), (n,), generator=generator)]
        begin = torch.randint(len(data.times) - length + 1, (n,), generator=generator)
        frames = [
            data.data[i, t : t + length]
            for i, t in zip(chosen.tolist(), begin.tolist(), strict=True)
        ]
        return Windows(torch.stack(frames).float(), self.source.environment[chosen])


def _check_length(length: int, frames: int) -> None:
    if length > frames:
        raise OpsplitError(
            f"Training needs windows of {length} frames, the trajectories have {frames}."
        )
