"""Many windows in shared calls are fitted as each by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from opsplit import fit_many
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.predict.estimator import OperatorSplitter
from opsplit.search import Beam, Pursuit

Observe = Callable[..., tuple[Tensor, Grid, float]]
TRUE = [(0.5, 0.3), (0.2, 0.0), (0.0, 0.6), (0.9, 0.1), (0.4, 0.2)]


@pytest.fixture(scope="module")
def model(tiny_model: Model, exact: Callable[..., OperatorDictionary]) -> Model:
    return replace(tiny_model, dictionary=exact([0.1, 0.4, 0.7], [0.1, 0.3, 0.5]))


@pytest.fixture(scope="module")
def data(observe: Observe) -> tuple[Tensor, float]:
    windows = [observe(c, D, points=64, seed=i) for i, (c, D) in enumerate(TRUE)]
    return torch.stack([u for u, _, _ in windows]), windows[0][2]


@pytest.mark.parametrize("search", [Pursuit(max_parts=3), Beam(width=2, max_parts=2)])
@pytest.mark.parametrize("batch", [1, 2, 64])
def test_every_fit_is_that_of_its_trajectory_alone(
    model: Model, data: tuple[Tensor, float], search: Pursuit | Beam, batch: int
) -> None:
    u, dt = data
    like = OperatorSplitter(model, search)
    found = fit_many(u, dt, 16.0, like, batch)
    assert len(found) == len(u) and not hasattr(like, "composition_")
    for one, frames in zip(found, u, strict=True):
        assert isinstance(one, OperatorSplitter)
        alone = OperatorSplitter(model, search).fit(frames, dt, 16.0)
        assert one.composition_.operators == alone.composition_.operators
        assert one.coefficients_ == pytest.approx(alone.coefficients_, rel=1e-5, abs=1e-7)
        assert one.fit_error_ == pytest.approx(alone.fit_error_, rel=1e-3, abs=1e-7)
        assert one.status_ == alone.status_
        torch.testing.assert_close(one.predict(4), alone.predict(4), rtol=1e-4, atol=1e-5)


def test_different_dynamics_get_their_own_coefficients(
    model: Model, data: tuple[Tensor, float]
) -> None:
    for (c, D), one in zip(TRUE, fit_many(*data, 16.0, OperatorSplitter(model)), strict=True):
        assert isinstance(one, OperatorSplitter)
        assert one.coefficients_ == pytest.approx({"c": c, "D": D}, abs=2e-3)


def test_several_trajectories_of_one_dynamics_have_one_composition(
    model: Model, observe: Observe
) -> None:
    """Alone, the first says nothing about advection: it is constant along the line."""
    windows = [observe(0.5, 0.3, points=64, seed=i)[0] for i in range(3)]
    dt = observe(0.5, 0.3)[2]
    flat = torch.ones_like(windows[0])
    joint = OperatorSplitter(model).fit(torch.stack([flat, *windows]), dt, 16.0)
    assert joint.coefficients_ == pytest.approx({"c": 0.5, "D": 0.3}, abs=2e-3)
    assert len(joint.predict(3)) == 4


def test_one_that_cannot_be_fitted_does_not_stop_the_others(
    model: Model, data: tuple[Tensor, float]
) -> None:
    u, dt = data[0].clone(), data[1]
    u[1, 3, 0, 5] = np.inf
    found = fit_many(u, dt, 16.0, OperatorSplitter(model))
    assert isinstance(found[1], OpsplitError) and "infinite" in str(found[1])
    others = [one for i, one in enumerate(found) if i != 1]
    assert all(isinstance(one, OperatorSplitter) for one in others)


def test_no_batch_is_refused(model: Model, data: tuple[Tensor, float]) -> None:
    with pytest.raises(OpsplitError, match="batch counts trajectories"):
        fit_many(*data, 16.0, OperatorSplitter(model), 0)
