"""Take measurement noise out of observed frames, and leave clean ones alone."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from opsplit.grid import Grid

RAYLEIGH = 6 * (1 - math.pi / 4)
"""Variance of the second difference of the size of complex white noise of unit power."""


FRONT = 5.0
"""Kurtosis of what the upper modes make in space; noise has 3, a front far more."""


REMAINS = 0.2
"""Frames of which the filter leaves less than this share are noise as a whole."""


DRAWS = 8
"""So many times noise is drawn anew."""


def noise_power(spectrum: Tensor, grid: Grid) -> Tensor:
    """Power of white noise per mode and channel `(channel,)`, from `(time, channel, *modes)`.

    Noise is what changes at random from frame to frame. In the upper third of the modes the
    size of a mode is steady under transport and decays under diffusion; its second difference
    in time is noise. The median over time lets a short transient pass. Noise is everywhere: what
    the upper modes make in a few points only is a front.
    """
    high = _upper_third(grid.shape).to(spectrum.device)
    size = spectrum.abs()[..., high]
    bend = (size[2:] - 2 * size[1:-1] + size[:-2]).square().mean(-1)
    axes = tuple(range(2, spectrum.ndim))
    rough = torch.fft.ifftn(spectrum * high, dim=axes).real.flatten(2)
    kurtosis = rough.pow(4).mean(2) / rough.square().mean(2).square().clamp_min(1e-30)
    noisy = kurtosis.median(0).values < FRONT
    return torch.where(noisy, bend.median(0).values, 0.0) / RAYLEIGH


@lru_cache(maxsize=16)
def _upper_third(shape: tuple[int, ...]) -> Tensor:
    """Which modes of a grid lie in the upper third of an axis."""
    high = torch.zeros(shape, dtype=torch.bool)
    for axis, n in enumerate(shape):
        index = torch.fft.fftfreq(n, 1 / n).abs()
        along = [1] * len(shape)
        along[axis] = n
        # The last mode of an even grid has no phase, so that transport changes its size.
        high |= ((index > n / 3) & (index < n / 2)).reshape(along)
    return high


def denoise(window: Tensor, grid: Grid) -> tuple[Tensor, float]:
    """Frames `(time, channel, *space)` without white noise, and the noise's standard deviation."""
    clean, deviation, _ = wiener(window, grid)
    return clean, deviation


def wiener(window: Tensor, grid: Grid) -> tuple[Tensor, float, float]:
    """Frames `(time, channel, *space)` without white noise, the noise's standard deviation, and
    that of the noise which is left in modes with a signal.

    A Wiener filter in space: every mode keeps the share of its power that is not noise, and modes
    that are mostly noise go, since derivatives would blow them up. Without noise that is all of
    it. Walls and fewer than four frames are left as they are.
    """
    if not grid.periodic or len(window) < 4 or min(grid.shape) < 8:
        return window, 0.0, 0.0
    axes = tuple(range(2, window.ndim))
    spectrum = torch.fft.fftn(window, dim=axes)
    noise = noise_power(spectrum, grid)
    deviation = float((noise.mean() / math.prod(grid.shape)).sqrt())
    whole = float(window.std())
    # Rounding is no noise, and squares of tiny fields are zero.
    if not deviation > 1e-6 * whole:
        return window, 0.0, 0.0
    power = spectrum.abs().square().mean(0)
    floor = noise.reshape(-1, *[1] * grid.ndim)
    gain = torch.where(power > 4 * floor, 1 - floor / power.clamp_min(1e-30), 0.0)
    clean = torch.fft.ifftn(spectrum * gain, dim=axes).real
    # Frames of nothing but noise have no field to be found.
    if float(clean.std()) < REMAINS * whole:
        return window, 0.0, 0.0
    left = gain.square().mean(tuple(range(1, gain.ndim))) * noise
    return clean, deviation, float((left.mean() / math.prod(grid.shape)).sqrt())


def signal_modes(frames: Tensor, deviation: float) -> Tensor:
    """Modes `(channel, *modes)` where filtered frames `(time, channel, *space)` have a signal.

    Arguments:
        deviation: of the noise that is still there; without any, all modes.
    """
    axes = tuple(range(2, frames.ndim))
    power = torch.fft.fftn(frames, dim=axes, norm="forward").abs().square().mean(0)
    return (power > deviation**2 / frames[0, 0].numel()) | (deviation <= 0)


def in_modes(fields: Tensor, kept: Tensor) -> Tensor:
    """Fields `(..., channel, *space)` without all other modes.

    What noise hides was filtered out of the frames, and says nothing about what a step makes there.
    """
    if bool(kept.all()):
        return fields
    axes = tuple(range(1 - kept.ndim, 0))
    found: Tensor = torch.fft.ifftn(torch.fft.fftn(fields, dim=axes) * kept, dim=axes).real
    return found


def fresh_noise(frames: Tensor, deviation: float) -> Tensor:
    """Noise `(draw, *frames)` of a deviation, in the modes where filtered frames have a signal."""
    generator = torch.Generator().manual_seed(0)
    white = torch.randn(DRAWS, *frames.shape, generator=generator).to(frames)
    made = in_modes(white, signal_modes(frames, deviation))
    return made * (deviation / made.std().clamp_min(1e-30))
