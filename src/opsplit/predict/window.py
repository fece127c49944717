"""The observed frames as operators see them: resampled, without noise, in units of their size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import resample
from opsplit.grid import Grid
from opsplit.hypernetwork.config import ModelConfig
from opsplit.io.recording import Recording
from opsplit.predict.denoise import denoise
from opsplit.trajectories import Trajectories

SEVERAL = 1e-9
"""Coefficients that differ by no more than this share are those of one dynamics."""


@dataclass(frozen=True)
class Window:
    """Frames of one or several trajectories of one dynamics, prepared for a search."""

    frames: tuple[Tensor, ...]
    """Of every trajectory `(time, channel, *space)`, over `unit`, channels as in the model."""
    moments: tuple[Tensor, ...]
    """Times of these frames."""
    grid: Grid
    """Where the operators act."""
    unit: float
    """The fields' size that they were divided by."""
    noise: float
    """Standard deviation of the white noise that was taken out, in the units of the data."""
    size: float
    """Standard deviation of the fields, in the units of the data."""

    @property
    def joined(self) -> Tensor:
        """All frames, one trajectory after the other."""
        return torch.cat(self.frames)

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
    """The frames in memory: all, or of a file the last so many; missing ones are left out."""
    one_dynamics(recording)
    keep = slice(None) if recording.in_memory or not last else slice(-last, None)
    loaded = recording.load(frames=keep)
    gone = loaded.data.isnan().transpose(0, 1).flatten(1).all(1).cpu()
    if int((~gone).sum()) < 2:
        raise OpsplitError(f"{recording.source}: fewer than 2 frames are there, the rest is NaN.")
    if bool(gone.any()):
        loaded = replace(loaded, data=loaded.data[:, ~gone], times=loaded.times[~gone])
    return replace(loaded, understood=" ".join(recording.understood))


def one_dynamics(recording: Recording) -> None:
    """Refuse trajectories whose stored coefficients differ: no one composition explains them."""
    for name, values in recording.coefficients.items():
        if len(recording) > 1 and abs(values - values[0]).max() > SEVERAL * abs(values).max():
            raise OpsplitError(
                f"{recording.source} holds {len(recording)} trajectories with different {name}; "
                "one fit explains one dynamics. Choose one, such as trajectory=0."
            )


def prepare(
    observed: Trajectories,
    grid: Grid,
    config: ModelConfig,
    last: int | None,
    clean: bool,
    device: str,
) -> Window:
    """The last frames of every trajectory on the working grid.

    Arguments:
        grid: where the operators act.
        last: so many frames (None: all).
        clean: whether to take out white noise.
    """
    order = channel_order(observed.channels, config.channels)
    frames, moments, noises = [], [], []
    for data in observed.data:
        there = ~data.isnan().flatten(1).all(1)
        recent = slice(-last, None) if last else slice(None)
        chosen, times = data[there][recent][:, order], observed.times[there.cpu()][recent]
        if len(chosen) < 2:
            raise OpsplitError("A trajectory has fewer than 2 frames that are not missing.")
        work = resample(chosen.to(device=device, dtype=torch.float32), grid.shape)
        noise = 0.0
        if clean:
            work, noise = denoise(work, grid)
        frames.append(work)
        moments.append(times)
        noises.append(noise)
    whole = torch.cat(frames)
    unit = (float(whole.std()) if config.rescale else 1.0) or 1.0
    noise = math.sqrt(sum(x * x for x in noises) / len(noises))
    size = float(whole.std())
    return Window(tuple(f / unit for f in frames), tuple(moments), grid, unit, noise, size)


def channel_order(held: tuple[str, ...], known: tuple[str, ...]) -> list[int]:
    """Places of the model's channels among the data's; names that say nothing keep their place."""
    if set(held) == set(known):
        return [held.index(name) for name in known]
    return list(range(len(held)))


def runs(moments: Tensor, gap: float) -> list[slice]:
    """Frames that follow each other without a gap longer than `gap`."""
    breaks = [0, *((moments.diff() > gap).nonzero()[:, 0] + 1).tolist(), len(moments)]
    return [slice(a, b) for a, b in pairwise(breaks) if b - a > 1]
