"""Roll a composition forward in time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from opsplit.dictionary import PreparedDictionary
from opsplit.errors import OpsplitError
from opsplit.search.result import Composition
from opsplit.splitting import Flow, Scheme, split_step


@dataclass(frozen=True)
class Forecast:
    """Predicted frames `(time, channel, *space)` at `times` after the last observed frame."""

    frames: Tensor
    times: Tensor
    status: str
    """`ok`, or the frame from which the forecast is no longer finite (NaN from there on)."""


@torch.no_grad()
def rollout(
    operators: PreparedDictionary,
    composition: Composition,
    start: Tensor,
    times: Sequence[float] | Tensor,
    dt: float,
    scheme: Scheme = "strang",
    refinement: int = 1,
) -> Forecast:
    """States at `times` after `start` `(channel, *space)`, in equal steps no longer than `dt`."""
    moments = torch.as_tensor(times, dtype=torch.float64)
    if moments.ndim != 1 or not len(moments) or not bool(torch.isfinite(moments).all()):
        raise OpsplitError("Times to predict must be a list of finite numbers.")
    if bool((moments <= 0).any()) or bool((moments.diff() <= 0).any()):
        raise OpsplitError("Times to predict count from the last observed frame and must increase.")
    device = start.device
    index = [torch.tensor([i], device=device) for i in composition.operators]

    def part(i: int) -> Flow:
        return lambda u, h: operators.flow(index[i], u, composition.strengths[i] * h)

    flows = [part(i) for i in range(len(composition))]
    u, now, frames = start[None, None], 0.0, []
    status = "ok"
    for number, moment in enumerate(moments.tolist(), 1):
        if status != "ok":
            frames.append(u[0, 0])
            continue
        steps = max(1, math.ceil((moment - now) / dt - 1e-6))
        for _ in range(steps):
            u = split_step(flows, u, (moment - now) / steps, scheme, refinement)
        now = moment
        if not bool(torch.isfinite(u).all()):
            status = f"diverged at frame {number}"
            u = torch.full_like(u, torch.nan)
        frames.append(u[0, 0])
    return Forecast(torch.stack(frames), moments, status)
