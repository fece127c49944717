"""Means stay, the rest of a rate does too."""

from __future__ import annotations

import pytest
import torch
from wrapping import around, check_promises, dimensions, grid_of, inner, states, strong

from opsplit.errors import OpsplitError
from opsplit.operators import Conserving, NonAmplifying


@around
@dimensions
def test_a_flow_keeps_the_mean_of_every_channel_and_changes_nothing_else(
    kind: str, ndim: int
) -> None:
    free = inner(kind, 2, ndim)
    keeping, grid = Conserving(free), grid_of(ndim)
    theta, u = strong(free), states(free)
    space = tuple(range(-ndim, 0))
    rates = [net.rate(net.prepare(theta, grid), u) for net in (free, keeping)]
    torch.testing.assert_close(rates[1], rates[0] - rates[0].mean(space, keepdim=True))
    after = keeping.flow(keeping.prepare(theta, grid), u, 0.1)
    torch.testing.assert_close(after.mean(space), u.mean(space), rtol=0, atol=1e-11)
    assert float((after - u).abs().max()) > 1e-3
    loose = free.flow(free.prepare(theta, grid), u, 0.1)
    assert float((loose.mean(space) - u.mean(space)).abs().max()) > 1e-4


@around
@dimensions
def test_it_keeps_the_promises_of_wrappers(kind: str, ndim: int) -> None:
    check_promises(Conserving(inner(kind, 2, ndim)))


@around
def test_it_does_not_go_around_flows_that_do_not_follow_from_a_rate(kind: str) -> None:
    """It would silently drop what they do."""
    with pytest.raises(OpsplitError, match="wrap it the other way round"):
        Conserving(NonAmplifying(inner(kind)))
    NonAmplifying(Conserving(inner(kind)))
