"""Whatever a caller has becomes a `Recording`, read the way one model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from opsplit._tensors import as_numpy
from opsplit.boundary import PERIODIC
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import ModelConfig
from opsplit.io.assemble import Flags
from opsplit.io.read import is_xarray, read
from opsplit.io.recording import Recording
from opsplit.model import lifted_grid
from opsplit.trajectories import Trajectories, unmasked

FEWEST = 8
"""An axis of an array with fewer points than this is not taken for one of space."""


def observe(given: Any, config: ModelConfig, flags: Flags | None = None) -> Recording:
    """The data as the model reads them; what they do not say the model says.

    `describe` and `fit` both come through here, so that they guess alike.

    Arguments:
        given: a numpy array or a torch tensor `(time, *space)`, `(time, channel, *space)` or
            `(trajectory, time, channel, *space)`, or a list of trajectories; `Trajectories`, a
            `Recording`, xarray data, a path or several.
        flags: what the caller says about it.
    """
    said = flags or Flags()
    if isinstance(given, Recording):
        found = _told(given, said)
    elif isinstance(given, Trajectories):
        found = _told(read(given), said)
    elif is_path(given) or is_xarray(given) or said.axes is not None:
        found = _opened(given, config, said)
    else:
        found = _array(given, config, said)
    return _completed(found, config)


def open_as(given: Any, flags: Flags | None = None) -> Recording:
    """The data as they are, for no model in particular."""
    said = flags or Flags()
    if isinstance(given, Recording):
        return _told(given, said)
    return _told(read(given), said) if isinstance(given, Trajectories) else _read(given, said)


def is_path(given: Any) -> bool:
    """Whether it names a file, a folder, or several files."""
    several = given if isinstance(given, list | tuple) else [given]
    return bool(several) and all(isinstance(one, str | Path) for one in several)


def _opened(given: Any, config: ModelConfig, flags: Flags) -> Recording:
    """A file or named data; where the lengths allow it, with the model's number of space axes."""
    told = replace(flags, ndim=config.ndim)
    free = flags.ndim is None and flags.axes is None
    try:
        found = _read(given, flags)
    except OpsplitError:
        if not free:
            raise
        return _read(given, told)
    if free and found.grid.ndim != config.ndim:
        with suppress(OpsplitError):
            other = _read(given, told)
            fits = len(found.channels) == len(config.channels) and found.grid.ndim > config.ndim
            # A space axis read as channels must not hide the reason why a model does not fit.
            if not fits and len(other.channels) == len(config.channels):
                return other
    return found


def _read(given: Any, flags: Flags) -> Recording:
    return read(
        given, axes=flags.axes, channels=flags.channels, dt=flags.dt, extent=flags.extent,
        boundary=flags.boundary, ndim=flags.ndim, times=flags.times,
    )  # fmt: skip


def _array(given: Any, config: ModelConfig, flags: Flags) -> Recording:
    """An array in memory, whose axes have a fixed order."""
    names = flags.names
    stated = flags.boundary
    silent = flags.dt is None and flags.times is None
    ndim = _axes(given, config) if flags.ndim is None else flags.ndim
    made = Trajectories.from_numpy(
        _stacked(given, ndim),
        dt=1.0 if silent else flags.dt,
        times=flags.times,
        extent=flags.extent,
        ndim=ndim,
        channels=names,
        boundary=("periodic" if stated is None
                  else stated.split(",") if isinstance(stated, str) and "," in stated else stated),
    )  # fmt: skip
    known = read(made)
    if names is None and made.data.shape[2] == len(config.channels):
        # Nobody named the channels: they are the model's, in its order.
        known = replace(known, channels=tuple(config.channels))
    unsaid = {"dt": silent, "extent": flags.extent is None, "boundary": stated is None}
    guessed = {what: f"Nothing says the {what}." for what, missing in unsaid.items() if missing}
    facts = (f"Read as {made.understood}.",)
    return replace(
        known, source="array", format="array", facts=facts, guessed=guessed,
        box=flags.extent is not None,
    )  # fmt: skip


