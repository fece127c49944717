"""Strengths from noisy frames: by runs over many frames instead of single steps.

Noise in the state that a step starts from makes every rate uncertain, and least squares then finds
strengths that are too small. Over many frames the change is far larger than the noise.
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
            steps = (SHARE * now).clamp_min(SHARE * 1e-2 * float(now.max()))
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

    def _misfits(self, pick: Composition, strengths: Sequence[Tensor]) -> list[Tensor]:
        """Observed frames less those of the runs, all in one row, for every choice of strengths."""
        made = [replace(pick, strengths=tuple(s.tolist())) for s in strengths]
        rows: list[list[Tensor]] = [[] for _ in made]
        for frames, moments in zip(self.window.frames, self.window.moments, strict=True):
            for run in runs(moments, LONG_GAP * self.dt):
                for firsts, ahead in _starts(moments[run]):
                    # Runs over equal times share their calls, the shorter ones go on unseen.
                    starts = frames[run][firsts].repeat_interleave(len(made), 0)
                    found = rollouts(
                        self.operators, made * len(firsts), starts, ahead, self.dt, self.scheme,
                        self.refinement,
                    )  # fmt: skip
                    for number, one in enumerate(found):
                        seen = frames[run][firsts[number // len(made)] + 1 :]
                        left = (seen - one.frames[: len(seen)]).double().flatten()
                        rows[number % len(made)].append(left)
        return [torch.cat(row) for row in rows]


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
