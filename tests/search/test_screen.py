"""The algebra of pursuit: integrals between frames, and transitions over several strides."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from opsplit.search.screen import integration_weights, stride_mixture


@given(
    frames=st.integers(2, 12),
    coefficients=st.lists(st.floats(-5, 5), min_size=4, max_size=4),
)
def test_integrals_between_frames_are_exact_for_cubics(
    frames: int, coefficients: list[float]
) -> None:
    degree = min(3, frames - 1)
    a = torch.tensor(coefficients[: degree + 1], dtype=torch.float64)
    t = torch.arange(frames, dtype=torch.float64)
    powers = torch.arange(degree + 1)
    values = (a * t[:, None] ** powers).sum(1)
    whole = (a / (powers + 1) * t[:, None] ** (powers + 1)).sum(1)
    weights = integration_weights(torch.arange(frames).double())
    assert weights.shape == (frames - 1, frames)
    torch.testing.assert_close(weights @ values, whole.diff(), rtol=1e-10, atol=1e-8)


@given(
    transitions=st.integers(1, 12),
    strides=st.lists(st.integers(0, 15), min_size=1, max_size=4),
    seed=st.integers(0, 99),
)
def test_the_mixture_has_the_products_of_all_strides_together(
    transitions: int, strides: list[int], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    sizes = 0.5 + torch.rand(transitions, generator=generator, dtype=torch.float64)
    x, y = torch.randn(2, transitions, generator=generator, dtype=torch.float64)
    expected = 0.0
    for r in {min(r, transitions) if r else transitions for r in strides}:
        starts = range(transitions - r + 1)
        for first in starts:
            a, b = (v[first : first + r].sum() / sizes[first + r - 1] for v in (x, y))
            expected += float(a * b) / len(starts)
    mix = stride_mixture([transitions], tuple(strides), sizes)
    assert len(mix) <= transitions
    assert float((mix @ x) @ (mix @ y)) == pytest.approx(expected, rel=1e-9, abs=1e-9)
