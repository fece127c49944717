"""Networks that map the last 16 frames to the next one, and forecast by sliding the window."""

from __future__ import annotations

import torch
from torch import Tensor

from opsplit.baselines.protocol import Network, relative
from opsplit.baselines.windows import Windows


class NextFrame(Network):
    """A network whose `forward` maps windows `(n, time, channel, *space)` to the next frame."""

    def loss(self, windows: Windows, stage: str) -> Tensor:
        return relative(self(windows.frames[:, :-1]), windows.frames[:, -1])

    def forecast(self, observed: Tensor, horizon: int) -> Tensor:
        window, out = observed, []
        for _ in range(horizon):
            out.append(self(window))
            window = torch.cat([window[:, 1:], out[-1][:, None]], 1)
        return torch.stack(out, 1)
