"""Jumps that a grid does not resolve: coefficients are not presented as sure."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from opsplit import Grid, OperatorSplitter
from opsplit.model import load_model
from opsplit.predict.compatibility import Code
from opsplit.predict.jumps import SHARE, slope_in_upper_modes, unresolved_fronts
from opsplit.predict.units import Units
from opsplit.predict.window import Window


def window(u: np.ndarray) -> Window:
    grid = Grid(u.shape, (2.0,) * u.ndim)
    return Window((torch.tensor(u)[None, None],), (torch.zeros(1),), grid, Units(), 0.0, 1.0)


def saw(points: int, turn: float = 0.0) -> np.ndarray:
    return 1 - (2 * np.arange(points) / points + turn) % 2


@pytest.mark.parametrize("points", [64, 255, 1000])
def test_a_jump_has_its_slope_in_all_modes(points: int) -> None:
    share = slope_in_upper_modes(window(saw(points)))
    assert share > 1 / 3
    turned = slope_in_upper_modes(window(-saw(points)[::-1].copy()))
    assert turned == pytest.approx(share)
    smooth = np.sin(2 * np.pi * np.arange(points) / points)
    assert slope_in_upper_modes(window(smooth)) < 1e-12


def test_the_worst_axis_counts() -> None:
    plane = np.sin(np.pi * np.arange(32) / 16)[:, None] + saw(48)
    assert slope_in_upper_modes(window(plane)) > SHARE
    assert slope_in_upper_modes(window(plane)) == slope_in_upper_modes(window(plane.T.copy()))


def test_only_products_of_smooth_fields_are_doubted() -> None:
    jump = window(saw(128))
    assert [i.code for i in unresolved_fronts(jump, load_model("line").dictionary)] == [Code.FRONTS]
    for name in ("advection-diffusion", "combined"):  # linear; fluxes that take fronts
        assert not unresolved_fronts(jump, load_model(name).dictionary)


def test_behind_a_shock_no_interval_is_printed() -> None:
    """Burgers' equation with a shock at rest: on its sides `-u u_x` is a decay."""
    t = np.arange(16)[:, None] * 0.02
    u = saw(128, 1.0) / (1 + t)  # u_t = -u u_x, solved exactly by a saw
    s = OperatorSplitter("line").fit(u, dt=0.02, extent=2.0)
    assert Code.FRONTS in {issue.code for issue in s.issues_}
    assert not s.coefficient_intervals_
