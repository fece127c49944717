"""Larger states change faster, by a power."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from wrapping import around, check_promises, dimensions, grid_of, inner, states, strong

from opsplit.errors import OpsplitError
from opsplit.operators import Examples, Homogeneous, ShiftedStages, Standardised


@around
@dimensions
@pytest.mark.parametrize("degree", [1.0, 2.0, "learned"])
def test_larger_states_change_faster_by_the_degree(
    kind: str, ndim: int, degree: float | str
) -> None:
    free = inner(kind, 2, ndim)
    scaling, grid = Homogeneous(free, degree), grid_of(ndim)  # type: ignore[arg-type]
    u, theta = states(free), strong(free)
    own = torch.tensor([1.0, 1.5, 2.0], dtype=u.dtype)
    degrees = own if degree == "learned" else torch.full_like(own, float(degree))
    whole = torch.cat([theta, own[:, None]], 1) if degree == "learned" else theta
    prepared = scaling.prepare(whole, grid)
    for size in (1e-3, 40.0):
        expected = scaling.rate(prepared, u) * (size**degrees).reshape(3, *[1] * (ndim + 2))
        torch.testing.assert_close(scaling.rate(prepared, size * u), expected, rtol=1e-9, atol=0)
    # On states of size one it is the operator itself.
    unit = u / u.square().mean(tuple(range(2, u.ndim)), keepdim=True).sqrt()
    plain = free.rate(free.prepare(theta, grid), unit)
    torch.testing.assert_close(scaling.rate(prepared, unit), plain)
    # Zero stays zero.
    assert float(scaling.flow(prepared, 0 * u, 0.1).abs().max()) < 1e-5


@around
@given(size=st.floats(1e-6, 1e6))
def test_a_flow_of_degree_one_is_homogeneous_too(kind: str, size: float) -> None:
    net = ShiftedStages(Homogeneous(inner(kind, 2)))
    prepared, u = net.prepare(strong(net), grid_of(1)), states(net)
    one, many = net.flow(prepared, u, 0.1), net.flow(prepared, size * u, 0.1)
    torch.testing.assert_close(many / size, one, rtol=1e-8, atol=1e-10)


@around
def test_the_inner_operator_is_fitted_to_states_of_size_one(kind: str) -> None:
    net = Homogeneous(Standardised(inner(kind)))
    u = 50 * states(net)[0]
    made = net.fitted(Examples(u, u, grid_of(1), 0.1)).operator
    assert isinstance(made, Standardised)
    assert made.spread[0] == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("degree", ["two", 9.0, -8.5, None, True])
def test_an_unknown_degree_is_refused(degree: object) -> None:
    with pytest.raises(OpsplitError, match="Homogeneous: degree must"):
        Homogeneous(degree=degree)  # type: ignore[arg-type]


@around
@dimensions
@pytest.mark.parametrize("degree", [1.0, "learned"])
def test_it_keeps_the_promises_of_wrappers(kind: str, ndim: int, degree: float | str) -> None:
    net = Homogeneous(inner(kind, 2, ndim), degree)  # type: ignore[arg-type]
    check_promises(net, int(degree == "learned"))
