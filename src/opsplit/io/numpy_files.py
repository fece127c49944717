"""Observed frames from `.npy` and `.npz` files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.trajectories import Trajectories


def read_numpy(
    path: Path,
    *,
    dt: float | None,
    extent: float | Sequence[float] | None,
    ndim: int,
    boundary: Sequence[str],
    trajectory: int = 0,
) -> Trajectories:
    """One trajectory from a file.

    `.npy` holds the array. `.npz` is either a file of `opsplit generate` (then `trajectory` says
    which) or has one array, or one named `u`, and may have `dt` and `extent`.
    """
    if path.suffix not in (".npy", ".npz"):
        raise OpsplitError(f"{path} is neither .npy nor .npz; save your array with numpy.save.")
    try:
        with open(path, "rb") as stream:
            held = np.load(stream, allow_pickle=False)
            arrays = {"u": held} if path.suffix == ".npy" else {k: held[k] for k in held.files}
    except FileNotFoundError:
        raise OpsplitError(f"No such file: {path}") from None
    except IsADirectoryError:
        raise OpsplitError(f"{path} is a folder; name a .npy or .npz file in it.") from None
    except (ValueError, OSError, EOFError, AttributeError, KeyError) as reason:
        raise OpsplitError(f"{path} cannot be read by numpy: {reason}") from None
    if {"data", "times", "extent"} <= arrays.keys():
        whole = Trajectories.load(path)
        if not 0 <= trajectory < len(whole):
            raise OpsplitError(
                f"{path} holds trajectories 0..{len(whole) - 1}, not number {trajectory}."
            )
        return whole[[trajectory]]
    if "u" in arrays:
        u = arrays["u"]
    elif len(arrays) == 1:
        (u,) = arrays.values()
    else:
        raise OpsplitError(
            f"{path} holds the arrays {sorted(arrays)}; name the one to read `u`."
        )
    step = dt if dt is not None else _number(arrays.get("dt"))
    if step is None:
        raise OpsplitError(f"{path} does not say the time between frames; add --dt.")
    length = extent if extent is not None else arrays.get("extent")
    return Trajectories.from_numpy(
        u, dt=step, extent=length, ndim=ndim, boundary=tuple(boundary)
    )


def _number(value: np.ndarray | None) -> float | None:
    return None if value is None or np.size(value) != 1 else float(np.ravel(value)[0])
