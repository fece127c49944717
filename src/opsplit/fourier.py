"""Fourier modes of real fields: wavenumbers, masks and resampling, for solvers and operators.

The spectrum of a field `(..., *space)` is that of `torch.fft.rfftn` over its space axes: all modes
of every axis but the last, the non-negative half of the last one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from opsplit.grid import Grid

ROUNDING = 1e-9
"""Modes this close to the end of a mask, as a share, belong to it."""


def spectrum_of(u: Tensor, ndim: int) -> Tensor:
    """The modes of real fields `(..., *space)` with `ndim` space axes."""
    return torch.fft.rfftn(u, dim=tuple(range(-ndim, 0)))


def field_of(spectrum: Tensor, shape: Sequence[int]) -> Tensor:
    """The real fields `(..., *shape)` of these modes."""
    return torch.fft.irfftn(spectrum, s=tuple(shape), dim=tuple(range(-len(shape), 0)))


def wavenumbers(
    grid: Grid, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> tuple[Tensor, ...]:
    """Physical wavenumbers, one broadcastable tensor per axis."""
    out = []
    for axis, (n, h) in enumerate(zip(grid.shape, grid.spacing, strict=True)):
        frequencies = torch.fft.rfftfreq if axis == grid.ndim - 1 else torch.fft.fftfreq
        k = 2 * math.pi * frequencies(n, h, dtype=dtype, device=device)
        out.append(k.reshape([-1 if a == axis else 1 for a in range(grid.ndim)]))
    return tuple(out)


def odd_wavenumbers(
    grid: Grid, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> Tensor:
    """Wavenumbers `(axis, *modes)` for odd derivatives: zero at half the sampling rate.

    That mode of an even number of points has no sign, hence no odd derivative.
    """
    k = torch.stack(torch.broadcast_tensors(*wavenumbers(grid, dtype, device))).clone()
    for axis, n in enumerate(grid.shape):
        if n % 2 == 0:
            k[axis].select(axis, n // 2).zero_()
    return k


def squared_wavenumber(
    grid: Grid, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> Tensor:
    """`|k|^2` of every mode, minus the symbol of the Laplacian."""
    k = torch.broadcast_tensors(*wavenumbers(grid, dtype, device))
    return torch.stack(k).square().sum(0)


def inverse_laplacian(
    grid: Grid, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
) -> Tensor:
    """The symbol `-1 / |k|^2` of the inverse Laplacian; zero for the mean."""
    square = squared_wavenumber(grid, dtype, device)
    return torch.where(square > 0, -1 / square, 0)


def mode_shares(grid: Grid, device: torch.device | str = "cpu") -> Tensor:
    """How high every mode stands on its highest axis: mean 0, finest 1."""
    shares = torch.zeros((), device=device)
    for axis, n in enumerate(grid.shape):
        frequencies = torch.fft.rfftfreq if axis == grid.ndim - 1 else torch.fft.fftfreq
        k = frequencies(n, device=device).abs().reshape(-1, *[1] * (grid.ndim - 1 - axis))
        shares = torch.maximum(shares, 2 * k)
    return shares


def lower_modes(grid: Grid, share: float, device: torch.device | str = "cpu") -> Tensor:
    """A mask of the modes up to this share of every axis; two thirds are dealiased products."""
    keep = torch.ones((), dtype=torch.bool, device=device)
    for k, h in zip(wavenumbers(grid, device=device), grid.spacing, strict=True):
        keep = keep & (k.abs() <= share * math.pi / h * (1 - ROUNDING))
    return keep


def low_pass(u: Tensor, grid: Grid, share: float) -> Tensor:
    """Fields with the lower `share` of the modes of every periodic axis; walls stay as they are."""
    for dim, word in enumerate(grid.boundary, -grid.ndim):
        if word == "periodic":
            points = u.shape[dim]
            spectrum = torch.fft.rfft(u, dim=dim)
            kept = torch.arange(spectrum.shape[dim], device=u.device) <= _last(points, share)
            spectrum = spectrum * kept.reshape(-1, *[1] * (-1 - dim))
            u = torch.fft.irfft(spectrum, n=points, dim=dim)
    return u


def low_passed(grid: Grid, share: float, device: torch.device | str = "cpu") -> Tensor:
    """A mask of the modes of a periodic field that `low_pass` keeps."""
    keep = torch.ones((), dtype=torch.bool, device=device)
    for axis, n in enumerate(grid.shape, -grid.ndim):
        frequencies = torch.fft.rfftfreq if axis == -1 else torch.fft.fftfreq
        number = (n * frequencies(n, device=device)).abs().round()
        keep = keep & (number <= _last(n, share)).reshape(-1, *[1] * (-1 - axis))
    return keep


def _last(points: int, share: float) -> int:
    """The highest of the lower modes of an axis."""
    return int(share * (points // 2) + ROUNDING)


def fit_modes(spectrum: Tensor, given: Sequence[int], wanted: Sequence[int]) -> Tensor:
    """The modes of a field on a grid of another size; those at half the coarser rate go."""
    if tuple(given) == tuple(wanted):
        return spectrum
    for axis, (n, m) in enumerate(zip(given, wanted, strict=True), -len(given)):
        half = (min(n, m) + 1) // 2
        low = spectrum.narrow(axis, 0, half)
        gap = list(low.shape)
        if axis == -1:
            gap[axis] = m // 2 + 1 - half
            spectrum = torch.cat([low, low.new_zeros(gap)], axis)
        else:
            high = spectrum.narrow(axis, n - half + 1, half - 1)
            gap[axis] = m - 2 * half + 1
            spectrum = torch.cat([low, low.new_zeros(gap), high], axis)
    return spectrum * (math.prod(wanted) / math.prod(given))


def resample(fields: Tensor, shape: Sequence[int]) -> Tensor:
    """Periodic fields `(..., *space)` at `shape` points per axis, modes that do not fit left out.

    Exact for fields whose modes fit both grids; the mode at half the coarser rate stays.
    """
    for axis, points in enumerate(shape, -len(shape)):
        given = fields.shape[axis]
        if points == given:
            continue
        kept = min(points, given) // 2 + 1
        spectrum = torch.fft.rfft(fields, dim=axis).narrow(axis, 0, kept)
        if min(points, given) % 2 == 0:
            # The mode at half the coarser rate stands for two on the finer grid.
            factor = torch.ones(kept, device=fields.device)
            factor[-1] = 0.5 if points > given else 2.0
            spectrum = spectrum * factor.reshape([-1] + [1] * (-axis - 1))
        fields = torch.fft.irfft(spectrum, n=points, dim=axis) * (points / given)
    return fields
