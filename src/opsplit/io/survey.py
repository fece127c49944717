"""A look at a recording as a whole: ranges, holes, seams, spectra and means, read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from opsplit.io.recording import Recording

BUDGET_MB = 256.0
"""Of a longer recording, evenly spread frames of so many megabytes are read."""
BLOCK_MB = 32.0


@dataclass(frozen=True)
class Survey:
    """What was seen. Per channel: `low`, `high`, `mean`, `std`; per axis: `seam`, `upper`."""

    frames: int
    """Frames read."""
    total: int
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    nans: np.ndarray
    """Values that are NaN or infinite, per channel, without missing frames."""
    bad: tuple[tuple[int, int], ...]
    """Trajectory and frame of every frame with such values, the first ten."""
    missing: tuple[tuple[int, int], ...]
    """Trajectory and frame of every missing frame."""
    seam: np.ndarray
    """Root mean square jump across the ends over the largest between neighbours."""
    upper: np.ndarray
    """Share of the energy about the mean in the upper third of the modes."""
    drift: np.ndarray
    """Per channel: how far the mean moves in time, over the deviation about it."""

    @property
    def whole(self) -> bool:
        return self.frames == self.total


def chosen_frames(recording: Recording, budget_mb: float) -> Iterator[tuple[int, range]]:
    """Trajectories and frames within the budget, spread evenly, in blocks."""
    n, count = recording.shape[:2]
    afford = max(2, int(budget_mb / recording.frame_mb))
    wanted = n if n * count <= afford else max(1, min(n, 16, afford // 2))
    each = min(count, max(2, afford // wanted))
    step = -(-count // each)
    block = max(1, int(BLOCK_MB / recording.frame_mb))
    for trajectory in np.unique(np.linspace(0, n - 1, wanted).round().astype(int)).tolist():
        frames = range(0, count, step)
        for begin in range(0, len(frames), block):
            yield trajectory, frames[begin : begin + block]


def survey(recording: Recording, budget_mb: float = BUDGET_MB) -> Survey:
    """Read the recording, or a sample of a long one, once."""
    # Sums of absurdly large numbers overflow, which the numbers then show.
    with np.errstate(all="ignore"):
        return _survey(recording, budget_mb)


def _survey(recording: Recording, budget_mb: float) -> Survey:
    channels, ndim = recording.shape[2], recording.grid.ndim
    low, high = np.full(channels, np.inf), np.full(channels, -np.inf)
    sums, squares, numbers = np.zeros((3, channels))
    nans = np.zeros(channels, dtype=int)
    bad: list[tuple[int, int]] = []
    missing: list[tuple[int, int]] = []
    jumps = [np.zeros(points) for points in recording.grid.shape]
    energy = np.zeros((2, ndim))
    means: dict[int, list[np.ndarray]] = {}
    seen = 0
    for trajectory, frames in chosen_frames(recording, budget_mb):
        u = recording.fetch(trajectory, slice(frames.start, frames.stop, frames.step))
        u = u.astype(np.float64)
        seen += len(u)
        space = tuple(range(2, u.ndim))
        hole = ~np.isfinite(u)
        gone = np.isnan(u).all(axis=(1, *space))
        holed = hole.any(axis=(1, *space)) & ~gone
        missing += [(trajectory, frames[i]) for i in np.flatnonzero(gone).tolist()]
        bad += [(trajectory, frames[i]) for i in np.flatnonzero(holed).tolist()]
        nans += hole[holed].sum(axis=(0, *space))
        kept = np.where(hole, np.nan, u)[~gone]
        if not len(kept):
            continue
        good = np.isfinite(kept)
        low = np.minimum(low, np.where(good, kept, np.inf).min(axis=(0, *space)))
        high = np.maximum(high, np.where(good, kept, -np.inf).max(axis=(0, *space)))
        filled = np.where(good, kept, 0.0)
        sums += filled.sum(axis=(0, *space))
        squares += np.square(filled).sum(axis=(0, *space))
        numbers += good.sum(axis=(0, *space))
        clean = u[~gone & ~holed]
        if not len(clean):
            continue
        means.setdefault(trajectory, []).append(clean.mean(axis=space))
        for i, axis in enumerate(space):
            v = np.moveaxis(clean, axis, -1).reshape(-1, clean.shape[axis])
            jumps[i] += np.square(np.roll(v, -1, 1) - v).sum(0)
            power = np.square(np.abs(np.fft.rfft(v, axis=1))).sum(0)
            energy[0, i] += power[-(len(power) // 3) :].sum()
            energy[1, i] += power[1:].sum()
    mean = sums / numbers
    std = np.sqrt(np.maximum(squares / numbers - mean**2, 0))
    # The last jump is the one from the last point to the first.
    seam = np.array([np.sqrt(j[-1] / j[:-1].max()) if j[:-1].any() else 0.0 for j in jumps])
    upper = np.where(energy[1] > 0, energy[0] / energy[1], 0.0)
    moved = [np.ptp(np.concatenate(held), axis=0) for held in means.values()]
    drift = np.max(moved, axis=0) / np.where(std > 0, std, 1.0) if moved else mean * np.nan
    return Survey(
        seen, recording.shape[0] * recording.shape[1], low, high, mean, std, nans,
        tuple(bad[:10]), tuple(missing), seam, upper, drift,
    )  # fmt: skip
