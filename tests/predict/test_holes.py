"""Missing values of a field."""

from __future__ import annotations

import numpy as np
import pytest

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
