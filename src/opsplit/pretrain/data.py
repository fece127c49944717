"""Training data from whatever a user has: trajectories, a recording, a file, or an equation."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path

import torch

from opsplit._memory import check_room
from opsplit.boundary import OPEN
from opsplit.errors import OpsplitError, OpsplitWarning
from opsplit.io.read import read
from opsplit.io.recording import Recording
from opsplit.physics import PHYSICS, Physics, get_physics
from opsplit.predict.adapt import between
from opsplit.predict.ends import Ends, ends_of
from opsplit.predict.walls import Walls
from opsplit.pretrain.config import Batches
from opsplit.pretrain.sources import FreshSource, StoredSource
from opsplit.settings import path_argument
from opsplit.trajectories import Trajectories

LOOKED_AT = 16
"""Trajectories whose ends are looked at, evenly chosen."""
Data = Trajectories | Recording | Physics | str | Path
LIMIT_MB = 64_000.0
"""Training data are read into memory whole, up to so many megabytes in double precision."""


def is_stored(data: Data) -> bool:
    """Whether the data are there, rather than an equation that makes them."""
    return not isinstance(data, Physics) and str(data) not in PHYSICS


def open_source(
    data: Data, batches: Batches, continued: bool = False
) -> FreshSource | StoredSource:
    """The source of training batches.

    Arguments:
        continued: whether stored fields between walls are continued beyond them by symmetry.
    """
    if not is_stored(data):
        physics = data if isinstance(data, Physics) else get_physics(str(data))
        return _simulated(physics, batches.split)
    assert not isinstance(data, Physics)
    return StoredSource(load(data, continued), batches.resolved)


def load(data: Trajectories | Recording | str | Path, continued: bool = False) -> Trajectories:
    """Stored data in memory, with frames at equal distances."""
    if isinstance(data, str | Path):
        if not Path(data).exists():
            known = ", ".join(PHYSICS)
            raise OpsplitError(f"No such file: {data}; it is no equation either ({known}).")
        data = read(data)
    found = _in_memory(data) if isinstance(data, Recording) else data
    if not found.uniform:
        raise OpsplitError(
            "Training needs frames at equal distances in time; resample the data first."
        )
    if not continued:
        return found
    return _beyond_walls(found, data if isinstance(data, Recording) else read(data))


def _beyond_walls(found: Trajectories, recording: Recording) -> Trajectories:
    """Fields between walls continued to periodic ones, as forecasts continue them."""
    ends = _shared_ends(recording)
    if any(OPEN in (one.left.side.kind, one.right.side.kind) for one in ends):
        return found
    walls = Walls.of(found.grid, ends)
    if not walls.any:
        return found
    warnings.warn(
        f"The fields lie between walls ({walls.words}): they are continued beyond them by "
        "symmetry, and mechanisms that do not keep it will be called weak.",
        OpsplitWarning,
        stacklevel=2,
    )
    grid = between(found.grid, walls) if recording.box else found.grid
    return walls.unfold(replace(found, grid=grid))


def _shared_ends(recording: Recording) -> list[Ends]:
    """The ends that suit most trajectories: not every mechanism keeps the symmetry of its walls."""
    count = min(len(recording), LOOKED_AT)
    chosen = [round(i * (len(recording) - 1) / max(1, count - 1)) for i in range(count)]
    each = [ends_of(recording.part([i])) for i in chosen]
    smooth = [ends for ends in each if all(one.smooth for one in ends)]
    words = [tuple(one.words for one in ends) for ends in smooth or each]
    return (smooth or each)[words.index(max(words, key=words.count))]


def _in_memory(recording: Recording) -> Trajectories:
    """All trajectories in single precision, read one by one into their place."""
    if "dt" not in recording.known:
        raise OpsplitError(
            f"{recording.source} does not say the time between frames; add --dt, or in Python "
            "opsplit.read(..., dt=0.1)."
        )
    if "extent" not in recording.known:
        warnings.warn(
            f"{recording.source} does not say how long its axes are: {recording.grid.extent} is "
            "assumed, and coefficients are in that unit.",
            OpsplitWarning,
            stacklevel=2,
        )
    limit = LIMIT_MB / max(1, len(recording))
    check_room(recording.source, math.prod(recording.shape) * 4.0)
    fields = torch.empty(recording.shape)
    for i in range(len(recording)):
        fields[i] = torch.from_numpy(recording.frames(i, limit_mb=limit))
    known = {k: torch.tensor(v) for k, v in recording.coefficients.items()}
    times = torch.tensor(recording.times)
    terms = recording.terms
    return Trajectories(fields, times, recording.grid, recording.channels, known, terms=terms)


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
    return "mine" if isinstance(data, Trajectories) else path_argument(data, "data").stem or "mine"
