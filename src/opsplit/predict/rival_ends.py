"""Ends by the evidence of a fit: where fields are rough, only the dynamics show a wall."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from opsplit._deadline import time_is_up
from opsplit.boundary import NEUMANN, PERIODIC, Side
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.io.recording import Recording
from opsplit.model import Model
from opsplit.predict.ends import End, Ends, ends_of, frames_for_ends
from opsplit.predict.explain import Explanation, Plan
from opsplit.predict.noisy_ends import guesses
from opsplit.predict.replay import Replay
from opsplit.predict.started import Started, start
from opsplit.predict.verdict import Level
from opsplit.search.strategy import Report

ENOUGH = 1e-3
"""Where less than this share of the change is left, no other ends are tried."""
BETTER = 0.5
"""Walls must reduce the unexplained share to this, if the frames alone do not show them."""
DISTANCES = (0.5, 0.0)
"""Spacings between the last point and an insulated wall."""


def explained(
    plan: Plan,
    recording: Recording,
    model: Model,
    dictionary: OperatorDictionary | None = None,
    report: Report | None = None,
) -> tuple[Started, Explanation]:
    """The best explanation; where the ends that the frames show explain too little, or no operator
    keeps them, others are tried."""
    try:
        started = start(plan, recording, model, dictionary, report)
        found = started.explainer.best()
    except OpsplitError:
        around = next(_rivals(recording), None)
        if around is None or any(one.walls for one in around):
            raise
        started = start(plan, recording, model, dictionary, report, around)
        found = started.explainer.best()
    if isinstance(plan.search, Replay) or started.adapted.recording.grid.ndim < model.config.ndim:
        return started, found
    # Operators of the caller may act on the caller's points only.
    if dictionary is not None or found.verdict.leaves_less_than(ENOUGH):
        return started, found
    several = len(model.config.channels) > 1 and found.verdict.level is Level.PARTLY
    for ends in _rivals(recording, several):
        if found.verdict.leaves_less_than(ENOUGH) or time_is_up():
            break
        try:
            other = start(plan, recording, model, dictionary, report, ends)
            better = other.explainer.best()
        except OpsplitError:
            continue
        if better.verdict.unexplained < BETTER * found.verdict.unexplained:
            started, found = other, better
    return started, found


def _rivals(recording: Recording, all_axes: bool = False) -> Iterator[list[Ends]]:
    """Periodic ends in place of walls that nobody named; then insulated walls in place of periodic
    ends that nobody named, where walls are likelier.

    Arguments:
        all_axes: try insulated walls on every axis at last, whatever is likelier there: fields of
            several channels, some of them flat, say little about their ends.
    """
    if "boundary" in recording.known:
        return
    u, ends = frames_for_ends(recording), ends_of(recording)
    if any(one.walls for one in ends):
        around = End(Side(PERIODIC))
        yield [Ends(around, around, False, one.periodic) for one in ends]
    likelier = []
    for axis, one in enumerate(ends):
        lines = np.moveaxis(u, 2 + axis, -1).reshape(-1, u.shape[2 + axis])
        tried = [] if one.walls or not len(lines) else guesses(lines)
        # Which walls they are rough fields do not say either: the fit decides.
        likelier.append(bool(tried) and tried[0].walls)
    free = [not one.walls for one in ends]
    for chosen in [likelier, free] if all_axes and likelier != free else [likelier]:
        for distance in DISTANCES if any(chosen) else ():
            wall = End(Side(NEUMANN), distance)
            yield [
                Ends(wall, wall, False, one.periodic) if likely else one
                for one, likely in zip(ends, chosen, strict=True)
            ]
