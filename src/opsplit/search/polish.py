"""The last steps to the best strengths, by the real flows' own derivatives.

Pursuit refines strengths with the integrals of rates as derivatives. Where fields are rough or
frames far apart, these are far from those of the flows, and the refinement ends early.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from opsplit.search.estimate import Mechanisms, symmetric_inverse
from opsplit.search.objective import Objective
from opsplit.search.screen import run_lengths, stride_mixture
from opsplit.search.strategy import Tried

ROUNDS = 8
"""Gauss-Newton steps at most."""
SHARE = 0.01
"""Difference quotients change a strength by this share."""
ON = 0.99
"""A step that leaves more than this share of the residual is the last."""

BACK = 2
"""So many steps may lead too far."""
LIMIT = 0.99
"""A strength beyond this share of the largest one is at its limit."""

Ends = tuple[Tensor, float]
"""The strengths, and the share of the residual that they leave."""


def polished(
    objective: Objective,
    strides: tuple[int, ...],
    sets: Tensor,
    strengths: Tensor,
    which: Tensor,
    most: float,
) -> Iterable[Ends]:
    """The best strengths near those of compositions of one length, one for every window.

    Arguments:
        strides: transitions over so many frames count together.
        sets: `(n, m)` positions in the dictionary.
        strengths: `(n, m)`
        which: `(n,)` the window of each.
        most: largest strength.
    """
    size = max(1, objective.chunk // (1 + sets.shape[1]))
    for some in torch.arange(len(sets), device=sets.device).split(size):
        yield from _polished(objective, strides, sets[some], strengths[some], which[some], most)


def stronger(mechanisms: Mechanisms, pick: Tried, most: float) -> Tried | None:
    """The same composition with the strongest operators of its mechanisms in the place of those
    whose strength is at its limit; None if there are none."""
    sizes = np.abs(mechanisms.values).sum(1)
    operators, strengths = list(pick.operators), list(pick.strengths or ())
    for place, (member, strength) in enumerate(zip(pick.operators, strengths, strict=True)):
        alike = np.flatnonzero(mechanisms.kind == mechanisms.kind[member])
        best = int(alike[sizes[alike].argmax()])
        if strength >= LIMIT * most and best not in operators and sizes[best] > sizes[member] > 0:
            operators[place] = best
            strengths[place] = strength * float(sizes[member] / sizes[best])
    if operators == list(pick.operators):
        return None
    return replace(pick, operators=tuple(operators), strengths=tuple(strengths))


def _polished(
    objective: Objective,
    strides: tuple[int, ...],
    sets: Tensor,
    strengths: Tensor,
    which: Tensor,
    most: float,
) -> Iterable[Ends]:
    seen, (count, parts) = objective.observed, sets.shape
    begin, joined = int(seen.scored[0]), torch.zeros(len(seen.steps), dtype=torch.bool)
    joined[seen.scored.cpu()] = True
    mix = stride_mixture(run_lengths(joined[begin:]), strides, seen.sizes[which].double())
    best, trial = strengths.clone(), strengths.clone()
    least = torch.full((count,), torch.inf, dtype=torch.float64, device=sets.device)
    first, live = least.clone(), torch.arange(count, device=sets.device)
    last, failed = torch.zeros_like(best), torch.zeros_like(live)
    for _ in range(1 + ROUNDS):
        if objective.meter.flows:
            objective.meter.check()
        moved = (SHARE * trial[live]).clamp_min(1e-4 * SHARE)
        each = torch.cat([trial[live, None], trial[live, None] + torch.diag_embed(moved)], 1)
        rows = live.repeat_interleave(1 + parts)
        made = objective.step(sets[rows], seen.states[which[rows]], each.flatten(0, 1))
        left = (seen.targets[which[rows]] - made).flatten(2).double()
        left = (mix[rows] @ left).flatten(1).unflatten(0, (len(live), 1 + parts))
        residual, slopes = left[:, 0], (left[:, :1] - left[:, 1:]) / moved[..., None]
        norms = residual.norm(dim=1)
        first[live] = torch.where(first[live].isinf(), norms, first[live])
        better, much = norms < least[live], norms < ON * least[live]
        best[live[better]], least[live[better]] = trial[live[better]], norms[better]
        normal = (slopes @ slopes.transpose(1, 2)).numpy(force=True)
        inverse = torch.from_numpy(symmetric_inverse(normal)).to(slopes)
        step = (inverse @ (slopes @ residual[..., None]))[..., 0]
        # A step too far is taken back to a quarter.
        last[live] = torch.where(better[:, None], step, last[live] / 4)
        failed[live] += ~better
        on = (much | ~better) & (failed[live] <= BACK) & last[live].isfinite().all(1)
        live = live[on]
        if not len(live):
            break
        trial[live] = (best[live] + last[live]).clamp(0, most)
    share = torch.where(first > 0, least / first, torch.ones_like(first))
    yield from zip(best, share.tolist(), strict=True)
