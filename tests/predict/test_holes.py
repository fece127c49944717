"""Missing values of a field."""

from __future__ import annotations

import numpy as np
import pytest

from opsplit._deadline import within
from opsplit.errors import OpsplitError
from opsplit.predict.holes import MOST, fill


def smooth(*shape: int) -> np.ndarray:
    axes = np.meshgrid(*(np.linspace(0, 1, n) for n in shape), indexing="ij")
    return sum(((i + 1) * x - 0.3) ** 3 for i, x in enumerate(axes))[None, None]  # type: ignore[return-value]


@pytest.mark.parametrize("shape", [(128,), (24, 20), (12, 12, 12)])
def test_cubics_are_filled_exactly(shape: tuple[int, ...]) -> None:
    u = smooth(*shape)
    holes = u.copy()
    at = np.random.default_rng(0).choice(u.size, 3, replace=False)
    holes.reshape(-1)[at] = np.nan
    holes[(0, 0, *[0] * len(shape))] = np.nan
    found, filled, given_up = fill(holes)
    np.testing.assert_allclose(found, u, atol=1e-6)
    assert filled == len({*at.tolist(), 0}) and given_up == 0


def test_whole_fields_stay_as_they_are() -> None:
    u = np.random.default_rng(0).normal(size=(3, 2, 32)).astype(np.float32)
    found, filled, given_up = fill(u)
    assert found is u and filled == given_up == 0
    u[1, 0, 3] = np.nan
    found = fill(u)[0]
    rest = np.ones(u.shape, dtype=bool)
    rest[1, 0, 3] = False
    np.testing.assert_array_equal(found[rest], u[rest])
    assert np.isfinite(found).all() and found.dtype == np.float32


def test_frames_with_many_holes_are_given_up() -> None:
    u = np.ones((3, 1, 100))
    u[0, 0, : int(100 * MOST) + 1] = np.nan
    u[1] = np.nan
    found, filled, given_up = fill(u)
    assert np.isnan(found[:2]).all() and (found[2] == 1).all()
    assert filled == 0 and given_up == 1


def waves() -> np.ndarray:
    """A field with a wide hole, on a periodic axis."""
    x = 2 * np.pi * np.arange(128) / 128
    u = (np.sin(3 * x) + 0.3 * np.cos(8 * x))[None, None]
    u[..., 60:66] = np.nan
    return u


@pytest.mark.parametrize("size", [2.0**-1040, 2.0**-600, 2.0**600, 2.0**1020])
def test_amplitudes_are_only_units(size: float) -> None:
    near = 1e-12 if size > 1e-300 else 1e-6
    np.testing.assert_allclose(fill(waves() * size)[0] / size, fill(waves())[0], rtol=near)


def test_a_periodic_axis_has_no_ends() -> None:
    there = fill(waves(), [True])[0]
    turned = fill(np.roll(waves(), 64, -1), [True])[0]
    np.testing.assert_allclose(np.roll(turned, -64, -1), there, atol=1e-8)
    assert abs(fill(np.roll(waves(), 64, -1))[0] - turned).max() > 0.1
    u = smooth(24, 20)
    both = np.broadcast_to(np.sin(np.pi * np.arange(20) / 10), u.shape) + u[..., :1]
    holes = both.copy()
    holes[..., 11, 0] = np.nan
    np.testing.assert_allclose(fill(holes, [False, True])[0], both, atol=1e-3)


def test_a_channel_that_is_missing_is_not_made_up() -> None:
    u = np.random.default_rng(0).normal(size=(3, 30, 16))
    u[1, 7] = np.nan
    found, filled, given_up = fill(u)
    assert np.isnan(found[1]).all() and filled == 0 and given_up == 1


def test_a_hole_too_wide_to_be_filled_is_given_up() -> None:
    x = 2 * np.pi * np.arange(128) / 128
    u = np.tile(np.sin(x)[:, None] * np.cos(x), (2, 1, 1, 1))
    u[0, 0, 30:58, 40:68] = np.nan
    u[1, 0, 30:33, 40:43] = np.nan
    found, filled, given_up = fill(u)
    assert np.isnan(found[0]).all() and np.isfinite(found[1]).all()
    assert filled == 9 and given_up == 1


def test_filling_ends_in_time() -> None:
    with within(0.0), pytest.raises(OpsplitError, match=r"before a frame .* was filled"):
        fill(waves())
