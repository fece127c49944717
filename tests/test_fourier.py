"""Wavenumbers, masks and resampling against exact sums of sines."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.fourier import (
    field_of,
    fit_modes,
    inverse_laplacian,
    low_pass,
    lower_modes,
    mode_shares,
    odd_wavenumbers,
    resample,
    spectrum_of,
    squared_wavenumber,
    wavenumbers,
)
from opsplit.grid import Grid

SHAPES = st.lists(st.integers(4, 17), min_size=1, max_size=3).map(tuple)
EXTENT = (3.0, 5.0, 7.0)


def grid_of(shape: tuple[int, ...]) -> Grid:
    return Grid(shape, EXTENT[: len(shape)])


def sines(shape: tuple[int, ...], most: tuple[int, ...], seed: int, slope: int = -1) -> Tensor:
    """A sum of five plane waves with at most `most` periods per axis, or one of its derivatives.

    The waves depend on the seed alone, so that the same sum is known on every grid.
    """
    grid, generator = grid_of(shape), torch.Generator().manual_seed(seed)
    axes = torch.meshgrid(*grid.axes(), indexing="ij")
    total = torch.zeros(shape, dtype=torch.float64)
    for _ in range(5):
        draws = torch.rand(len(shape) + 2, generator=generator, dtype=torch.float64).tolist()
        k = [
            2 * math.pi * round((2 * draws[a] - 1) * most[a]) / grid.extent[a]
            for a in range(len(shape))
        ]
        phase = sum(a * x for a, x in zip(k, axes, strict=True)) + 6.3 * draws[-1]
        wave = torch.sin(phase) if slope < 0 else k[slope] * torch.cos(phase)
        total += draws[-2] * wave
    return total


def below(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The most periods below half the sampling rate."""
    return tuple((n - 1) // 2 for n in shape)


@given(shape=SHAPES, seed=st.integers(0, 999))
def test_a_field_is_that_of_its_spectrum(shape: tuple[int, ...], seed: int) -> None:
    u = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed)).double()
    torch.testing.assert_close(field_of(spectrum_of(u, len(shape)), shape), u)


@given(shape=SHAPES, seed=st.integers(0, 999))
def test_wavenumbers_differentiate_sums_of_sines_exactly(shape: tuple[int, ...], seed: int) -> None:
    grid, most = grid_of(shape), below(shape)
    spectrum = spectrum_of(sines(shape, most, seed), len(shape))
    for axis, (k, odd) in enumerate(zip(wavenumbers(grid), odd_wavenumbers(grid), strict=True)):
        expected = sines(shape, most, seed, slope=axis)
        for symbol in (k, odd):
            slope = field_of(1j * symbol * spectrum, shape)
            torch.testing.assert_close(slope, expected, rtol=0, atol=1e-10)


@given(shape=SHAPES)
def test_odd_wavenumbers_are_zero_at_half_the_sampling_rate_and_nowhere_else(
    shape: tuple[int, ...],
) -> None:
    grid = grid_of(shape)
    plain = torch.stack(torch.broadcast_tensors(*wavenumbers(grid)))
    odd = odd_wavenumbers(grid)
    for axis, (n, h) in enumerate(zip(shape, grid.spacing, strict=True)):
        half = torch.isclose(plain[axis].abs(), torch.tensor(math.pi / h).double())
        assert bool(half.any()) == (n % 2 == 0)
        assert torch.equal(odd[axis], torch.where(half, 0.0, plain[axis]))


@given(shape=SHAPES, seed=st.integers(0, 999))
def test_odd_derivatives_of_real_fields_sum_to_zero_against_themselves(
    shape: tuple[int, ...], seed: int
) -> None:
    """`<u, u_x> = 0` for any field, the finest mode included."""
    u = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()
    for k in odd_wavenumbers(grid_of(shape)):
        slope = field_of(1j * k * spectrum_of(u, len(shape)), shape)
        assert abs(float((u * slope).sum())) < 1e-9 * float(u.norm() * (1 + slope.norm()))


@given(shape=SHAPES, seed=st.integers(0, 999))
def test_the_inverse_laplacian_undoes_the_laplacian_but_for_the_mean(
    shape: tuple[int, ...], seed: int
) -> None:
    grid = grid_of(shape)
    u = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()
    back = -squared_wavenumber(grid) * inverse_laplacian(grid) * spectrum_of(u, len(shape))
    torch.testing.assert_close(field_of(back, shape), u - u.mean())
    assert float(inverse_laplacian(grid).flatten()[0]) == 0


@given(shape=SHAPES)
def test_the_squared_wavenumber_is_minus_the_symbol_of_the_laplacian(
    shape: tuple[int, ...],
) -> None:
    grid = grid_of(shape)
    slow = sum(k.square() for k in wavenumbers(grid))
    torch.testing.assert_close(squared_wavenumber(grid), slow)


@given(shape=SHAPES, share=st.floats(0.05, 1.2))
def test_masks_keep_the_share_of_every_axis(shape: tuple[int, ...], share: float) -> None:
    grid = grid_of(shape)
    found = lower_modes(grid, share)
    assert found.shape == spectrum_of(torch.zeros(shape), len(shape)).shape
    edge = (mode_shares(grid).double() - share).abs() < 1e-6
    assert bool((found == (mode_shares(grid) < share))[~edge].all())
    assert bool(found.flatten()[0])


