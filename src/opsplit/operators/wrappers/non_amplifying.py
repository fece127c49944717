"""Operators whose flows never raise an upper mode."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, mode_shares, spectrum_of
from opsplit.grid import Grid
from opsplit.operators.family import Prepared
from opsplit.operators.wrappers.wrapper import Wrapper
from opsplit.settings import Share


@dataclass(frozen=True)
class NonAmplifying(Wrapper):
    """A flow may turn and damp the upper modes, never raise them.

    Linear transport, diffusion and dispersion raise no mode.

    Arguments:
        above: share of the modes of every axis beyond which this holds.
    """

    kind = "non-amplifying"

    above: Share = 0.5

    def check_grid(self, grid: Grid) -> None:
        super().check_grid(grid)
        if not grid.periodic:
            raise OpsplitError(
                f"Non-amplifying operators need periodic axes, the data have {grid.boundary}."
            )

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        before = spectrum_of(u, self.ndim)
        after = spectrum_of(self.operator.flow(prepared, u, duration), self.ndim)
        gain = (before.abs() / after.abs().clamp_min(1e-30)).clamp(max=1)
        upper = mode_shares(prepared.grid, u.device) > self.above
        return field_of(after * torch.where(upper, gain, 1.0), prepared.grid.shape)
