"""Points, wavenumbers and the words of a grid."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opsplit.errors import OpsplitError
from opsplit.fourier import mode_shares, wavenumbers
from opsplit.grid import BOUNDARIES, Grid

AXES = st.lists(
    st.tuples(st.integers(2, 20), st.floats(0.1, 50), st.sampled_from(BOUNDARIES)),
    min_size=1,
    max_size=3,
)


@given(axes=AXES)
def test_a_grid_survives_its_dictionary(axes: list[tuple[int, float, str]]) -> None:
    grid = Grid(*(tuple(column) for column in zip(*axes, strict=True)))
    assert Grid.from_json(grid.to_json()) == grid


@given(axes=AXES)
def test_points_start_at_zero_and_one_more_spacing_reaches_the_extent(
    axes: list[tuple[int, float, str]],
) -> None:
    grid = Grid(*(tuple(column) for column in zip(*axes, strict=True)))
    for x, n, h, length in zip(grid.axes(), grid.shape, grid.spacing, grid.extent, strict=True):
        assert len(x) == n
        assert x[0] == 0
        torch.testing.assert_close(x.diff(), torch.full((n - 1,), h, dtype=torch.float64))
        assert float(x[-1]) + h == pytest.approx(length)


@pytest.mark.parametrize("shape", [(16,), (15,), (8, 12), (9, 6), (6, 8, 10), (7, 4, 9)])
def test_wavenumbers_differentiate_a_plane_wave_exactly(shape: tuple[int, ...]) -> None:
    extent = (3.0, 5.0, 7.0)[: len(shape)]
    grid = Grid(shape, extent)
    k = [2 * math.pi * (axis + 1) / length for axis, length in enumerate(extent)]
    axes = torch.meshgrid(*grid.axes(), indexing="ij")
    phase = sum(a * x for a, x in zip(k, axes, strict=True))
    wave, slope = torch.sin(phase), torch.cos(phase)
    spectrum = torch.fft.rfftn(wave)
    for axis, multiplier in enumerate(wavenumbers(grid)):
        derivative = torch.fft.irfftn(1j * multiplier * spectrum, s=shape)
        if shape[axis] > 2 * (axis + 1):  # resolved: below the Nyquist mode of that axis
            torch.testing.assert_close(derivative, k[axis] * slope, rtol=0, atol=1e-12)


def test_one_boundary_word_stands_for_all_axes() -> None:
    assert Grid((8, 8), (1, 1), "zero") == Grid((8, 8), (1, 1), ("zero", "zero"))
    assert Grid((8, 8), (1, 1)).periodic
    assert not Grid((8, 8), (1, 1), ("periodic", "reflect")).periodic


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (((), ()), "1 to 3 axes"),
        (((4, 4, 4, 4), (1, 1, 1, 1)), "1 to 3 axes"),
        (((8, 8), (1.0,)), "one extent and one boundary per axis"),
        (((8, 8), (1, 1), ("zero",)), "one extent and one boundary per axis"),
        (((1,), (1.0,)), "at least 2 points"),
        (((8,), (0.0,)), "positive length"),
        (((8,), (math.nan,)), "positive length"),
        (((8,), (1.0,), "wall"), r"Unknown boundary 'wall'; choose from .*'reflect'"),
    ],
)
def test_an_impossible_grid_is_refused_with_the_reason(arguments: tuple, sentence: str) -> None:
    with pytest.raises(OpsplitError, match=sentence):
        Grid(*arguments)


@pytest.mark.parametrize("shape", [(8,), (9,), (8, 12), (4, 6, 8)])
def test_a_mode_stands_as_high_as_its_highest_axis(shape: tuple[int, ...]) -> None:
    grid = Grid(shape, tuple(3.0 + i for i in range(len(shape))))
    shares = mode_shares(grid)
    assert shares.shape == torch.fft.rfftn(torch.zeros(shape)).shape
    slow = torch.stack(
        torch.broadcast_tensors(
            *(k.abs() * h / torch.pi for k, h in zip(wavenumbers(grid), grid.spacing, strict=True))
        )
    )
    torch.testing.assert_close(shares.double(), slow.amax(0))
