"""How finely a composition must be split: by the error that splitting itself makes."""

from __future__ import annotations

import math

from opsplit._deadline import time_is_up
from opsplit.predict.questions import Asking, Finer, Problem, Searched, Split
from opsplit.search import Objective

SHARE = 0.2
"""Splitting may make this share of the fitting error,"""
NEGLIGIBLE = 3e-4
"""or this share of the change from frame to frame."""
POOR = 0.05
"""A fit that leaves more than this share of the change may suffer from coarse splitting."""
MOSTLY = 0.5
"""Splitting that makes more than this share of the fitting error makes most of it."""
GAIN = 0.95
"""Splitting may hide compositions that leave less than this share of what the pick leaves."""
MOST = 16
"""Substeps per frame beyond which splitting is not refined."""


def search_substeps(problem: Problem | Finer) -> Asking[Searched]:
    """Search again with more substeps until splitting hardly adds to the fitting error.

    A composition that is split too coarsely fits badly, or is not even found.
    """
    result, objective = yield problem
    still = persistence_error(objective)
    while objective.refinement < MOST and not time_is_up():
        error = result.pick.fit_error
        # A search that moves codes picks operators of its own dictionary.
        own = result.dictionary
        gap = yield Split(objective if own is None else objective.over(own), result.pick)
        allowed = max(SHARE * error, NEGLIGIBLE * still)
        if gap <= allowed and (objective.refinement > 1 or error <= POOR * still):
            break
        if gap <= allowed and result.promise > GAIN:
            # Algebra knows no splitting, and hopes for no more than flows have shown.
            break
        # Where the fitting error is mostly that of splitting, it goes down with it.
        aim = NEGLIGIBLE * still if gap > MOSTLY * error else allowed
        # The usual scheme is of second order: twice the substeps, a quarter of the error.
        factor = math.sqrt(gap / aim) if gap > allowed else 4.0
        wanted = math.ceil(objective.refinement * min(4.0, max(2.0, factor)))
        again, finer = yield Finer(objective, min(MOST, wanted), problem.search)
        if not again.pick.fit_error < error:
            # Finer splitting does not explain more: something else is wrong.
            break
        result, objective = again, finer
    return result, objective


def persistence_error(objective: Objective) -> float:
    """The fitting error of frames that do not change."""
    seen = objective.observed
    change = (seen.targets[:1] - seen.states[:1]).flatten(2).norm(dim=2) / seen.sizes[:1]
    return max(float(change.mean()), 1e-12)
