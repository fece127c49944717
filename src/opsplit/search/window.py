"""Observed windows: frames, the time between them, and the transitions that a search scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid

GAP = 1.75
"""A step longer than this many usual steps is a gap: frames are missing in it."""


LONG_GAP = 32
"""A gap of more than so many usual steps ends a trajectory: nothing is carried across it."""


@dataclass(frozen=True)
class Windows:
    """Windows of equal length that were observed at the same times.

    A transition is a pair of neighbouring frames. Transitions across a gap are not scored.
    """

    frames: Tensor
    """`(window, time, channel, *space)`"""
    steps: Tensor
    """`(time - 1,)` time between neighbouring frames, in double precision on the CPU."""
    breaks: Tensor
    """`(time - 1,)` whether the next frame belongs to another trajectory, or is far away."""
    dt: float
    """The usual time between frames: the median of the steps."""
    scored: Tensor
    """`(transition,)` the position of the first frame of every scored transition."""
    durations: float | Tensor
    """How long the scored transitions last: one number if all last equally long."""
    states: Tensor
    """`(window, transition, channel, *space)` the first frame of every scored transition."""
    targets: Tensor
    """The second frame of every scored transition."""
    sizes: Tensor
    """`(window, transition)` the norm that a transition's error is divided by."""

    @classmethod
    def of(cls, window: Tensor, grid: Grid, dt: float | Sequence[float]) -> Windows:
        """Windows from frames `(time, channel, *space)` or `(window, time, channel, *space)`.

        Arguments:
            window: the observed frames.
            grid: their space.
            dt: time between frames, one number or one per pair of neighbours; infinite between the
                last frame of a trajectory and the first of another.
        """
        frames = window if window.ndim == 3 + grid.ndim else window[None]
        count = frames.shape[1]
        if count < 2:
            raise OpsplitError(f"A search needs at least 2 observed frames, got {count}.")
        given = torch.as_tensor(dt, dtype=torch.float64).cpu()
        if given.ndim and len(given) != count - 1:
            raise OpsplitError(
                f"{count} frames have {count - 1} steps between them, got {len(given)}."
            )
        given = given.expand(count - 1)
        breaks = given.isinf()
        usual = float(given[~breaks].median())
        breaks = breaks | (given > LONG_GAP * usual)
        steps = torch.where(breaks, 2 * GAP * usual, given)
        scored = (steps <= GAP * usual).nonzero()[:, 0].to(frames.device)
        lasting = steps[scored.cpu()]
        # Times read from a file are rounded; equal steps share their calls.
        even = torch.allclose(lasting, lasting.new_tensor(usual), rtol=1e-4, atol=0)
        states, targets = frames[:, scored], frames[:, scored + 1]
        norms = targets.flatten(2).norm(dim=2)
        # An all-zero frame has no relative error; its error is relative to the whole window.
        whole = frames.flatten(1).norm(dim=1).clamp_min(1e-30)
        sizes = torch.where(norms > 0, norms, whole[:, None])
        durations = usual if even else lasting.to(frames)
        return cls(frames, steps, breaks, usual, scored, durations, states, targets, sizes)

    def __len__(self) -> int:
        return len(self.frames)

    def only(self, windows: Sequence[int]) -> Windows:
        """Some of the windows."""
        at: list[int] | slice = list(windows)
        if len(windows) == 1:
            # A view: many windows of one search are handed on one by one.
            at = slice(windows[0], windows[0] + 1)
        return replace(
            self, frames=self.frames[at], states=self.states[at], targets=self.targets[at],
            sizes=self.sizes[at],
        )  # fmt: skip

    @classmethod
    def together(cls, parts: Sequence[Windows]) -> Windows:
        """Windows that were observed at the same times, one after the other."""
        return replace(
            parts[0],
            frames=torch.cat([part.frames for part in parts]),
            states=torch.cat([part.states for part in parts]),
            targets=torch.cat([part.targets for part in parts]),
            sizes=torch.cat([part.sizes for part in parts]),
        )

    @property
    def device(self) -> torch.device:
        return self.frames.device

    @property
    def transitions(self) -> int:
        """Number of scored transitions in a window."""
        return self.states.shape[1]

    @property
    def even(self) -> bool:
        """Whether all scored transitions last equally long."""
        return not isinstance(self.durations, Tensor)

    def every(self) -> Tensor:
        """Positions of all scored transitions."""
        return torch.arange(self.transitions, device=self.device)

    def scored_among(self, frames: int) -> int:
        """Number of scored transitions between the last `frames` frames."""
        return int((self.scored >= self.frames.shape[1] - frames).sum())

    def lasting(self, transitions: Tensor | None = None) -> float | Tensor:
        """How long these transitions last (not given: all that are scored)."""
        h = self.durations
        return h[transitions] if isinstance(h, Tensor) and transitions is not None else h

    def substeps(self) -> list[tuple[int, float]]:
        """Number and length of the steps that lead from every frame to the next.

        A gap is crossed in steps that are no longer than the usual one; no step leads from one
        trajectory to another.
        """
        out = []
        for span, apart in zip(self.steps.tolist(), self.breaks.tolist(), strict=True):
            if apart:
                out.append((0, 0.0))
                continue
            count = 1 if span <= GAP * self.dt else math.ceil(span / self.dt - 1e-6)
            out.append((count, span / count))
        return out

    def errors(self, u: Tensor, home: Tensor, transitions: Tensor | None = None) -> Tensor:
        """Relative errors `(n, transition)` of predictions; infinite where one is not finite.

        Arguments:
            u: predicted second frames `(n, transition, channel, *space)`.
            home: `(n,)` the window of every prediction.
            transitions: positions of the predicted transitions (not given: all).
        """
        at = (home[:, None], self.every() if transitions is None else transitions)
        error = (u - self.targets[at]).flatten(2).norm(dim=2) / self.sizes[at]
        return torch.where(torch.isfinite(error), error, torch.inf)
