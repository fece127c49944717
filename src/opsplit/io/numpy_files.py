"""Observed frames from `.npy` and `.npz` files."""

from __future__ import annotations

import zipfile
import zlib
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
    default_extent: Sequence[float] | None = None,
) -> Trajectories:
    """One trajectory from a file.

    `.npy` holds the array. `.npz` is either a file of `opsplit generate` (then `trajectory` says
    which) or has one array, or one named `u`, and may have `dt` and `extent`. Where neither
    `extent` nor the file says how long the domain is, `default_extent` does.
    """
    if path.suffix not in (".npy", ".npz"):
        raise OpsplitError(f"{path} is neither .npy nor .npz; save your array with numpy.save.")
    try:
        with open(path, "rb") as stream:
            held = np.load(stream, allow_pickle=False)
            if isinstance(held, np.ndarray) != (path.suffix == ".npy"):
                raise OpsplitError(
                    f"{path} does not hold what its name says; rename or save it again."
                )
            arrays = {"u": held} if path.suffix == ".npy" else {k: held[k] for k in held.files}
    except FileNotFoundError:
        raise OpsplitError(f"No such file: {path}") from None
    except IsADirectoryError:
        raise OpsplitError(f"{path} is a folder; name a .npy or .npz file in it.") from None
    except OpsplitError:
        raise
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as reason:
        raise OpsplitError(
            f"{path} cannot be read by numpy ({reason}); save the array again with numpy.save."
        ) from None
    if {"data", "times", "extent"} <= arrays.keys():
        whole = Trajectories.load(path)
        _check_flag(path, "--dt", dt, whole.dt)
        _check_flag(path, "--extent", extent, whole.grid.extent)
    else:
        whole = _plain(path, arrays, dt, extent, ndim, boundary, default_extent)
    if not 0 <= trajectory < len(whole):
        raise OpsplitError(
            f"{path} holds trajectories 0..{len(whole) - 1}, not number {trajectory}."
        )
    return whole if len(whole) == 1 else whole[[trajectory]]


def _plain(
    path: Path,
    arrays: dict[str, np.ndarray],
    dt: float | None,
    extent: float | Sequence[float] | None,
    ndim: int,
    boundary: Sequence[str],
    default_extent: Sequence[float] | None,
) -> Trajectories:
    """Trajectories from a user's own arrays."""
    if "u" in arrays:
        u = arrays["u"]
    elif len(arrays) == 1:
        (u,) = arrays.values()
    else:
        raise OpsplitError(f"{path} holds the arrays {sorted(arrays)}; name the one to read `u`.")
    step = dt if dt is not None else _number(arrays.get("dt"))
    if step is None:
        raise OpsplitError(f"{path} does not say the time between frames; add --dt.")
    length = default_extent if extent is None else extent
    if extent is None and "extent" in arrays:
        length = np.ravel(arrays["extent"]).tolist()
    try:
        return Trajectories.from_numpy(
            u, dt=step, extent=length, ndim=ndim, boundary=tuple(boundary)
        )
    except OpsplitError as reason:
        raise OpsplitError(f"{path}: {reason}") from None


def _check_flag(
    path: Path, flag: str, given: float | Sequence[float] | None, held: float | Sequence[float]
) -> None:
    """A flag must not contradict a file that knows better."""
    if given is not None and not np.allclose(given, held, rtol=1e-3, atol=0):
        raise OpsplitError(f"{path} says {held}, {flag} says {given}; leave {flag} out.")


def _number(value: np.ndarray | None) -> float | None:
    return None if value is None or np.size(value) != 1 else float(np.ravel(value)[0])
