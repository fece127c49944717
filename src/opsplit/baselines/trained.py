"""A trained network on disk: settings and facts as JSON, weights as safetensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsplit._files import read_json, write_json
from opsplit._tensors import read_tensors, same_shapes, save_tensors
from opsplit.baselines.protocol import Baseline, Forecaster, Network
from opsplit.errors import OpsplitError
from opsplit.pretrain.sources import Facts
from opsplit.trajectories import Trajectories

SETTINGS, WEIGHTS, METRICS = "baseline.json", "model.safetensors", "metrics.json"
FOLDER = Path("runs/baselines")
"""Trained baselines lie in FOLDER/PHYSICS/METHOD, unless the user says otherwise."""


class NetworkForecaster(Forecaster):
    """A trained network with the facts of its data.

    Arguments:
        data: grid, time step, channels and scale of the training data.
        facts: how it was trained.
    """

    def __init__(
        self, settings: Baseline, data: Facts, network: Network, facts: dict[str, Any]
    ) -> None:
        self.settings, self.data, self.network, self.facts = settings, data, network, facts

    def forecast(self, observed: Trajectories, horizon: int, seed: int = 0) -> Tensor:
        self.check(observed)
        self.network.eval()
        device = next(self.network.parameters()).device
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            frames = observed.data.float().to(device) / self.data.scale
            return self.network.forecast(frames, horizon).cpu() * self.data.scale

    def check(self, observed: Trajectories) -> None:
        """Refuse windows that differ from the training data."""
        known, given = self.data, observed
        pairs = {
            "points per axis": (known.grid.shape, given.grid.shape),
            "channels": (len(known.channels), len(given.channels)),
        }
        for what, (expected, got) in pairs.items():
            if expected != got:
                raise OpsplitError(
                    f"This {self.settings.kind} was trained with {what} {expected}, got {got}; "
                    "train one on such data with `opsplit pretrain --method`."
                )
        if abs(known.dt - given.dt) > 1e-3 * known.dt:
            raise OpsplitError(
                f"This {self.settings.kind} was trained on frames {known.dt:.6g} apart, these are "
                f"{given.dt:.6g} apart; resample them."
            )

    def fingerprint(self) -> str:
        return hash_of(self.settings, self.network.state_dict())

    def save(self, folder: Path) -> None:
        save_tensors(folder / WEIGHTS, numbers(self.network.state_dict()))
        parts = {"settings": self.settings.to_json(), "data": self.data.to_json()}
        write_json(folder / SETTINGS, parts)

    @classmethod
    def load(cls, settings: Baseline, folder: Path) -> NetworkForecaster:
        data = Facts.from_json(_part(folder, "data"))
        network = settings.build(data)
        shapes = {name: tuple(t.shape) for name, t in network.state_dict().items()}
        network.load_state_dict(read_tensors(folder, WEIGHTS, same_shapes(shapes)))
        network.eval().requires_grad_(False)
        return cls(settings, data, network, read_json(folder / METRICS))


def numbers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """All tensors of a network in single precision, its flags and counters too.

    Copies, because a file must not hold two tensors that share their memory.
    """
    return {k: t.detach().cpu().float().clone().contiguous() for k, t in state.items()}


def hash_of(settings: Baseline, state: Mapping[str, Tensor]) -> str:
    """A short hash of settings and weights."""
    digest = hashlib.sha256(json.dumps(settings.to_json(), sort_keys=True).encode())
    for name, tensor in sorted(numbers(state).items()):
        digest.update(name.encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:12]


def load_trained(folder: Path, **changes: Any) -> Forecaster:
    """The baseline in a folder; `changes` replace settings that training does not depend on."""
    if not (folder / METRICS).exists() or not (folder / SETTINGS).exists():
        raise OpsplitError(
            f"{folder} holds no trained baseline; run `opsplit pretrain PHYSICS --method NAME "
            f"--out {folder}` first."
        )
    settings: Baseline = Baseline.from_json(_part(folder, "settings"))
    return replace(settings, **changes).load(folder)


def _part(folder: Path, name: str) -> Any:
    held = read_json(folder / SETTINGS)
    if not isinstance(held, dict) or name not in held:
        raise OpsplitError(f"{folder / SETTINGS} has no {name!r}; train the baseline again.")
    return held[name]
