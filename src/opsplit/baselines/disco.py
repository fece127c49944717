"""DISCO as published: a hypernetwork reads one plain U-Net off 16 frames, and no search follows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor

from opsplit._files import write_json
from opsplit.baselines.protocol import Baseline, Fitting, Forecaster
from opsplit.baselines.trained import SETTINGS, hash_of
from opsplit.errors import no_warnings
from opsplit.hypernetwork.config import EncoderConfig
from opsplit.model import Model
from opsplit.operators.unet import UNet
from opsplit.predict.estimator import OperatorSplitter
from opsplit.pretrain.config import Batches, Budget, Count, Optimiser, TrainConfig
from opsplit.pretrain.data import Data, is_stored
from opsplit.pretrain.loop import Execution
from opsplit.pretrain.run import pretrain
from opsplit.trajectories import Trajectories

WARM_UP = 20
"""Steps of the linear warm-up within a budget of minutes, which may hold only a hundred steps."""


@dataclass(frozen=True)
class DISCO(Baseline):
    """Settings of DISCO: the paper's recipes, in-context or with an averaged codebook."""

    kind = "disco"

    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    states: Count = 15
    """States per context and step."""

    @classmethod
    def preset(cls, name: Literal["paper", "cpu", "tiny"], ndim: int) -> tuple[Self, Fitting]:
        line = ndim == 1
        if name == "paper":
            steps = 300_000 if line else 100_000
            return cls(), Fitting(Budget(steps=steps), batch=32, learning_rate=3e-4, clip=1.0)
        small = EncoderConfig(code=3 if line else 2, width=32, blocks=2, patch=16,
                              layer_scale=0.3, head_width=32)  # fmt: skip
        if name == "tiny":
            return cls(small, states=8), Fitting(
                Budget(steps=150, validate_every=50), batch=4, learning_rate=3e-3, clip=1.0
            )
        budget = Budget(steps=100_000, minutes=30, validate_every=100)
        batch, states = (8, 8) if line else (4, 2)
        return cls(small, states), Fitting(budget, batch, learning_rate=2e-3, clip=1.0)

    def train(
        self, data: Data, folder: Path, fitting: Fitting, name: str, execution: Execution
    ) -> Direct:
        budget = fitting.budget
        # Minutes of one core, however many others share it: budgets of methods are equal.
        execution = replace(execution, processor_time=execution.device == "cpu")
        training = TrainConfig(
            recipe="codebook" if is_stored(data) else "in-context",
            budget=budget,
            batches=Batches(environments=fitting.batch, states=self.states),
            optimiser=Optimiser(
                fitting.learning_rate,
                fitting.weight_decay,
                warm_up=WARM_UP
                if budget.minutes
                else max(1, min(1000, round(fitting.warm_up * budget.steps))),
                clip=fitting.clip or 1e12,
            ),
            seed=fitting.seed,
        )
        model = pretrain(data, folder, operator=UNet(), training=training, encoder=self.encoder,
                         name=name, execution=execution)  # fmt: skip
        write_json(folder / SETTINGS, {"settings": self.to_json()})
        return Direct(self, model)

    def load(self, folder: Path) -> Direct:
        return Direct(self, Model.load(folder))


class Direct(Forecaster):
    """Forecasts with the one operator that the hypernetwork reads from a window."""

    def __init__(self, settings: DISCO, model: Model) -> None:
        self.settings, self.model = settings, model
        count = sum(p.numel() for p in model.disco.parameters())
        self.facts: dict[str, Any] = model.metrics | {"method": "disco", "parameters": count}

    def forecast(self, observed: Trajectories, horizon: int, seed: int = 0) -> Tensor:
        return torch.stack([self._one(observed[[i]], horizon) for i in range(len(observed))])

    def _one(self, observed: Trajectories, horizon: int) -> Tensor:
        window = observed.data[0]
        # One substep, as in the paper.
        splitter = OperatorSplitter(self.model, search="beam", refinement=1)
        with no_warnings():
            splitter.fit(window, observed.dt, observed.grid.extent, self.model.read(window))
        return splitter.predict(steps=horizon).cpu()

    def fingerprint(self) -> str:
        return hash_of(self.settings, self.model.disco.state_dict())