def _axes(given: Any, config: ModelConfig) -> int:
    """Space axes of an array: the model's, or more where only then the channels are the model's."""
    if isinstance(given, list | tuple):
        return config.ndim
    shape = tuple(np.shape(given)) if not isinstance(given, Tensor) else tuple(given.shape)
    for ndim in range(config.ndim, 4):
        # (time, *space), (time, channel, *space), (trajectory, time, channel, *space)
        before = shape[: len(shape) - ndim]
        channels = before[-1] if len(before) in (2, 3) else len(before)
        if channels == len(config.channels) and (
            ndim == config.ndim or min(shape[-ndim:]) >= FEWEST
        ):
            return ndim
    return config.ndim


def _stacked(given: Any, ndim: int) -> Any:
    """A list of trajectories as one array; everything else as it is."""
    if not isinstance(given, list | tuple) or not given:
        return given
    parts = [as_numpy(one) if isinstance(one, Tensor) else unmasked(one) for one in given]
    if parts[0].ndim <= ndim:
        return np.asarray(given)
    whole = [part[:, None] if part.ndim == ndim + 1 else part for part in parts]
    if len({part.shape for part in whole}) > 1:
        raise OpsplitError(
            "Trajectories that are fitted together need equal shapes, got "
            f"{', '.join(str(part.shape) for part in parts[:4])}; cut them alike."
        )
    return np.stack(whole)


def _told(recording: Recording, flags: Flags) -> Recording:
    """A recording with what the caller adds; contradictions are refused."""
    where, guessed = recording.source, dict(recording.guessed)
    times, grid = recording.times, recording.grid
    if flags.dt is not None or flags.times is not None:
        given = flags.times
        if given is None:
            step = _positive(flags.dt)
            given = times[0] + step * np.arange(len(times))
        given = np.asarray(given, dtype=np.float64).ravel()
        if len(given) != len(times):
            raise OpsplitError(
                f"{where}: {len(times)} frames need as many times, got {len(given)}."
            )
        steps = np.diff(given)
        if not (np.isfinite(given).all() and (steps > 0).all()):
            raise OpsplitError("times must be finite and increase from frame to frame.")
        if "dt" not in guessed and not np.allclose(steps, np.diff(times), rtol=1e-3, atol=0):
            _contradiction(where, "time between frames", f"{recording.dt:.6g}", flags.dt or "times")
        if guessed.pop("dt", None) is not None:
            times = given
    if flags.extent is not None:
        lengths = _lengths(flags.extent, grid.ndim)
        if "extent" not in guessed and not np.allclose(lengths, grid.extent, rtol=1e-3):
            _contradiction(where, "extent", grid.extent, tuple(lengths))
        if guessed.pop("extent", None) is not None:
            grid = replace(grid, extent=tuple(lengths))
    return replace(recording, times=times, grid=grid, guessed=guessed)


def _positive(dt: float | None) -> float:
    if dt is None or not (np.isfinite(dt) and dt > 0):
        raise OpsplitError(f"dt is the time between frames and must be positive, got {dt!r}.")
    return dt


def _lengths(extent: float | Sequence[float], ndim: int) -> list[float]:
    lengths = np.ravel(np.asarray(extent, dtype=np.float64))
    if len(lengths) not in (1, ndim) or not (lengths > 0).all():
        raise OpsplitError(f"Each of the {ndim} space axes needs one extent, got {extent}.")
    found: list[float] = np.broadcast_to(lengths, ndim).tolist()
    return found


def _contradiction(where: str, what: str, held: Any, given: Any) -> None:
    raise OpsplitError(
        f"{where}: the {what} in the data: {held}, as you say: {given}. Leave yours out, or "
        "correct the data."
    )


def _completed(recording: Recording, config: ModelConfig) -> Recording:
    """The model's box and boundaries where the data say nothing of them."""
    grid = recording.grid
    if grid.ndim < config.ndim:
        return recording
    trained = lifted_grid(config.grid, grid.ndim)
    guessed = dict(recording.guessed)
    if "extent" in guessed:
        sizes = " x ".join(f"{length:.4g}" for length in trained.extent)
        grid = replace(grid, extent=trained.extent)
        guessed["extent"] = (
            f"Nothing says how large the box is: it is taken as {sizes}, the model's (say extent)."
        )
    if "boundary" in guessed and set(trained.boundary) != {PERIODIC}:
        grid = replace(grid, boundary=trained.boundary)
        words = ", ".join(dict.fromkeys(trained.boundary))
        guessed["boundary"] = (
            f"Nothing says what the boundaries are: they are taken as {words}, the model's."
        )
    return replace(recording, grid=grid, guessed=guessed)
