"""One judgement of a fit: how much of the change it explains, and whether it can forecast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from opsplit._text import percent
from opsplit.dictionary import PreparedDictionary
from opsplit.predict.denoise import in_modes, signal_modes
from opsplit.predict.rollout import one_step, rollout, rollouts, steps_together
from opsplit.predict.window import Window, runs
from opsplit.search import Composition
from opsplit.search.window import GAP, LONG_GAP
from opsplit.splitting import Scheme

CLOSE = 0.05
"""A step that leaves no more than this share of its change, noise aside, is explained."""
SHARE = 0.25
"""A step that leaves no more than this share is at least partly explained."""
LARGE = 0.65
"""A step that leaves more than this share explains too little by itself."""
GOOD, POOR = 0.9, 0.45
"""Skill from which on a composition can forecast, and below which it cannot.

Measured with the bundled models on systems that no table uses (seeds from 900 on). Clean data: a
share of at most 0.09 and a skill of at least 0.97; a missing nonlocal term, absorbed by decay, left
0.097 and spoiled the forecast, so that a share between 0.05 and 0.1 is not enough. With 5 % white
noise the share is 0.18 to 0.96, because the noise that is left changes from frame to frame, and the
skill 0.63 to 0.97; what noise alone must leave is taken off before both are judged. Data that no
composition explains (frames of noise, standing waves of a second-order equation, random
oscillations, a rotating picture, frames in a random order): a share of at least 0.97 and a skill of
at most 0.3.
"""
SURE = 1.2
"""Noise may be so many times stronger than it was measured."""
SEEN, HARDLY = 0.5, 0.2
"""Skill, noise included, that a run needs before anything counts as explained, and without which
steps that leave most of the change are unexplained. Noise that is most of what persistence misses
hides what a composition does, and any that does nothing would fit: still frames with noise, random
walks."""
NOTED = 0.1
"""Noise that makes more than this share of what a step leaves is mentioned."""
STILL = 1e-4
"""A change smaller than this share of the deviations of the field is not resolved, and not held
against a fit. A mean is no deviation: a model that cannot take it off must not profit from it."""


class Level(StrEnum):
    """How far a composition explains what was observed."""

    EXPLAINED = "explained"
    PARTLY = "partly"
    UNEXPLAINED = "unexplained"


class Basis(StrEnum):
    """The frames that the skill was measured on."""

    WINDOW = "window"
    FUTURE = "future"


@dataclass(frozen=True)
class Verdict:
    """The judgement of one fit.

    Examples:
        >>> import opsplit
        >>> from opsplit.predict.verdict import Level
        >>> opsplit.Verdict(Level.EXPLAINED, 0.02, 0.99).trusted
        True
    """

    level: Level
    unexplained: float
    """Norm of what one step leaves over the norm of the change of that step, over the window."""
    skill: float | None
    """One minus the error over the error of persistence (the first frame, repeated): 1 is perfect,
    0 no better than that nothing changes, minus infinity a run that is not finite. None where
    nothing changes."""
    basis: Basis = Basis.WINDOW
    """`window`: the run from the first observed frame over all others; `future`: the forecast,
    against the frames that followed."""
    noise: float = 0.0
    """The share of the change that noise alone leaves of a step."""
    weak: tuple[str, ...] = ()
    """Mechanisms of the composition whose operators training itself calls weak. They may fit the
    frames by accident, so nothing counts as explained with them."""

    @property
    def text(self) -> str:
        """One sentence with both numbers, and what it means for the forecast."""
        words = {
            Level.EXPLAINED: "Explained",
            Level.PARTLY: "Partly explained",
            Level.UNEXPLAINED: "Unexplained",
        }[self.level]
        said = f"{words}: one step leaves {percent(self.unexplained)} % of the change unexplained"
        if self.noise > NOTED * self.unexplained:
            said += f" (noise alone: {percent(self.noise)} %)"
        if self.skill is not None:
            where = "observed frames" if self.basis is Basis.WINDOW else "frames that followed"
            said += f", and the skill against persistence is {self.skill:.2g} on the {where}"
        if self.weak:
            said += f", with weak operators of {', '.join(self.weak)}"
        advice = {
            Level.EXPLAINED: ".",
            Level.PARTLY: "; trust the forecast for a short time only.",
            Level.UNEXPLAINED: "; do not trust the forecast.",
        }[self.level]
        return said + advice

    def __str__(self) -> str:
        return self.text

    @property
    def trusted(self) -> bool:
        """Whether at least a short forecast can be trusted: all levels but `unexplained`."""
        return self.level is not Level.UNEXPLAINED

    def leaves_less_than(self, share: float) -> bool:
        """Whether a step leaves less than this share of its change; noise is not held against a
        composition that explains the frames."""
        clear = _beyond(self.unexplained, self.noise)
        explained = self.level is Level.EXPLAINED and clear < share
        return self.unexplained < share or explained

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON, with the sentence as `text`."""
        return {
            "level": self.level.value,
            "unexplained": self.unexplained if math.isfinite(self.unexplained) else None,
            "skill": self.skill if self.skill is None or math.isfinite(self.skill) else None,
            "basis": self.basis.value,
            "text": self.text,
        }

    def on_future(self, forecast: Tensor, truth: Tensor, last: Tensor) -> Verdict:
        """The verdict once the frames are known that followed; NaN frames are missing.

        Arguments:
            forecast: `(time, channel, *space)`.
            truth: the first frames of the same, as many as are known.
            last: the last observed frame.
        """
        there = truth.flatten(1).isfinite().all(1)
        if not bool(there.any()):
            return self
        found, true = forecast[: len(truth)][there], truth[there]
        size = (true - _mean(true)).norm()
        scored = skill((found - true).norm(), (last - true).norm(), size)
        level = judge(_beyond(self.unexplained, self.noise), scored)
        if _hidden(self.unexplained, scored):
            level = Level.UNEXPLAINED
        known = replace(self, level=level, skill=scored, basis=Basis.FUTURE)
        return known.doubting(self.weak)

    def doubting(self, weak: Sequence[str]) -> Verdict:
        """The verdict on a composition with operators that are weak: at most partly explained."""
        least = Level.PARTLY if weak and self.level is Level.EXPLAINED else self.level
        return replace(self, level=least, weak=tuple(weak))


