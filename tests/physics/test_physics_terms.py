"""Facts of terms: what other units, mirrors and signs do to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.physics import PHYSICS, Physics
from opsplit.terms import Term

CASES = [(name, term) for name in PHYSICS for term in PHYSICS[name].terms]


def field_of(name: str, smooth: Callable[..., Tensor]) -> tuple[Physics, Tensor, Grid]:
    equation = PHYSICS[name]
    axes = equation().grid.ndim
    grid = Grid((32,) * axes, (2.0,) * axes)
    # Few modes, so that products fit the grid; no mean, which a vorticity cannot have.
    u = smooth(grid, (1, len(equation.channels)), modes=3, seed=1)
    return equation(grid=grid), u - u.mean(tuple(range(2, u.ndim)), keepdim=True), grid


def value(physics: Physics, term: str, u: Tensor) -> Tensor:
    """The term on a field; the one that least squares leaves out is written here."""
    if term == "epsilon":
        return u * physics.term_fields(u)["c"]
    return physics.term_fields(u)[term]


@pytest.mark.parametrize(("name", "term"), CASES)
def test_order_and_degree_say_how_units_change_a_term(
    name: str, term: str, smooth: Callable[..., Tensor]
) -> None:
    physics, u, grid = field_of(name, smooth)
    facts, before = PHYSICS[name].terms[term], value(physics, term, u)
    assert float(before.abs().max()) > 0
    assert facts.order is not None
    longer = PHYSICS[name](grid=Grid(grid.shape, tuple(3 * x for x in grid.extent)))
    torch.testing.assert_close(value(longer, term, u), before * 3.0**-facts.order)
    if facts.degree is not None:
        torch.testing.assert_close(value(physics, term, 1.7 * u), before * 1.7**facts.degree)


@pytest.mark.parametrize(("name", "term"), CASES)
def test_a_term_that_changes_its_sign_in_a_mirror_has_either_sign(
    name: str, term: str, smooth: Callable[..., Tensor]
) -> None:
    physics, u, _ = field_of(name, smooth)

    def mirrored(v: Tensor) -> Tensor:
        return v.flip(-1).roll(1, -1)

    found = mirrored(value(physics, term, mirrored(u)))
    turned = bool((found * value(physics, term, u)).sum() < 0)
    sign = -1 if turned else 1
    torch.testing.assert_close(found, sign * value(physics, term, u), rtol=1e-7, atol=1e-9)
    assert PHYSICS[name].terms[term].signed or not turned


def test_a_term_checks_itself() -> None:
    assert Term.from_json(Term("u_xx", 2, 1).to_json()) == Term("u_xx", order=2, degree=1)
    with pytest.raises(OpsplitError, match="order must lie in"):
        Term("u", order=99)
    with pytest.raises(OpsplitError, match="text must be printable"):
        Term("")
