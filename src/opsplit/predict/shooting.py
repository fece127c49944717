"""Strengths from noisy frames: by runs over many frames instead of single steps.

Noise in the state that a step starts from makes every rate uncertain, and least squares then finds
strengths that are too small. Over many frames the change is far larger than the noise. How sure
the strengths are follows from runs with noise that is drawn anew (a parametric bootstrap, to first
order in the noise).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from opsplit._deadline import time_is_up
from opsplit.dictionary import PreparedDictionary
from opsplit.predict.rollout import rollouts
from opsplit.predict.verdict import SURE
from opsplit.predict.window import Window, runs
from opsplit.search import Composition
from opsplit.search.window import LONG_GAP
from opsplit.splitting import Scheme

STARTS = 3
"""Runs begin at so many frames, evenly among the first ones; each lasts to the end."""
ROUNDS = 6
"""Levenberg-Marquardt steps at most."""
LITTLE = 0.002
"""A step that reduces the misfit by less than this share is the last."""
SHARE = 0.02
"""Difference quotients change a strength by this share."""
DRAWS = 8
"""So many times noise is drawn anew."""


@dataclass(frozen=True)
class Doubt:
    """What noise leaves open."""

    strengths: tuple[tuple[float, ...], ...]
    """Those of the pick, had the noise been another one, for some draws of it."""
    missed: float
    """Error of the runs that noise does not account for, relative to the frames."""


@dataclass(frozen=True)
class Shooting:
    """Runs of one composition from several observed frames."""

    window: Window
    operators: PreparedDictionary
    dt: float
    scheme: Scheme
    refinement: int

    def refined(self, pick: Composition, most: float) -> tuple[float, ...]:
        """The strengths whose runs miss the observed frames least.

        Arguments:
            pick: a composition with strengths nearby.
            most: largest strength.
        """
        now = torch.tensor(pick.strengths, dtype=torch.float64)
        misfit = self._misfits(pick, [now])[0]
        damping = 1e-4
        for _ in range(ROUNDS):
            if time_is_up() or not math.isfinite(float(misfit.norm())):
                break
            steps = _steps(now)
            moved = self._misfits(pick, list(now + torch.diag(steps)))
            slopes = torch.stack([(misfit - m) / h for m, h in zip(moved, steps, strict=True)])
            if not bool(slopes.isfinite().all()):
                break
            trial = (now + _marquardt(slopes, misfit, damping)).clamp(0, most)
            found = self._misfits(pick, [trial])[0]
            before, after = float(misfit.norm()), float(found.norm())
            if not after < before:
                damping *= 1000
                continue
            now, misfit, damping = trial, found, 0.1 * damping
            if after > (1 - LITTLE) * before:
                break
        return tuple(now.tolist())

    def doubt(self, pick: Composition) -> Doubt | None:
        """What the noise of the window leaves open about a pick; None if its runs diverge."""
        now = torch.tensor(pick.strengths, dtype=torch.float64)
        steps = _steps(now)
        noise = [fresh_noise(frames, self.window.left) for frames in self.window.frames]
        quiet = len(steps) + 1
        rows = self._misfits(pick, [now, *(now + torch.diag(steps)), *([now] * DRAWS)], noise)
        misfit, moved, noisy = rows[0], rows[1:quiet], rows[quiet:]
        slopes = torch.stack([(misfit - m) / h for m, h in zip(moved, steps, strict=True)])
        fresh = torch.stack([one - misfit for one in noisy])
        if not bool(slopes.isfinite().all() and fresh.isfinite().all()):
            return None
        expected = float(fresh.square().sum(1).mean().sqrt())
        left, size = float(misfit.norm()), max(self._size(len(misfit)), 1e-30)
        missed = math.sqrt(max(0.0, left**2 - (SURE * expected) ** 2)) / size
        # Where the model misses more than the noise, its strengths are less sure too.
        wider = max(1.0, left / max(expected, 1e-30))
        made = [now + wider * _marquardt(slopes, one, 0.0) for one in fresh]
        return Doubt(tuple(tuple(one.clamp_min(0.0).tolist()) for one in made), missed)

    def _size(self, numbers: int) -> float:
        """Norm of so many numbers of the frames."""
        return math.sqrt(numbers * float(self.window.joined.double().square().mean()))

    def _misfits(
        self, pick: Composition, strengths: Sequence[Tensor], noise: Sequence[Tensor] = ()
    ) -> list[Tensor]:
        """Observed frames less those of the runs, all in one row, for every choice of strengths.

        Arguments:
            noise: of every trajectory `(draw, *frames)`, added for the last choices.
        """
        made = [replace(pick, strengths=tuple(s.tolist())) for s in strengths]
        rows: list[list[Tensor]] = [[] for _ in made]
        for place, (frames, moments) in enumerate(
            zip(self.window.frames, self.window.moments, strict=True)
        ):
            for run in runs(moments, LONG_GAP * self.dt):
                held = frames[run].expand(len(made), *frames[run].shape)
                if noise:
                    held = held.clone()
                    held[-len(noise[place]) :] += noise[place][:, run]
                for firsts, ahead in _starts(moments[run]):
                    # Runs over equal times share their calls, the shorter ones go on unseen.
                    starts = held[:, firsts].transpose(0, 1).flatten(0, 1)
                    found = rollouts(
                        self.operators, made * len(firsts), starts, ahead, self.dt, self.scheme,
                        self.refinement,
                    )  # fmt: skip
                    for number, one in enumerate(found):
                        mine = number % len(made)
                        seen = held[mine][firsts[number // len(made)] + 1 :]
                        rows[mine].append((seen - one.frames[: len(seen)]).double().flatten())
        return [torch.cat(row) for row in rows]


def fresh_noise(frames: Tensor, deviation: float) -> Tensor:
    """Noise `(draw, *frames)` of a deviation, in the modes where filtered frames have a signal."""
    axes = tuple(range(2, frames.ndim))
    power = torch.fft.fftn(frames, dim=axes, norm="forward").abs().square().mean(0)
    kept = power > deviation**2 / frames[0, 0].numel()
    generator = torch.Generator().manual_seed(0)
    white = torch.randn(DRAWS, *frames.shape, generator=generator).to(frames)
    inside = tuple(axis + 1 for axis in axes)
    made = torch.fft.ifftn(torch.fft.fftn(white, dim=inside) * kept, dim=inside).real
    return made * (deviation / made.std().clamp_min(1e-30))


def _steps(strengths: Tensor) -> Tensor:
    """Changes of strengths for difference quotients."""
    return (SHARE * strengths).clamp_min(SHARE * 1e-2 * float(strengths.max()))


def _starts(times: Tensor) -> list[tuple[list[int], Tensor]]:
    """The frames that runs begin at, those with equal steps together, and the times ahead."""
    firsts = sorted({i * (len(times) - 1) // STARTS for i in range(STARTS)})
    steps = times.diff()
    # Times read from a file are rounded.
    if torch.allclose(steps, steps.mean(), rtol=1e-4, atol=0):
        return [(firsts, times[1:] - times[0])]
    return [([first], times[first + 1 :] - times[first]) for first in firsts]


def _marquardt(jacobian: Tensor, residual: Tensor, damping: float) -> Tensor:
    """A Levenberg-Marquardt step from rows `(m, row)` of derivatives; zero where there is none."""
    normal = jacobian @ jacobian.T
    normal = normal + damping * torch.diag(normal.diagonal().clamp_min(1e-300))
    found: Tensor = torch.linalg.lstsq(normal, (jacobian @ residual)[:, None]).solution[:, 0]
    return found.nan_to_num(0.0)
