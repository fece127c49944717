"""Roll a composition forward in time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from opsplit._deadline import time_is_up
from opsplit._memory import check_room
from opsplit.dictionary import PreparedDictionary
from opsplit.display import channel_number, html_facts, plot_fields
from opsplit.errors import OpsplitError, named
from opsplit.grid import Grid
from opsplit.search.result import Composition
from opsplit.settings import shown
from opsplit.splitting import Flow, Scheme, split_step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
MOST_STEPS = 10_000_000
"""Steps of the usual length that a forecast may take."""


class Outcome(StrEnum):
    """What became of a rollout."""

    FINITE = "finite"
    SMOOTHED = "smoothed"
    """Only without the smallest scales does it stay finite."""
    DIVERGED = "diverged"
    """It is NaN from some frame on."""
    LATE = "late"
    """Its time was up before some frame; it is NaN from there on."""


@dataclass(frozen=True)
class Forecast:
    """Predicted frames `(time, channel, *space)` at `times` after the last observed frame.

    Examples:
        >>> import torch, opsplit
        >>> opsplit.Forecast(torch.zeros(2, 1, 8), torch.tensor([0.1, 0.2])).status
        'ok'
    """

    frames: Tensor
    times: Tensor
    outcome: Outcome = Outcome.FINITE
    broken: int | None = None
    """The frame at which it stopped to be finite (with all scales), counted from 1."""
    deviation: Tensor | None = None
    """Expected size of the error `(time, channel)` before calibration, where it was asked for."""
    explained: bool = True
    """Whether the composition explains what was observed; a forecast without is never `ok`."""
    grid: Grid | None = None
    """The space of the frames, where it is known."""
    channels: tuple[str, ...] = ()
    """Names of the channels, where they are known."""

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.frames.shape))
        return f"Forecast({shape} until {float(self.times[-1]):.5g}, {self.status})"

    def _repr_html_(self) -> str:
        axes = ("time", "channel", "x", "y", "z")
        each = zip(axes, self.frames.shape, strict=False)
        facts = {"frames": ", ".join(f"{name} {n}" for name, n in each)}
        facts["until"] = f"{float(self.times[-1]):.5g} after the last observed frame"
        if self.channels:
            facts["channels"] = ", ".join(self.channels)
        return html_facts("Forecast", facts | {"status": self.status})

    @named
    def plot(self, ax: Axes | None = None, channel: int | str = 0, frame: int = -1) -> Axes:
        """Draw one channel: a line over time, or one frame of a plane.

        Arguments:
            ax: axes to draw into (default: those of a new figure).
            channel: which channel, by name or number.
            frame: which frame of a plane or a volume.

        Returns:
            The axes.
        """
        names = self.channels or tuple(f"u{i}" for i in range(self.frames.shape[1]))
        number = channel_number(channel, names)
        extent = self.grid.extent if self.grid else tuple(map(float, self.frames.shape[2:]))
        fields = self.frames[:, number].float().cpu().numpy()
        return plot_fields(fields, self.times.cpu().numpy(), extent, names[number], ax, frame)

    @property
    def status(self) -> str:
        """`ok`, or what is wrong with it in words."""
        words = [] if self.explained else ["unexplained"]
        if self.outcome is Outcome.SMOOTHED:
            words.append(
                f"smoothed: diverged at frame {self.broken} with the upper third of the modes"
            )
        if self.outcome is Outcome.DIVERGED:
            words.append(f"diverged at frame {self.broken}")
        if self.outcome is Outcome.LATE:
            words.append(f"stopped by max_seconds before frame {self.broken}")
        return ", ".join(words) or "ok"


@torch.no_grad()
def one_step(
    operators: PreparedDictionary,
    composition: Composition,
    states: Tensor,
    durations: Sequence[float],
    scheme: Scheme = "strang",
    refinement: int = 1,
) -> Tensor:
    """Every state `(n, channel, *space)` carried on for its own duration."""
    usual = sum(durations) / len(durations)
    if all(math.isclose(h, usual, rel_tol=1e-3) for h in durations):
        return steps_together(operators, [composition], states[None], usual, scheme, refinement)[0]
    flows = _flows(operators, [composition], states)
    each = zip(states, durations, strict=True)
    found = [split_step(flows, u[None, None], h, scheme, refinement)[0] for u, h in each]
    return torch.cat(found)


@torch.no_grad()
def steps_together(
    operators: PreparedDictionary,
    compositions: Sequence[Composition],
    states: Tensor,
    duration: float,
    scheme: Scheme = "strang",
    refinement: int = 1,
) -> Tensor:
    """States `(n, K, channel, *space)` carried on, those of each row by its own composition."""
    flows = _flows(operators, compositions, states)
    return split_step(flows, states, duration, scheme, refinement)


def _flows(
    operators: PreparedDictionary, compositions: Sequence[Composition], like: Tensor
) -> list[Flow]:
    """The flows of compositions of one length, part by part."""
    sets = torch.tensor([c.operators for c in compositions], device=like.device)
    strengths = torch.tensor([c.strengths for c in compositions], dtype=torch.float64).to(like)

    each = zip(sets.T, strengths.T, strict=True)
    return [operators.acting(index, strength) for index, strength in each]


def moments(times: Any) -> list[float]:
    """Times after the last observed frame, as numbers."""
    try:
        return [float(t) for t in times]
    except (TypeError, ValueError):
        raise OpsplitError(f"times must be numbers as in [0.5, 1.0], got {shown(times)}.") from None


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
    timed: bool = False,
) -> list[Forecast]:
    """Forecasts of several compositions of one length, in shared calls.

    They start from the same state `(channel, *space)` or each from its own. One that runs away is
    repeated without the upper third of the modes. A timed one ends when the time of the enclosing
    `opsplit.search.budget.within` is over.
    """
    moments = torch.as_tensor(times, dtype=torch.float64)
    if moments.ndim != 1 or not len(moments) or not bool(torch.isfinite(moments).all()):
        raise OpsplitError("Times to predict must be a list of finite numbers.")
    if bool((moments <= 0).any()) or bool((moments.diff() <= 0).any()):
        raise OpsplitError("Times to predict count from the last observed frame and must increase.")
    shape = start.shape[-1 - operators.grid.ndim :]
    starts = start.expand(len(compositions), *shape)[:, None]
    total = float(moments[-1]) / dt
    if total > MOST_STEPS:
        raise OpsplitError(
            f"A forecast over {total:.3g} steps between frames is too long; at most {MOST_STEPS}."
        )
    check_room(
        f"A forecast of {len(moments)} frames",
        2.0 * len(moments) * starts.numel() * start.element_size(),
        "ask for fewer steps",
    )

    late: list[int] = []

    def run(rows: list[int], calm: bool) -> tuple[Tensor, list[int]]:
        flows = _flows(operators, [compositions[row] for row in rows], start)
        u, now = starts[rows], 0.0
        frames = start.new_full((len(rows), len(moments), *shape), torch.nan)
        broken = [0] * len(rows)
        for number, moment in enumerate(moments.tolist(), 1):
            if all(broken):
                break
            steps = (2 if calm else 1) * max(1, math.ceil((moment - now) / dt - 1e-6))
            for _ in range(steps):
                if timed and time_is_up():
                    late.append(number)
                    return frames, [b or number for b in broken]
                u = split_step(flows, u, (moment - now) / steps, scheme, refinement)
                u = without_upper_third(u, operators.grid) if calm else u
            now = moment
            fine = u.flatten(1).isfinite().all(1).tolist()
            if not all(fine):
                broken = [b or (0 if ok else number) for b, ok in zip(broken, fine, strict=True)]
                gone = torch.tensor([b > 0 for b in broken], device=u.device)
                u = torch.where(gone.reshape(-1, *[1] * (u.ndim - 1)), torch.nan, u)
            frames[:, number - 1] = u[:, 0]
        return frames, broken

    found, broken = run(list(range(len(compositions))), calm=False)
    ended = Outcome.LATE if late else Outcome.DIVERGED
    outcome = [ended if b else Outcome.FINITE for b in broken]
    lost = [i for i, b in enumerate(broken) if b]
    if lost and not late and "periodic" in operators.grid.boundary:
        # What runs away does so at the smallest scales, where nothing was learned or resolved.
        again, still = run(lost, calm=True)
        for row, frames, b in zip(lost, again, still, strict=True):
            if not b:
                found[row] = frames
                outcome[row] = Outcome.SMOOTHED
    each = zip(found, outcome, broken, strict=True)
    return [Forecast(f, moments, what, b or None) for f, what, b in each]


def without_upper_third(u: Tensor, grid: Grid) -> Tensor:
    """The field without the upper third of the modes of every periodic axis."""
    for axis, word in enumerate(grid.boundary):
        if word == "periodic":
            dim = axis - grid.ndim
            spectrum = torch.fft.rfft(u, dim=dim)
            last = grid.shape[axis] // 3
            kept = torch.arange(spectrum.shape[dim], device=u.device) <= last
            spectrum = spectrum * kept.reshape(-1, *[1] * (-1 - dim))
            u = torch.fft.irfft(spectrum, n=grid.shape[axis], dim=dim)
    return u