def judge(unexplained: float, skill: float | None) -> Level:
    """The level that the two numbers amount to.

    Explained: a share of at most 0.05 and a skill of at least 0.9. Unexplained: a share above 0.65
    and a skill below 0.45, or a share above 0.25 and a negative skill. Partly: in between.
    """
    if unexplained <= CLOSE and (skill is None or skill >= GOOD):
        return Level.EXPLAINED
    enough = POOR if unexplained > LARGE else 0.0
    if unexplained <= SHARE or (skill is not None and skill >= enough):
        return Level.PARTLY
    return Level.UNEXPLAINED


def skill(error: Tensor, still: Tensor, size: Tensor) -> float | None:
    """One minus the error over that of persistence, None where nothing changes."""
    if float(still) <= STILL * float(size):
        return None
    found = 1 - float(error) / float(still)
    return found if math.isfinite(found) else -math.inf


def measure(
    operators: PreparedDictionary,
    composition: Composition,
    window: Window,
    dt: float,
    scheme: Scheme,
    refinement: int,
) -> Verdict:
    """The verdict on a composition, from the window it was fitted to."""
    left, change, size = [], [], []
    missed, still, seen = [], [], []
    mean = _mean(window.joined)
    for frames, moments in zip(window.frames, window.moments, strict=True):
        kept = signal_modes(frames, window.left)
        for run in runs(moments, GAP * dt):
            states, targets = frames[run][:-1], frames[run][1:]
            found = one_step(
                operators, composition, states, moments[run].diff().tolist(), scheme, refinement
            )
            left.append(in_modes(found - targets, kept).norm())
            change.append((states - targets).norm())
            size.append((targets - mean).norm())
        for run in runs(moments, LONG_GAP * dt):
            begin, *others = frames[run]
            after, ahead = torch.stack(others), (moments[run][1:] - moments[run][0]).tolist()
            free = rollout(operators, composition, begin, ahead, dt, scheme, refinement).frames
            missed.append(in_modes(free - after, kept).norm())
            still.append((begin - after).norm())
            seen.append((after - mean).norm())

    def total(parts: list[Tensor]) -> Tensor:
        return torch.stack(parts).norm()

    numbers = sum(f[1:].numel() for f in window.frames)
    noise = left_by_noise(window, numbers)
    return _verdict(noise, *map(total, (left, change, size, missed, still, seen)))


