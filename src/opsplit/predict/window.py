"""The observed frames as operators see them: resampled, without noise, in their units."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from opsplit._tensors import at_once, in_pieces
from opsplit.boundary import PERIODIC
from opsplit.errors import OpsplitError
from opsplit.fourier import resample
from opsplit.grid import Grid
from opsplit.io.recording import Recording
from opsplit.predict.denoise import wiener
from opsplit.predict.holes import MOST, fill
from opsplit.predict.units import Units, check_size
from opsplit.trajectories import Trajectories

SEVERAL = 1e-9
"""Coefficients that differ by no more than this share are those of one dynamics."""


@dataclass(frozen=True)
class Window:
    """Frames of one or several trajectories of one dynamics, in the units of the operators."""

    frames: tuple[Tensor, ...]
    """Of every trajectory `(time, channel, *space)`, channels as in the model."""
    moments: tuple[Tensor, ...]
    """Times of these frames."""
    grid: Grid
    """Where the operators act."""
    units: Units
    """Those of everything here, over those of the data."""
    noise: float
    """Standard deviation of the white noise that was taken out."""
    size: float
    """Standard deviation of the fields."""
    left: float = 0.0
    """Standard deviation of the noise that is still there."""

    @property
    def joined(self) -> Tensor:
        """All frames, one trajectory after the other."""
        return self.frames[0] if len(self.frames) == 1 else torch.cat(self.frames)

    @property
    def between(self) -> list[float]:
        """Time between neighbouring frames; infinite where another trajectory begins."""
        steps: list[float] = []
        for moments in self.moments:
            steps += [math.inf] if steps else []
            steps += moments.diff().tolist()
        return steps

    def steps(self) -> float | list[float]:
        """What the objective takes: one step where all are alike, else one per pair."""
        each = torch.cat([moments.diff() for moments in self.moments]).double()
        if len(self.moments) == 1 and torch.allclose(each, each.mean(), rtol=1e-3, atol=0):
            moments = self.moments[0]
            return float((moments[-1] - moments[0]) / (len(moments) - 1))
        return self.between


def observed_frames(recording: Recording, last: int | None) -> Trajectories:
    """The frames in memory: all, or of a file the last so many; missing ones are left out.

    Single values that are missing are filled, and `understood` says so.
    """
    one_dynamics(recording)
    keep = slice(None) if recording.in_memory or not last else slice(-last, None)
    loaded = recording.load(frames=keep, holes=True)
    around = [word == PERIODIC for word in recording.grid.boundary]
    each = [fill(data.numpy(force=True), around) for data in loaded.data]
    filled, given_up = sum(n for _, n, _ in each), sum(n for _, _, n in each)
    said: list[str] = []
    if filled:
        said.append(f"{filled} values were missing and are filled from those around them.")
    if given_up:
        most = f"more than {100 * MOST:g} % missing values, or with wide holes,"
        said.append(f"{given_up} frames with {most} are left out.")
    if said:
        data = torch.from_numpy(np.stack([data for data, _, _ in each])).to(loaded.data.device)
        loaded = replace(loaded, data=data)
    gone = torch.stack([frame.isnan().all() for frame in loaded.data.transpose(0, 1)]).cpu()
    if int((~gone).sum()) < 2:
        raise OpsplitError(f"{recording.source}: fewer than 2 frames are there. {' '.join(said)}")
    if bool(gone.any()):
        loaded = replace(loaded, data=loaded.data[:, ~gone], times=loaded.times[~gone])
    return replace(loaded, understood=" ".join(said))


def one_dynamics(recording: Recording) -> None:
    """Refuse trajectories whose stored coefficients differ: no one composition explains them."""
    for name, values in recording.coefficients.items():
        if len(recording) > 1 and abs(values - values[0]).max() > SEVERAL * abs(values).max():
            raise OpsplitError(
                f"{recording.source} holds {len(recording)} trajectories with different {name}; "
                "one fit explains one dynamics. Choose one, such as trajectory=0."
            )


def recent_frames(
    observed: Trajectories, last: int | None, channels: tuple[str, ...], device: str
) -> tuple[list[Tensor], list[Tensor]]:
    """The last frames of every trajectory that are there, channels as in the model; their times.

    Arguments:
        last: so many frames (None: all).
    """
    order = channel_order(observed.channels, channels)
    frames, moments = [], []
    for data in observed.data:
        there = torch.stack([~frame.isnan().all() for frame in data])
        recent = slice(-last, None) if last else slice(None)
        chosen, times = data, observed.times[there.cpu()][recent]
        if not bool(there.all()):
            chosen = chosen[there]
        chosen = chosen[recent]
        if order != sorted(order):
            chosen = chosen[:, order]
        if len(chosen) < 2:
            raise OpsplitError("A trajectory has fewer than 2 frames that are not missing.")
        frames.append(chosen.to(device=device))
        moments.append(times)
    return frames, moments


def prepare(
    frames: list[Tensor],
    moments: list[Tensor],
    grid: Grid,
    units: Units,
    clean: bool,
    place: Callable[[Grid, Sequence[Tensor]], Grid],
) -> Window:
    """Frames in the units of the operators, without noise, on the grid where operators act.

    Arguments:
        frames: of every trajectory, in the units of the data.
        moments: their times.
        grid: their space.
        clean: whether to take out white noise.
        place: the grid where operators act, from the grid of the data and the frames on it, both
            in the units of the operators.
    """
    given, cleaned, noises, left = units.grid(grid), [], [], []
    for observed in frames:
        work = units.inside(observed)
        check_size(work)
        noise = still = 0.0
        if clean:
            work, noise, still = wiener(work, given)
        cleaned.append(work)
        noises.append(noise)
        left.append(still)
    used = place(given, cleaned)
    made = []
    for i, work in enumerate(cleaned):
        made.append(work.new_empty((*work.shape[:2], *used.shape), dtype=torch.float32))
        for few, there in zip(in_pieces(work), made[-1].split(at_once(work)), strict=True):
            there[:] = resample(few, used.shape)
        cleaned[i] = made[-1]  # Double precision is not needed any more.
    size = float((made[0] if len(made) == 1 else torch.cat(made)).std())
    times = tuple(t / units.time for t in moments)
    return Window(tuple(made), times, used, units, _usual(noises), size, _usual(left))


def _usual(deviations: Sequence[float]) -> float:
    """The deviation of all trajectories together."""
    return math.sqrt(sum(x * x for x in deviations) / len(deviations))


def channel_order(held: tuple[str, ...], known: tuple[str, ...]) -> list[int]:
    """Places of the model's channels among the data's; names that say nothing keep their place."""
    if set(held) == set(known):
        return [held.index(name) for name in known]
    return list(range(len(held)))


def runs(moments: Tensor, gap: float) -> list[slice]:
    """Frames that follow each other without a gap longer than `gap`."""
    breaks = [0, *((moments.diff() > gap).nonzero()[:, 0] + 1).tolist(), len(moments)]
    return [slice(a, b) for a, b in pairwise(breaks) if b - a > 1]
