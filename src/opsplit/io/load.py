"""Whole files as `Trajectories`, for training."""

from __future__ import annotations

import math
from pathlib import Path

from opsplit._memory import check_room
from opsplit.errors import OpsplitError
from opsplit.io.read import read
from opsplit.trajectories import Trajectories


def load_trajectories(path: str | Path) -> Trajectories:
    """All trajectories of a file or a folder in any format that `read` takes.

    Times must be known and no value missing.
    """
    recording = read(path)
    if "dt" in recording.guessed:
        raise OpsplitError(
            f"{path} does not say the time between frames; store an array dt or t beside the field."
        )
    check_room(str(path), math.prod(recording.shape) * 8.0)
    found = recording.load(limit_mb=math.inf)
    if not bool(found.data.isfinite().all()):
        raise OpsplitError(f"{path} has values NaN or infinite; fill or cut them before training.")
    return found
