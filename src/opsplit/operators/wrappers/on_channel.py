"""Operators of a scalar field, used on one channel of a system."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.operators.family import Channels, Prepared
from opsplit.operators.wrappers.wrapper import Wrapper


@dataclass(frozen=True)
class OnChannel(Wrapper):
    """A scalar operator on one channel; the other channels stay as they are.

    Arguments:
        channel: the channel, counted from 0.
        of: channels of the system.
    """

    kind = "on-channel"

    channel: int = 0
    of: Channels = 2

    def check(self) -> None:
        if self.operator.channels != 1:
            raise OpsplitError(
                f"OnChannel: the operator acts on {self.operator.channels} channels, not on 1."
            )
        if not 0 <= self.channel < self.of:
            raise OpsplitError(f"OnChannel: channel must lie in 0..{self.of - 1}.")

    @property
    def channels(self) -> int:  # type: ignore[override]
        return self.of

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        out = u.clone()
        out[:, :, self._own] = self.operator.flow(prepared, u[:, :, self._own], duration)
        return out

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        out = torch.zeros_like(u)
        out[:, :, self._own] = self.operator.rate(prepared, u[:, :, self._own])
        return out

    @property
    def _own(self) -> slice:
        return slice(self.channel, self.channel + 1)