@given(points=st.integers(4, 40))
def test_two_thirds_of_the_modes_make_products_of_two_exact(points: int) -> None:
    """The sum of two kept modes wraps around onto none that is kept."""
    kept = lower_modes(Grid((points,), (1.0,)), 2 / 3).nonzero()[:, 0].tolist()
    for a in kept:
        for b in kept:
            alias = abs((a + b + points // 2) % points - points // 2)
            assert a + b < points / 2 or alias == a + b or alias not in kept


@given(shape=SHAPES, share=st.floats(0.1, 1.0), seed=st.integers(0, 999))
def test_a_low_pass_keeps_low_sines_and_removes_high_ones(
    shape: tuple[int, ...], share: float, seed: int
) -> None:
    grid = grid_of(shape)
    most = tuple(int(share * (n // 2) + 1e-9) for n in shape)
    low = sines(shape, tuple(min(a, b) for a, b in zip(most, below(shape), strict=True)), seed)
    torch.testing.assert_close(low_pass(low, grid, share), low, rtol=0, atol=1e-12)
    for axis, n in enumerate(shape):
        if most[axis] + 1 <= (n - 1) // 2:
            x = grid.axes()[axis] * 2 * math.pi * (most[axis] + 1) / grid.extent[axis]
            wave = torch.sin(x).reshape([-1 if a == axis else 1 for a in range(len(shape))])
            high = wave.expand(shape)
            assert float(low_pass(high.contiguous(), grid, share).abs().max()) < 1e-12
    once = low_pass(torch.randn(shape).double(), grid, share)
    torch.testing.assert_close(low_pass(once, grid, share), once, rtol=0, atol=1e-12)


def test_a_low_pass_leaves_axes_with_walls_alone() -> None:
    u = torch.randn(3, 8, 9, generator=torch.Generator().manual_seed(0)).double()
    walls = Grid((8, 9), (1.0, 1.0), ("zero", "reflect"))
    assert torch.equal(low_pass(u, walls, 0.2), u)
    half = low_pass(u, Grid((8, 9), (1.0, 1.0), ("zero", "periodic")), 0.2)
    torch.testing.assert_close(half, u.mean(-1, keepdim=True).expand_as(u))


@given(
    pairs=st.lists(st.tuples(st.integers(4, 16), st.integers(4, 16)), min_size=1, max_size=3),
    seed=st.integers(0, 999),
)
def test_resampling_is_exact_for_sines_that_fit_both_grids(
    pairs: list[tuple[int, int]], seed: int
) -> None:
    given_shape, wanted = (tuple(x) for x in zip(*pairs, strict=True))
    most = tuple(min(a, b) for a, b in zip(below(given_shape), below(wanted), strict=True))
    u, expected = sines(given_shape, most, seed), sines(wanted, most, seed)
    torch.testing.assert_close(resample(u, wanted), expected, rtol=0, atol=1e-10)
    batch = torch.stack([u, 2 * u])
    torch.testing.assert_close(resample(batch, wanted)[1], 2 * expected, rtol=0, atol=1e-10)
    modes = fit_modes(spectrum_of(u, len(wanted)), given_shape, wanted)
    torch.testing.assert_close(field_of(modes, wanted), expected, rtol=0, atol=1e-10)


@given(shape=SHAPES, factor=st.integers(2, 3), seed=st.integers(0, 999))
def test_modes_fit_a_finer_grid_and_come_back(
    shape: tuple[int, ...], factor: int, seed: int
) -> None:
    ndim, fine = len(shape), tuple(factor * n for n in shape)
    u = torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed)).double()
    spectrum = spectrum_of(u, ndim)
    for axis, n in enumerate(shape, -ndim):
        if n % 2 == 0:
            spectrum.select(axis, n // 2).zero_()
    u = field_of(spectrum, shape)
    wide = fit_modes(spectrum, shape, fine)
    every_other = (slice(None), *[slice(None, None, factor)] * ndim)
    torch.testing.assert_close(field_of(wide, fine)[every_other], u)
    torch.testing.assert_close(fit_modes(wide, fine, shape), spectrum)


@given(shape=SHAPES, seed=st.integers(0, 999))
def test_a_field_comes_back_from_a_finer_grid_whole(shape: tuple[int, ...], seed: int) -> None:
    """Also its mode at half the sampling rate, which `resample` keeps and `fit_modes` drops."""
    u = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()
    fine = tuple(n + 3 for n in shape)
    torch.testing.assert_close(resample(resample(u, fine), shape), u)
    assert resample(u, shape) is u


@pytest.mark.parametrize("shape", [(8,), (9,), (8, 12), (4, 6, 8)])
def test_a_mode_stands_as_high_as_its_highest_axis(shape: tuple[int, ...]) -> None:
    grid = grid_of(shape)
    shares = mode_shares(grid)
    assert shares.shape == torch.fft.rfftn(torch.zeros(shape)).shape
    slow = torch.stack(
        torch.broadcast_tensors(
            *(k.abs() * h / torch.pi for k, h in zip(wavenumbers(grid), grid.spacing, strict=True))
        )
    )
    torch.testing.assert_close(shares.double(), slow.amax(0))


def test_precision_and_device_are_those_that_are_asked_for() -> None:
    grid = Grid((8, 6), (1.0, 1.0))
    for make in (odd_wavenumbers, squared_wavenumber, inverse_laplacian):
        assert make(grid).dtype == torch.float64
        assert make(grid, torch.float32).dtype == torch.float32
        assert make(grid, torch.float32, "meta").device.type == "meta"
    assert resample(torch.zeros(4, 8), (6,)).dtype == torch.float32
    assert low_pass(torch.zeros(8, 6), grid, 0.5).dtype == torch.float32
