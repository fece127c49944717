"""Frames without most of their white noise: every mode is as smooth in time as the data say.

A mode follows its trajectory smoothly, while noise begins anew with every frame. The penalty on
third differences that leaves the least expected error (Stein, 1981) is chosen mode by mode, from
all trajectories of an environment together. Modes in which nothing stands out of what is left of
the noise go.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from opsplit.fourier import field_of, spectrum_of
from opsplit.grid import Grid
from opsplit.pretrain.regression import mode_counts

WORTH = 0.01
"""Noise is taken out where it makes more than this share of the change of a step."""
FEWEST = 6
"""Frames without which nothing is known about smoothness in time."""
CLEAR = 9.0
"""A mode must hold so many times the energy of the noise that is left in it."""
REMAINS = 0.2
"""Frames of which less than this share is left are noise as a whole."""
PENALTIES = (0.0, *(10.0 ** (n / 3) for n in range(-9, 31)))


def noise_share(u: Tensor, deviation: Tensor) -> float:
    """How much of the change of a step is noise, the largest of all channels.

    Arguments:
        u: frames `(trajectory, time, channel, *space)`.
        deviation: of the noise, `(C,)`.
    """
    change = u.diff(dim=1).square().mean((0, 1, *range(3, u.ndim)))
    return float((2 * deviation.square() / change.clamp_min(1e-300)).sqrt().max())


def denoised(u: Tensor, deviation: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    """Frames `(trajectory, time, channel, *space)` without most of their noise, and a sample of
    the error that remains in them.

    The sample comes from the smoothed frames, shaken again and smoothed again. It is as large as
    the expected error of the smoothing, for courses that are not smooth are also bent by it.
    """
    draws = torch.Generator().manual_seed(4)
    wide = deviation.reshape(-1, *[1] * grid.ndim)
    shaken = wide * torch.randn(u.shape, generator=draws, dtype=u.dtype)
    if u.shape[1] < FEWEST or noise_share(u, deviation) <= WORTH:
        return u, shaken
    basis, rough = _smoothness(u.shape[1])
    points = math.prod(grid.shape)
    gain, risk = _gain(_turned(u, basis, grid), deviation.square() * points, rough)

    def smooth(v: Tensor) -> Tensor:
        kept = torch.einsum("ts,ns...->nt...", basis + 0j, gain * _turned(v, basis, grid))
        return field_of(kept, grid.shape)

    clean = smooth(u)
    if float(clean.std()) < REMAINS * float(u.std()):
        # Frames of nothing but noise have no field to be found.
        return u, shaken
    left = smooth(clean + shaken) - clean
    expected = (risk * mode_counts(grid)).flatten(1).sum(1) / points / left[0, :, 0].numel()
    usual = left.square().mean((0, 1, *range(3, u.ndim))).clamp_min(1e-300)
    larger = (expected / usual).clamp_min(1.0).sqrt()
    return clean, left * larger.reshape(wide.shape)


def _smoothness(frames: int) -> tuple[Tensor, Tensor]:
    """Courses in time `(time, course)`, smooth ones first, and their squared third differences."""
    third = torch.eye(frames, dtype=torch.float64).diff(n=3, dim=0)
    rough, basis = torch.linalg.eigh(third.T @ third)
    return basis, rough.clamp_min(0)


def _turned(u: Tensor, basis: Tensor, grid: Grid) -> Tensor:
    """Share of every course in every mode, `(trajectory, course, channel, *modes)`."""
    return torch.einsum("ts,nt...->ns...", basis + 0j, spectrum_of(u, grid.ndim))


def _gain(turned: Tensor, noise: Tensor, rough: Tensor) -> tuple[Tensor, Tensor]:
    """What is kept of every course, `(course, channel, *modes)`, and the error of every mode that
    is to be expected then.

    Arguments:
        noise: power per mode, `(C,)`.
    """
    power = turned.abs().square().mean(0)
    noise = noise.reshape(-1, *[1] * (power.ndim - 2))
    best = torch.full(power.shape[1:], math.inf, dtype=power.dtype)
    kept = torch.zeros_like(power)
    for penalty in PENALTIES:
        gain = 1 / (1 + penalty * rough)
        along = gain.reshape(-1, *[1] * (power.ndim - 1))
        risk = ((1 - along).square() * power).sum(0) + 2 * noise * gain.sum()
        kept = torch.where(risk < best, along, kept)
        best = torch.minimum(best, risk)
    held, left = (kept.square() * power).sum(0), kept.square().sum(0) * noise
    clear = held > CLEAR * left
    risk = torch.where(clear, best, power.sum(0)) - len(rough) * noise
    return torch.where(clear, kept, 0.0), risk
