"""What a forecast could have been as well: other compositions, other noise."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from opsplit.predict.denoise import fresh_noise
from opsplit.predict.explain import Explanation
from opsplit.search import Composition


def rivals(found: Explanation, last: Tensor, trajectory: int) -> tuple[list[Composition], Tensor]:
    """Compositions of the pick's length that explain the frames nearly as well, and the states
    `(1 + rival, channel, *space)` that the pick and they start from.

    Of clean frames they are the finalists of the search. Noise leaves open more than these differ
    by: there they are the pick as it would be after other noise, in its strengths and in the state
    where the forecast starts.
    """
    pick, doubt, window = found.result.pick, found.doubt, found.window
    if doubt is None:
        others = [c for c in found.result.finalists if len(c) == len(pick)]
        others = [c for c in others if c.operators != pick.operators]
        return others, last.expand(1 + len(others), *last.shape)
    made = [replace(pick, strengths=one) for one in doubt.strengths]
    # The last state is a mean over all frames.
    share = 1 / math.sqrt(len(window.frames[trajectory]))
    moved = last + share * fresh_noise(window.frames[trajectory], window.left)[:, -1]
    return made, torch.cat([last[None], moved])


def missed(found: Explanation) -> float:
    """The relative error of the pick over the observed frames, noise aside."""
    pick = found.result.pick
    if found.doubt is not None:
        return found.doubt.missed
    if pick.free_run_error is None:
        return pick.fit_error * len(found.window.joined)
    return pick.free_run_error
