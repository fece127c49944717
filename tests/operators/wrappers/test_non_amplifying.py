"""No upper mode grows, the lower ones and those that shrink are left alone."""

from __future__ import annotations

import pytest
import torch
from wrapping import around, check_promises, dimensions, grid_of, inner, states, strong

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import NonAmplifying, UNet


@around
@dimensions
@pytest.mark.parametrize("above", [0.0, 0.5])
def test_a_flow_raises_no_upper_mode_and_leaves_the_lower_ones(
    kind: str, ndim: int, above: float
) -> None:
    free = inner(kind, 2, ndim)
    calm, grid = NonAmplifying(free, above), grid_of(ndim)
    theta, u = 2 * strong(free), states(free)
    axes = tuple(range(-ndim, 0))
    loose, held = (f.flow(f.prepare(theta, grid), u, 0.05) for f in (free, calm))
    before, loosely, after = (torch.fft.fftn(x, dim=axes) for x in (u, loose, held))
    shares = [torch.fft.fftfreq(n, dtype=u.dtype).abs() * 2 for n in grid.shape]
    upper = torch.stack(torch.meshgrid(*shares, indexing="ij")).amax(0) > above
    assert bool((after.abs() <= before.abs() * (1 + 1e-9))[..., upper].all())
    assert bool((loosely.abs() > before.abs())[..., upper].any())
    torch.testing.assert_close(after[..., ~upper], loosely[..., ~upper])
    # Modes that had not grown are as they were.
    fine = loosely.abs() <= before.abs()
    torch.testing.assert_close(after[fine], loosely[fine])
    assert not calm.flows_follow_rates


def test_it_needs_periodic_axes() -> None:
    net = NonAmplifying(UNet(1, 2, boundary=("periodic", "zero")))
    with pytest.raises(OpsplitError, match="need periodic axes"):
        net.check_grid(Grid((16, 16), (1.0, 1.0), ("periodic", "zero")))


@pytest.mark.parametrize("above", [-0.1, 1.1])
def test_an_impossible_share_is_refused(above: float) -> None:
    with pytest.raises(OpsplitError, match="NonAmplifying: above must lie in"):
        NonAmplifying(above=above)


@around
@dimensions
def test_it_keeps_the_promises_of_wrappers(kind: str, ndim: int) -> None:
    check_promises(NonAmplifying(inner(kind, 2, ndim)))
