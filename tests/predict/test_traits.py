"""Traits of a window: free of units, and frames with one wave number are not believed."""

from __future__ import annotations

import numpy as np
import pytest

from opsplit import OperatorSplitter
from opsplit.errors import no_warnings
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.predict.compatibility import Code
from opsplit.predict.traits import scales

X = np.arange(64) / 64 * 16.0


def moving(numbers: list[int], sizes: list[float]) -> np.ndarray:
    """Waves of these numbers in a box, moving at speed .5 and decaying with .1, exactly."""
    t = 0.1 * np.arange(12)[:, None]
    k = [2 * np.pi * n / 16.0 for n in numbers]
    each = zip(k, sizes, strict=True)
    return sum(a * np.exp(-0.1 * q * q * t) * np.sin(q * (X - 0.5 * t)) for q, a in each)


def fit(model: Model, u: np.ndarray, **more: float) -> OperatorSplitter:
    with no_warnings():
        return OperatorSplitter(model).fit(u, **{"dt": 0.1, "extent": 16.0, **more})


@pytest.fixture(scope="module")
def known(request: pytest.FixtureRequest) -> Model:
    from opsplit.model import load_model

    return load_model("advection-diffusion")


@pytest.mark.parametrize(
    ("numbers", "sizes", "alone"),
    [([2], [1.0], True), ([2, 3], [1.0, 1e-9], True), ([2, 3], [1.0, 0.05], False)],
)
def test_one_wave_cannot_tell_derivatives_apart(
    known: Model, numbers: list[int], sizes: list[float], alone: bool
) -> None:
    found = fit(known, moving(numbers, sizes))
    assert found.status_ == "explained"
    assert any(issue.code is Code.ALIKE for issue in found.issues_) is alone
    assert not (alone and found.coefficient_intervals_)


def test_traits_do_not_depend_on_units(known: Model) -> None:
    u = moving([1, 2, 5], [1.0, 0.5, 0.2])
    usual, other = fit(known, u), fit(known, 64 * u, dt=0.4, extent=4.0)
    for name, value in usual.traits_.items():
        if name not in ("misfit", "rough"):
            assert other.traits_[name] == pytest.approx(value, rel=1e-3)


def test_scales_count_wave_numbers() -> None:
    import torch

    x = torch.arange(32) / 32 * 2 * np.pi
    one, many = torch.sin(3 * x), sum(torch.sin(n * x) for n in range(1, 7))
    grid = Grid((32,), (1.0,))
    assert scales(one[None, None].double(), grid) == pytest.approx(1.0)
    assert scales(many[None, None].double(), grid) == pytest.approx(6.0)
    plane = Grid((32, 32), (1.0, 1.0))
    both = torch.sin(3 * x)[:, None] + torch.cos(3 * x)[None]
    assert scales(both[None, None].double(), plane) == pytest.approx(1.0)
