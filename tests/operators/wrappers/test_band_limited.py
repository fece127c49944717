"""The upper modes of a state stay as they are."""

from __future__ import annotations

import pytest
import torch
from building import noise
from wrapping import around, check_promises, dimensions, grid_of, inner, states, strong

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import BandLimited, UNet


@around
@dimensions
@pytest.mark.parametrize("share", [0.5, 0.3])
def test_a_flow_changes_nothing_beyond_its_band(kind: str, ndim: int, share: float) -> None:
    whole = inner(kind, 1, ndim)
    banded, grid = BandLimited(whole, share), grid_of(ndim)
    theta, u = strong(whole), states(whole)
    axes = tuple(range(-ndim, 0))
    low = torch.ones(grid.shape, dtype=torch.bool)
    for axis, n in enumerate(grid.shape):
        number = torch.fft.fftfreq(n, 1 / n).abs() <= share * (n // 2) + 1e-9
        low &= number.reshape([-1 if i == axis else 1 for i in range(ndim)])
    changes = [
        torch.fft.fftn(net.flow(net.prepare(theta, grid), u, 0.1) - u, dim=axes)
        for net in (whole, banded)
    ]
    torch.testing.assert_close(changes[1], changes[0] * low, rtol=0, atol=1e-10)
    assert float(changes[0][..., ~low].abs().max()) > 1e-3
    rates = [
        torch.fft.fftn(net.rate(net.prepare(theta, grid), u), dim=axes) for net in (whole, banded)
    ]
    torch.testing.assert_close(rates[1], rates[0] * low, rtol=0, atol=1e-9)


@around
def test_a_band_of_all_modes_is_the_operator_itself(kind: str) -> None:
    whole, u = inner(kind), states(inner(kind))
    banded, theta = BandLimited(whole, 1.0), strong(inner(kind))
    flows = [net.flow(net.prepare(theta, grid_of(1)), u, 0.1) for net in (whole, banded)]
    torch.testing.assert_close(*flows)


def test_axes_with_walls_have_no_modes_to_limit() -> None:
    net = UNet(1, 2, 0.05, ("zero", "periodic"), width=4)
    grid = Grid((16, 32), (1.0, 1.0), net.walls)
    theta, u = strong(net, 1), noise(1, 2, 1, 16, 32)
    whole, banded = (
        f.flow(f.prepare(theta, grid), u, 0.05) - u for f in (net, BandLimited(net, 0.5))
    )
    spectrum = torch.fft.rfft(whole, dim=-1)
    spectrum[..., 9:] = 0
    torch.testing.assert_close(banded, torch.fft.irfft(spectrum, n=32, dim=-1))


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5])
def test_an_impossible_band_is_refused(share: float) -> None:
    with pytest.raises(OpsplitError, match="BandLimited: share must lie in"):
        BandLimited(share=share)


@around
@dimensions
def test_it_keeps_the_promises_of_wrappers(kind: str, ndim: int) -> None:
    check_promises(BandLimited(inner(kind, 2, ndim)))
