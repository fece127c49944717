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
from opsplit.dictionary import OperatorDictionary, PreparedDictionary
from opsplit.predict.denoise import DRAWS, fresh_noise, in_modes, signal_modes
from opsplit.predict.rollout import rollouts
from opsplit.predict.verdict import SURE
from opsplit.predict.window import Window, runs
from opsplit.search import Composition, SearchResult
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
WIDE = 1.1
"""Runs that miss so many times more than noise makes of them may lack a part."""
HALVED = 0.5
"""One more part must take away so much of what runs miss beyond the noise, in squares."""
LIKELY = 6
"""So many longer compositions are run,"""
REFINED = 3
"""and so many of them get strengths of their own."""
PARTS = 5
"""Parts at most."""


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
        return self._refined(pick, most)[0]

    def extended(
        self, result: SearchResult, dictionary: OperatorDictionary, most: float
    ) -> SearchResult:
        """The result with strengths of runs, and a longer pick where runs ask for one.

        A weak part hardly shows in single steps between noisy frames, but it does over many frames.
        Where the runs of the pick miss more than noise makes of them, compositions with one more
        part are tried; it must take away much of what is missed.
        """
        strengths, missed = self._refined(result.pick, most)
        result = result.with_strengths(dictionary, strengths)
        while len(result.pick) < PARTS and not time_is_up():
            noise = self._expected(result.pick)
            if not WIDE * noise < missed < math.inf:
                break
            longer = [c for c in result.ranked if len(c) == len(result.pick) + 1][:LIKELY]
            norms = [float(row.norm()) for row in self._rows(longer)] if longer else []
            order = sorted((n, i) for i, n in enumerate(norms) if math.isfinite(n))
            tried = [(*self._refined(longer[i], most), i) for _, i in order[:REFINED]]
            if not tried:
                break
            strengths, least, best = min(tried, key=lambda one: one[1])
            if not least**2 - noise**2 < HALVED * (missed**2 - noise**2):
                break
            chosen, missed = longer[best], least
            result = replace(result, pick=chosen, finalists=(chosen,))
            result = result.with_strengths(dictionary, strengths)
        return result

    def _refined(self, pick: Composition, most: float) -> tuple[tuple[float, ...], float]:
        """The best strengths, and the norm of what their runs miss."""
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
        return tuple(now.tolist()), float(misfit.norm())

    def _expected(self, pick: Composition) -> float:
        """Norm of what noise alone makes runs of a pick miss; infinite if they diverge."""
        now = torch.tensor(pick.strengths, dtype=torch.float64)
        rows = self._misfits(pick, [now] * (1 + DRAWS), self._fresh())
        fresh = torch.stack([one - rows[0] for one in rows[1:]])
        found = float(fresh.square().sum(1).mean().sqrt())
        return found if math.isfinite(found) else math.inf

    def _fresh(self) -> list[Tensor]:
        return [fresh_noise(frames, self.window.left) for frames in self.window.frames]

    def doubt(self, pick: Composition) -> Doubt | None:
        """What the noise of the window leaves open about a pick; None if its runs diverge."""
        now = torch.tensor(pick.strengths, dtype=torch.float64)
        steps = _steps(now)
        quiet = len(steps) + 1
        rows = self._misfits(
            pick, [now, *(now + torch.diag(steps)), *([now] * DRAWS)], self._fresh()
        )
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
        return self._rows([replace(pick, strengths=tuple(s.tolist())) for s in strengths], noise)

    def _rows(self, made: list[Composition], noise: Sequence[Tensor] = ()) -> list[Tensor]:
        """The same for several compositions of one length."""
        rows: list[list[Tensor]] = [[] for _ in made]
        for place, (frames, moments) in enumerate(
            zip(self.window.frames, self.window.moments, strict=True)
        ):
            kept = signal_modes(frames, self.window.left)
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
                        missed = in_modes(seen - one.frames[: len(seen)], kept)
                        rows[mine].append(missed.double().flatten())
        return [torch.cat(row) for row in rows]


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
