"""The stages of a step see the field from several grids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from building import noise
from wrapping import around, check_promises, dimensions, grid_of, inner, states, strong

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.integrators import RK38_WEIGHTS
from opsplit.operators import BandLimited, OperatorFamily, ShiftedStages, UNet
from opsplit.operators.wrappers.shifted_stages import SHIFTS


@pytest.mark.parametrize("period", [2, 4, 8, 16])
def test_shifts_of_the_stages_cancel_patterns_of_the_grid(period: int) -> None:
    angles = 2 * torch.pi * torch.tensor(SHIFTS) / period
    left = (torch.tensor(RK38_WEIGHTS) * torch.polar(torch.ones(4), angles)).sum().abs()
    assert float(left) < 0.36


@around
@dimensions
def test_a_step_is_the_3_8_rule_with_stages_on_shifted_grids(kind: str, ndim: int) -> None:
    free = inner(kind, 1, ndim)
    net, grid = ShiftedStages(free), grid_of(ndim)
    prepared, u, h = net.prepare(strong(net), grid), states(net), 0.04
    axes = tuple(range(-ndim, 0))

    def f(x: torch.Tensor, shift: int) -> torch.Tensor:
        return free.rate(prepared, x.roll([shift] * ndim, axes)).roll([-shift] * ndim, axes)

    k1 = f(u, SHIFTS[0])
    k2 = f(u + h / 3 * k1, SHIFTS[1])
    k3 = f(u + h * (k2 - k1 / 3), SHIFTS[2])
    k4 = f(u + h * (k1 - k2 + k3), SHIFTS[3])
    expected = u + h / 8 * (k1 + 3 * k2 + 3 * k3 + k4)
    torch.testing.assert_close(net.flow(prepared, u, h), expected, rtol=1e-10, atol=1e-10)


def test_spectral_operators_are_tied_to_no_grid_so_shifts_change_nothing() -> None:
    free = inner("spectral")
    net, theta, u = ShiftedStages(free), strong(free), states(free)
    rates = [f.rate(f.prepare(theta, grid_of(1)), u) for f in (free, net)]
    torch.testing.assert_close(*rates)


def test_a_network_changes_only_by_how_it_is_tied_to_its_grid() -> None:
    grid = Grid((64,), (1.0,))
    plain = inner("unet")
    shifted, theta, u = ShiftedStages(plain), strong(plain, 2), noise(2, 3, 1, 64)
    one, other = (f.flow(f.prepare(theta, grid), u, 1e-3) for f in (plain, shifted))
    assert 0 < float((one - other).norm()) < 1.5 * float((one - u).norm())
    # A network on shifted grids is still one network: shifts of the grid's period change nothing.
    moved = shifted.flow(shifted.prepare(theta, grid), u.roll(16, -1), 1e-3)
    torch.testing.assert_close(moved, other.roll(16, -1))


@around
@dimensions
def test_a_rate_is_the_beginning_of_a_flow(
    kind: str, ndim: int, fitted_order: Callable[..., float]
) -> None:
    net = ShiftedStages(inner(kind, 1, ndim))
    prepared, u = net.prepare(strong(net), grid_of(ndim)), states(net)
    rate, steps = net.rate(prepared, u), (1e-3, 5e-4, 2.5e-4)
    errors = [float(((net.flow(prepared, u, h) - u) / h - rate).norm()) for h in steps]
    assert fitted_order(steps, errors) == pytest.approx(1, abs=0.2)
    assert net.rate_evaluations == 4


def test_axes_with_walls_are_not_shifted() -> None:
    net = ShiftedStages(UNet(1, 2, 0.05, ("zero", "periodic"), width=4))
    grid = Grid((16, 32), (1.0, 1.0), ("zero", "periodic"))
    prepared, u = net.prepare(strong(net, 1), grid), noise(1, 1, 1, 16, 32)
    expected = sum(
        w * net.operator.rate(prepared, u.roll(s, -1)).roll(-s, -1)
        for s, w in zip(SHIFTS, RK38_WEIGHTS, strict=True)
    )
    torch.testing.assert_close(net.rate(prepared, u), expected)


@around
def test_stages_are_shifted_once(kind: str) -> None:
    """Within each other they would ask for 4, 16, 64 evaluations of one rate."""
    made: OperatorFamily = ShiftedStages(inner(kind))
    for family in (made, BandLimited(made)):
        with pytest.raises(OpsplitError, match="shifted stages already"):
            ShiftedStages(family)


@around
@dimensions
def test_it_keeps_the_promises_of_wrappers(kind: str, ndim: int) -> None:
    net = ShiftedStages(inner(kind, 2, ndim))
    check_promises(net)
    assert replace(net, operator=inner(kind)).channels == 1
