"""Operators in usual units."""

from __future__ import annotations

import pytest
import torch
from building import noise
from wrapping import around, check_promises, dimensions, grid_of, inner, states, strong

from opsplit.errors import OpsplitError
from opsplit.operators import Examples, Standardised

UNITS = {"centre": (1.0, -2.0), "spread": (0.5, 3.0), "rate_scale": (0.1, 0.02)}


@around
@dimensions
def test_the_operator_sees_and_moves_in_usual_units(kind: str, ndim: int) -> None:
    plain, grid = inner(kind, 2, ndim), grid_of(ndim)
    theta, u = strong(plain), states(plain)
    net = Standardised(plain, **UNITS)
    centre, spread, scale = (
        torch.tensor(v).double().reshape(2, *[1] * ndim) for v in UNITS.values()
    )
    expected = scale * plain.rate(plain.prepare(theta, grid), (u - centre) / spread)
    torch.testing.assert_close(net.rate(net.prepare(theta, grid), u), expected)
    # One of them at a time.
    for name in UNITS:
        own = Standardised(plain, **{name: UNITS[name]})
        seen = {k: v if k == name else (0.0, 0.0) if k == "centre" else (1.0, 1.0)
                for k, v in UNITS.items()}  # fmt: skip
        whole = Standardised(plain, **seen)
        rates = [f.rate(f.prepare(theta, grid), u) for f in (own, whole)]
        torch.testing.assert_close(*rates)


@around
def test_without_units_it_is_the_operator_itself(kind: str) -> None:
    plain = inner(kind)
    theta, u = strong(plain), states(plain)
    rates = [f.rate(f.prepare(theta, grid_of(1)), u) for f in (plain, Standardised(plain))]
    assert torch.equal(*rates)


@around
@dimensions
def test_units_are_taken_from_the_training_data(kind: str, ndim: int) -> None:
    grid = grid_of(ndim)
    size = torch.tensor([2.0, 0.1]).double().reshape(2, *[1] * ndim)
    u = 3 * size + size * noise(50, 2, *grid.shape)
    f = 0.3 * size * noise(50, 2, *grid.shape, seed=1)
    made = Standardised(inner(kind, 2, ndim)).fitted(Examples(u, f, grid, 0.1))
    assert made.centre == pytest.approx((6.0, 0.3), rel=0.03)
    assert made.spread == pytest.approx((2.0, 0.1), rel=0.03)
    assert made.rate_scale == pytest.approx((0.6, 0.03), rel=0.05)
    twice = Standardised(Standardised(inner(kind, 2, ndim))).fitted(Examples(u, f, grid, 0.1))
    inside = twice.operator
    assert isinstance(inside, Standardised)
    assert inside.centre == pytest.approx((0, 0), abs=1e-6)
    assert inside.spread == pytest.approx((1, 1)) and inside.rate_scale == pytest.approx((1, 1))


@around
def test_a_constant_channel_has_a_unit_too(kind: str) -> None:
    u = torch.ones(4, 1, 32).double()
    made = Standardised(inner(kind)).fitted(Examples(u, 0 * u, grid_of(1), 0.1))
    assert made.spread[0] > 0 and made.rate_scale[0] > 0


@pytest.mark.parametrize("name", UNITS)
def test_one_number_per_channel_is_needed(name: str) -> None:
    for kind in ("spectral", "unet"):
        with pytest.raises(OpsplitError, match=f"{name} needs one number for each of 2 channels"):
            Standardised(inner(kind, 2), **{name: (1.0,)})


def test_a_unit_is_positive() -> None:
    for name in ("spread", "rate_scale"):
        with pytest.raises(OpsplitError, match=f"{name} must lie in"):
            Standardised(**{name: (0.0,)})


@around
@dimensions
def test_it_keeps_the_promises_of_wrappers(kind: str, ndim: int) -> None:
    check_promises(Standardised(inner(kind, 2, ndim), **UNITS))
