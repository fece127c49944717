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
    deviation: Tensor | None = None
    """Expected size of the error `(time, channel)` before calibration, where it was asked for."""


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
    return rollouts(operators, [composition], start, times, dt, scheme, refinement)[0]


@torch.no_grad()
def rollouts(
    operators: PreparedDictionary,
    compositions: Sequence[Composition],
    start: Tensor,
    times: Sequence[float] | Tensor,
    dt: float,
    scheme: Scheme = "strang",
    refinement: int = 1,
) -> list[Forecast]:
    """Forecasts of several compositions of one length from the same state, in shared calls."""
    moments = torch.as_tensor(times, dtype=torch.float64)
    if moments.ndim != 1 or not len(moments) or not bool(torch.isfinite(moments).all()):
        raise OpsplitError("Times to predict must be a list of finite numbers.")
    if bool((moments <= 0).any()) or bool((moments.diff() <= 0).any()):
        raise OpsplitError("Times to predict count from the last observed frame and must increase.")
    sets = torch.tensor([c.operators for c in compositions], device=start.device)
    strengths = torch.tensor([c.strengths for c in compositions], dtype=torch.float64).to(start)

    def part(i: int) -> Flow:
        return lambda u, h: operators.flow(sets[:, i], u, strengths[:, i] * h)

    flows = [part(i) for i in range(sets.shape[1])]
    u, now, frames = start.expand(len(sets), 1, *start.shape), 0.0, []
    broken = [0] * len(sets)
    for number, moment in enumerate(moments.tolist(), 1):
        steps = max(1, math.ceil((moment - now) / dt - 1e-6))
        for _ in range(steps):
            if not all(broken):
                u = split_step(flows, u, (moment - now) / steps, scheme, refinement)
        now = moment
        fine = u.flatten(1).isfinite().all(1).tolist()
        broken = [b or (0 if ok else number) for b, ok in zip(broken, fine, strict=True)]
        gone = torch.tensor([b > 0 for b in broken], device=u.device)
        u = torch.where(gone.reshape(-1, *[1] * (u.ndim - 1)), torch.nan, u)
        frames.append(u[:, 0])
    found = torch.stack(frames, 1)
    return [
        Forecast(found[i], moments, f"diverged at frame {broken[i]}" if broken[i] else "ok")
        for i in range(len(sets))
    ]
