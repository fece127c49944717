"""What every trained baseline offers: settings that are trained into a folder and loaded again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from opsplit.baselines import TRAINED
from opsplit.baselines.windows import Windows
from opsplit.pretrain.config import Budget, Count, Positive, Rate
from opsplit.pretrain.data import Data
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.sources import Facts
from opsplit.settings import Between, Settings, Share
from opsplit.trajectories import Trajectories

OBSERVED = 16
"""Frames that a forecast starts from, as in the paper."""
PRESETS = ("paper", "cpu", "tiny")


@dataclass(frozen=True)
class Fitting(Settings):
    """How a baseline is trained: AdamW with a linear warm-up and a cosine decay."""

    budget: Budget = field(default_factory=lambda: Budget(steps=100_000))
    batch: Count = 64
    """Windows per step."""
    learning_rate: Positive = 5e-4
    """Largest learning rate."""
    weight_decay: Rate = 1e-4
    """Decay of all weights."""
    warm_up: Share = 0.05
    """Share of the budget in which the learning rate grows."""
    clip: Positive | None = None
    """Largest gradient norm."""
    seed: Annotated[int, Between(0, 2**31 - 1)] = 0
    """Seed of weights and batches."""


class Forecaster(ABC):
    """A trained baseline."""

    facts: dict[str, Any]
    """How it was trained: `minutes` of one core, `steps`, `command`, `parameters` and the errors
    on held-out trajectories."""

    @abstractmethod
    def forecast(self, observed: Trajectories, horizon: int, seed: int = 0) -> Tensor:
        """The `horizon` frames `(trajectory, time, channel, *space)` after observed windows."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A short hash of all that decides a forecast."""


class Network(nn.Module):
    """The weights of a baseline, and how they learn and forecast.

    Fields are those of the data divided by `Facts.scale`.
    """

    stages: ClassVar[tuple[str, ...]] = ("network",)
    """Parts that are trained one after the other, with equal shares of the budget."""

    def loss(self, windows: Windows, stage: str) -> Tensor:
        """The number to minimise, one value per window."""
        raise NotImplementedError

    def errors(self, windows: Windows) -> dict[str, Tensor]:
        """Errors on held-out windows by name, one value per window."""
        return {stage: self.loss(windows, stage) for stage in self.stages}

    def forecast(self, observed: Tensor, horizon: int) -> Tensor:
        """Frames `(n, horizon, channel, *space)` after `(n, time, channel, *space)`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Baseline(Settings, ABC):
    """The settings of a trained baseline."""

    kinds = TRAINED

    @property
    def window(self) -> int:
        """Frames of a training window."""
        return OBSERVED + 1

    @property
    def listed(self) -> int:
        """How many dynamics of an equation that is simulated while training are drawn once and for
        all (0: new ones in every batch)."""
        return 0

    @classmethod
    @abstractmethod
    def preset(cls, name: Literal["paper", "cpu", "tiny"], ndim: int) -> tuple[Self, Fitting]:
        """Sizes and training of a preset, for fields on so many axes."""

    def build(self, facts: Facts) -> Network:
        """The network for data of these facts, with weights from torch's random numbers.

        A baseline that is no `Network` has its own `train` and `load` instead.
        """
        raise NotImplementedError

    def train(
        self, data: Data, folder: Path, fitting: Fitting, name: str, execution: Execution
    ) -> Forecaster:
        """Train into a folder, or continue the training that is there."""
        from opsplit.baselines.train import train_network

        return train_network(self, data, folder, fitting, name, execution)

    def load(self, folder: Path) -> Forecaster:
        """What `train` left in a folder."""
        from opsplit.baselines.trained import NetworkForecaster

        return NetworkForecaster.load(self, folder)


def relative(predicted: Tensor, target: Tensor) -> Tensor:
    """The paper's loss `||p - t|| / ||t||` per window, over all but the first axis."""
    gap, size = (x.flatten(1).norm(dim=1) for x in (predicted - target, target))
    return gap / size.clamp_min(torch.finfo(target.dtype).tiny)
