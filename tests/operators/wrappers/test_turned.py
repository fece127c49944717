"""Mirrored and negated operators: the operator of the mirrored, of the negated dynamics."""

from __future__ import annotations

import pytest
import torch
from building import LINE, PLANE, parameters
from wrapping import around, check_promises, dimensions, grid_of, inner, states, strong

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import Linear, Mirrored, Negated, UNet


@around
@dimensions
def test_turned_twice_is_as_before(kind: str, ndim: int) -> None:
    plain, grid = inner(kind, 1, ndim), grid_of(ndim)
    theta, u = strong(plain), states(plain)
    for twice in (Mirrored(Mirrored(plain, ndim - 1), ndim - 1), Negated(Negated(plain))):
        ready = twice.prepare(theta, grid)
        assert torch.equal(twice.flow(ready, u, 0.1), plain.flow(ready, u, 0.1))
        assert torch.equal(twice.rate(ready, u), plain.rate(ready, u))


@around
@dimensions
def test_they_keep_the_promises_of_wrappers(kind: str, ndim: int) -> None:
    check_promises(Mirrored(inner(kind, 2, ndim), ndim - 1))
    check_promises(Negated(inner(kind, 2, ndim)))


@pytest.mark.parametrize("grid", [LINE, PLANE])
def test_a_mirror_turns_odd_derivatives_of_its_axis_round_and_no_others(grid: Grid) -> None:
    family = Linear(1, grid.ndim)
    u = torch.randn(1, 2, 1, *grid.shape, dtype=torch.float64)
    axis = grid.ndim - 1
    c = [0.0] * grid.ndim
    c[axis] = 0.7
    there, back = (family.parameters(advection=tuple(s * x for x in c)) for s in (1, -1))
    even = family.parameters(reaction=0.2, diffusion=0.3)
    mirrored = Mirrored(family, axis)
    for theta, expected in ((there, back), (even, even)):
        found = mirrored.flow(mirrored.prepare(theta, grid), u, 0.3)
        torch.testing.assert_close(found, family.flow(family.prepare(expected, grid), u, 0.3))
    if grid.ndim > 1:
        other = Mirrored(family, 0)
        found = other.rate(other.prepare(there, grid), u)
        torch.testing.assert_close(found, family.rate(family.prepare(there, grid), u))


def test_a_linear_operator_is_its_own_negative() -> None:
    family = Linear(1, 1)
    theta, u = parameters(family, 2), torch.randn(2, 3, 1, 32).double()
    negated = Negated(family)
    ready = negated.prepare(theta, LINE)
    torch.testing.assert_close(negated.flow(ready, u, 0.2), family.flow(ready, u, 0.2))


def test_axes_that_are_not_there_and_walls_are_refused() -> None:
    with pytest.raises(OpsplitError, match="no axis 1"):
        Mirrored(UNet(1, 1, 0.1), 1)
    walled = Mirrored(UNet(1, 1, 0.1, boundary=("reflect",)), 0)
    with pytest.raises(OpsplitError, match="periodic axis"):
        walled.check_grid(Grid((32,), (16.0,), "reflect"))
