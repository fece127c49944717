"""The inner operator sees the gradient of the inverse Laplacian."""

from __future__ import annotations

import math

import pytest
import torch
from building import noise
from wrapping import around, check_promises, dimensions, grid_of, inner, states, strong

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import PotentialInputs, Spectral, UNet


@around
@dimensions
def test_the_gradient_is_that_of_the_inverse_laplacian(kind: str, ndim: int) -> None:
    net = PotentialInputs(inner(kind, 1 + ndim, ndim), 3.0)
    grid = Grid((16,) * ndim, (2 * math.pi,) * ndim)
    x = grid.axes()[0].reshape(-1, *[1] * (ndim - 1)).expand(grid.shape)
    state = (5 + torch.sin(2 * x)).expand(1, 1, 1, *grid.shape)
    seen = net._seen(state, grid)
    torch.testing.assert_close(seen[:, :, :1], state)
    # The inverse Laplacian of sin(2x) is -sin(2x) / 4; a mean has none.
    torch.testing.assert_close(seen[0, 0, 1], 3 * -torch.cos(2 * x) / 2)
    for other in seen[0, 0, 2:]:
        torch.testing.assert_close(other, torch.zeros_like(other))


@around
@dimensions
def test_only_the_rates_of_the_fields_count(kind: str, ndim: int) -> None:
    inside = inner(kind, 2 * (1 + ndim), ndim)
    net, grid = PotentialInputs(inside, 2.0), grid_of(ndim)
    assert net.channels == 2
    theta, u = strong(net), states(net)
    prepared = net.prepare(theta, grid)
    whole = inside.rate(prepared, net._seen(u, grid))
    assert torch.equal(net.rate(prepared, u), whole[:, :, :2])
    # A potential of nothing but a mean is nothing: the inner operator sees zeros.
    flat = torch.ones_like(u)
    zeros = torch.cat([flat, torch.zeros(3, 2, 2 * ndim, *grid.shape)], 2)
    torch.testing.assert_close(net.rate(prepared, flat), inside.rate(prepared, zeros)[:, :, :2])


@around
def test_the_gradient_matters_to_the_rate(kind: str) -> None:
    near, far = (PotentialInputs(inner(kind, 3, 2), k) for k in (1.0, 4.0))
    theta, u = strong(near), states(near)
    rates = [net.rate(net.prepare(theta, grid_of(2)), u) for net in (near, far)]
    assert float((rates[0] - rates[1]).abs().max()) > 1e-4


@pytest.mark.parametrize(("channels", "ndim"), [(1, 1), (3, 1), (2, 2), (4, 2)])
def test_channels_that_do_not_divide_cannot_be_constructed(channels: int, ndim: int) -> None:
    for family in (UNet(channels, ndim), Spectral(channels, ndim)):
        with pytest.raises(OpsplitError, match=f"needs {1 + ndim} channels per channel"):
            PotentialInputs(family)


def test_it_needs_periodic_axes() -> None:
    net = PotentialInputs(UNet(2, 1, boundary=("zero",)))
    with pytest.raises(OpsplitError, match="inverse Laplacian needs periodic axes"):
        net.prepare(noise(1, net.n_parameters), Grid((16,), (1.0,), "zero"))


@around
@dimensions
def test_it_keeps_the_promises_of_wrappers(kind: str, ndim: int) -> None:
    check_promises(PotentialInputs(inner(kind, 2 * (1 + ndim), ndim)))
