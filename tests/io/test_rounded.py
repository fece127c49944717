"""Coordinates with few decimals are evenly spaced again; uneven ones stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import opsplit
from opsplit.io.rounded import unrounded


@given(
    begin=st.floats(-1e3, 1e3), step=st.floats(1e-6, 1e6), count=st.integers(4, 300),
    share=st.floats(0.0, 0.05),
)  # fmt: skip
def test_rounding_is_undone(begin: float, step: float, count: int, share: float) -> None:
    exact = begin * step + step * np.arange(count)
    unit = 10.0 ** np.floor(np.log10(max(share, 1e-6) * step))
    found = unrounded(np.round(exact / unit) * unit)
    assert np.abs(np.diff(found) / step - 1).max() < 0.12  # four values may stay as they are
    assert np.abs(found - exact).max() <= 1.3 * unit


@given(st.integers(4, 100), st.integers(1, 98), st.floats(0.07, 0.5))
def test_uneven_values_stay(count: int, which: int, moved: float) -> None:
    values = np.arange(count, dtype=float)
    values[which % (count - 2) + 1] += moved
    np.testing.assert_array_equal(unrounded(values), values)


def test_exact_values_stay_bit_for_bit() -> None:
    for values in (np.linspace(0, 1, 50), 0.1 * np.arange(12), np.arange(7.0), np.ones(5)):
        np.testing.assert_array_equal(unrounded(values), values)


@pytest.mark.parametrize("decimals", [3, 4])
def test_a_table_with_few_decimals_is_read(decimals: int, tmp_path: Path) -> None:
    x, t = np.linspace(0, 1, 50), 0.0303 * np.arange(12)
    u = np.sin(2 * np.pi * (x - t[:, None]))
    head = ",".join(["time", *(f"x={v:.{decimals}f}" for v in x)])
    rows = [",".join(f"{v:.{decimals}f}" for v in (a, *b)) for a, b in zip(t, u, strict=True)]
    (tmp_path / "rod.csv").write_text("\n".join([head, *rows]))
    found = opsplit.read(tmp_path / "rod.csv")
    np.testing.assert_allclose(found.times, t, atol=1e-3)
    np.testing.assert_allclose(np.diff(found.times), 0.0303, rtol=1e-2)
    assert found.grid.spacing[0] == pytest.approx(1 / 49, rel=1e-3)
