"""Training data from whatever a user has: trajectories, a recording, a file, or an equation."""

from __future__ import annotations

from pathlib import Path

from opsplit.errors import OpsplitError
from opsplit.io.read import read
from opsplit.io.recording import Recording
from opsplit.physics import PHYSICS, Physics, get_physics
from opsplit.pretrain.config import Batches
from opsplit.pretrain.sources import FreshSource, StoredSource
from opsplit.trajectories import Trajectories

Data = Trajectories | Recording | Physics | str | Path
LIMIT_MB = 64_000.0
"""Training data are read into memory whole, up to this size."""


def is_stored(data: Data) -> bool:
    """Whether the data are there, rather than an equation that makes them."""
    return not isinstance(data, Physics) and str(data) not in PHYSICS


def open_source(data: Data, batches: Batches) -> FreshSource | StoredSource:
    """The source of training batches."""
    if not is_stored(data):
        physics = data if isinstance(data, Physics) else get_physics(str(data))
        return _simulated(physics, batches.split)
    return StoredSource(load(data), batches.resolved)


def load(data: Data) -> Trajectories:
    """Stored data in memory, with frames at equal distances."""
    assert not isinstance(data, Physics)
    if isinstance(data, str | Path):
        if not Path(data).exists():
            known = ", ".join(PHYSICS)
            raise OpsplitError(f"No such file: {data}; it is no equation either ({known}).")
        data = read(data)
    if isinstance(data, Recording):
        data = data.load(limit_mb=LIMIT_MB)
    if not data.uniform:
        raise OpsplitError(
            "Training needs frames at equal distances in time; resample the data before."
        )
    return data


def _simulated(physics: Physics, split: str) -> FreshSource:
    physics.check_split(split)
    if "warm-up" not in physics.splits:
        raise OpsplitError(
            f"{physics.name} is too dear to simulate while training. Store trajectories first: "
            f"opsplit generate {physics.name} --out data, then "
            f"opsplit pretrain {physics.name} --data data/{physics.name}"
        )
    return FreshSource(physics)


def name_of(data: Data) -> str:
    """A name for the model, if the user gives none."""
    if isinstance(data, Physics):
        return data.name
    if isinstance(data, Recording):
        data = data.source
    return "mine" if isinstance(data, Trajectories) else Path(data).stem or "mine"
