"""Forecasts of the kind that was observed: numpy, torch, `Trajectories` or xarray."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit.io.assemble import Flags
from opsplit.io.read import is_xarray
from opsplit.io.recording import Changes
from opsplit.trajectories import Trajectories

Like = Callable[[Tensor, Tensor], Any]
"""Frames `(trajectory, time, channel, *space)` and their times after the last observed one."""


def like(given: Any, observed: Trajectories, changes: Changes | None = None) -> Like:
    """How to return forecasts of what was `observed` in the data `given`, on the points given.

    Files and recordings give numpy. Of one trajectory the axis of trajectories is left out.
    """
    if isinstance(given, Trajectories):
        return lambda frames, ahead: _trajectories(observed, frames, ahead)
    if changes is not None and (changes.repeated or changes.turned):
        inner, ndim = like(given, observed), observed.grid.ndim
        return lambda frames, ahead: inner(changes.undone(frames, ndim), ahead)
    if isinstance(given, Tensor):
        kind = given.new_zeros(0)
        real = kind.is_floating_point()
        return lambda frames, ahead: _alone(frames).to(kind if real else kind.device)
    if is_xarray(given):
        return lambda frames, ahead: _xarray(given, observed, frames, ahead)
    dtype = given.dtype if isinstance(given, np.ndarray) else np.dtype(np.float32)
    single = dtype if np.issubdtype(dtype, np.floating) else np.dtype(np.float32)
    return lambda frames, ahead: _alone(frames).cpu().numpy().astype(single, copy=False)


def _alone(frames: Tensor) -> Tensor:
    return frames[0] if len(frames) == 1 else frames


def _trajectories(observed: Trajectories, frames: Tensor, ahead: Tensor) -> Trajectories:
    times = observed.times[-1] + ahead.to(observed.times)
    data = frames.to(dtype=observed.data.dtype, device=observed.data.device)
    return replace(observed, data=data, times=times, understood="")


def _xarray(given: Any, observed: Trajectories, frames: Tensor, ahead: Tensor) -> Any:
    from opsplit.io.netcdf import as_dataset, letters_of
    from opsplit.xarrays import continued

    held = as_dataset(given)
    fields, dims = letters_of("xarray", held, Flags())
    letters, width = list(dims), len(observed.channels) // len(fields)
    axes = ["n", "t", "c", *"xyz"[: observed.grid.ndim]]
    made = {}
    for i, name in enumerate(fields):
        values = frames[:, :, i * width : (i + 1) * width].cpu().numpy()
        gone = tuple(axes.index(a) for a in axes if a not in letters)
        values = np.squeeze(values, gone)
        kept = [a for a in axes if a in letters]
        values = values.transpose([kept.index(a) for a in letters])
        kind = held[name].dtype
        made[name] = values.astype(kind if kind.kind == "f" else np.float32)
    return continued(given, made, dims, torch.as_tensor(ahead).double().numpy())