def left_by_noise(window: Window, numbers: int) -> float:
    """Norm of what the noise of two frames leaves between them, over so many numbers."""
    return math.sqrt(2 * numbers) * window.left


def _verdict(
    noise: float, left: Tensor, change: Tensor, size: Tensor, missed: Tensor, still: Tensor,
    seen: Tensor,
) -> Verdict:  # fmt: skip
    """The verdict from norms: of what noise alone leaves; of what steps leave, of their change, of
    the frames that they reach about their mean; of what a free run misses, of what persistence
    misses, and of the frames."""
    whole = max(float(change), STILL * float(size), 1e-30)
    unexplained = float(left) / whole
    unexplained = unexplained if math.isfinite(unexplained) else math.inf
    scored = skill(missed, still, seen)
    clear = None
    if scored is not None:
        clear = skill(torch.tensor(_beyond(float(missed), noise)), still, seen)
    level = judge(_beyond(unexplained, noise / whole), clear)
    if _hidden(unexplained, scored):
        level = Level.UNEXPLAINED
    elif scored is not None and scored < SEEN and level is Level.EXPLAINED:
        level = Level.PARTLY
    return Verdict(level, unexplained, scored, noise=noise / whole)


def _hidden(unexplained: float, skill: float | None) -> bool:
    """Whether neither steps nor a run, noise included, show that the composition does anything."""
    return skill is not None and skill < HARDLY and unexplained > LARGE


def _beyond(found: float, noise: float) -> float:
    """What is left when the part of noise is taken off; noise adds in squares."""
    return math.sqrt(max(0.0, found**2 - (SURE * noise) ** 2)) if math.isfinite(found) else found


def _mean(frames: Tensor) -> Tensor:
    """Mean of every channel over time and space, `(channel, 1, ...)`.

    Zero where nothing changes at all: frames without deviations are as large as they are.
    """
    if bool((frames == frames[:1]).all()):
        return torch.zeros_like(frames[0])
    return frames.mean((0, *range(2, frames.ndim)))[(..., *[None] * (frames.ndim - 2))]


def alike(window: Window, dt: float) -> bool:
    """Whether a window can be judged together with others: one trajectory, equal steps."""
    steps = window.moments[0].diff()
    even = torch.allclose(steps, steps.mean(), rtol=1e-3, atol=0)
    return len(window.frames) == 1 and even and float(steps.max()) <= GAP * dt


def measure_together(
    operators: PreparedDictionary,
    compositions: Sequence[Composition],
    windows: Sequence[Window],
    dt: float,
    scheme: Scheme,
    refinement: int,
) -> list[Verdict]:
    """The verdicts on compositions of one length, each on its own window, in shared calls.

    The windows are `alike` and have the same times between frames.
    """
    frames = torch.stack([window.frames[0] for window in windows])
    moments = windows[0].moments[0]
    states, targets = frames[:, :-1], frames[:, 1:]
    usual = float(moments.diff().mean())
    found = steps_together(operators, compositions, states, usual, scheme, refinement)
    ahead = moments[1:] - moments[0]
    runs = rollouts(operators, compositions, frames[:, 0], ahead, dt, scheme, refinement)
    free = torch.stack([run.frames for run in runs])

    def norms(x: Tensor) -> Tensor:
        return x.flatten(1).norm(dim=1)

    kept = [signal_modes(f, window.left) for f, window in zip(frames, windows, strict=True)]
    means = [_mean(each).expand_as(each[0]) for each in frames]
    size = norms(targets - torch.stack(means)[:, None])

    def seen(x: Tensor) -> Tensor:
        return torch.stack([in_modes(*each) for each in zip(x, kept, strict=True)])

    numbers = (
        norms(seen(found - targets)), norms(states - targets), size,
        norms(seen(free - targets)), norms(frames[:, :1] - targets), size,
    )  # fmt: skip
    count = targets[0].numel()
    noise = [left_by_noise(window, count) for window in windows]
    return [_verdict(*each) for each in zip(noise, *numbers, strict=True)]
