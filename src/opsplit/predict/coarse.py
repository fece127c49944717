"""Large windows: screen all mechanisms coarsely, so that few operators act at full size.

In space the fields of one frame are many numbers, and a search pays for every operator on every
frame. The mechanisms and about their coefficients show on a coarser grid, in a few frames and with
a few operators of every mechanism. The best of these and their neighbours are then searched at full
size, where strengths and coefficients are refined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.fourier import resample
from opsplit.grid import Grid
from opsplit.predict.questions import Asking, Problem
from opsplit.predict.substeps import search_substeps
from opsplit.search import Pursuit, SearchResult

COARSE = 10_000
"""Points of the grid that they are screened on, about; but at least half of those of every axis:
products of fields that lost more modes are too far off."""
FRAMES = 8
"""Frames that are searched, the last ones."""
REPRESENTATIVES = 20
"""Operators of one mechanism that are screened."""
NEIGHBOURS = 4
"""Operators beside every one that was found which are searched at full size."""
BEST = 20
"""Compositions of the screening whose operators go on."""
SURVIVORS = 3
"""Sets per length that are scored with real flows at full size."""

Steps = float | Sequence[float]


def last_frames(frames: Tensor, steps: Steps) -> tuple[Tensor, Steps]:
    """The last frames, and the steps between them."""
    few = frames[-FRAMES:]
    return few, steps if isinstance(steps, float) else steps[-len(few) + 1 :]


def shortlist(problem: Problem) -> Asking[tuple[list[int], int]]:
    """Positions of the operators worth a search at full size, and the substeps that they need.

    Arguments:
        problem: the last frames at full size.
    """
    dictionary = problem.dictionary
    groups = mechanisms(dictionary)
    some = sorted(i for members in groups for i in representatives(dictionary, members))
    coarse = coarse_grid(dictionary, problem.grid)
    smaller = replace(
        problem, dictionary=dictionary.select(some), frames=resample(problem.frames, coarse.shape),
        grid=coarse, refinement=1,
    )  # fmt: skip
    result, objective = yield from search_substeps(smaller)
    ranked = (result.pick, *result.finalists, *result.ranked[:BEST])
    found = {some[i] for composition in ranked for i in composition.operators}
    wanted = {j for i in found for j in _beside(dictionary, groups, i)}
    return sorted(wanted), objective.refinement


def around(dictionary: OperatorDictionary, pool: list[int], result: SearchResult) -> list[int]:
    """The positions that were searched, and those beside the operators of the pick."""
    groups = mechanisms(dictionary)
    picked = [pool[i] for i in result.pick.operators]
    return sorted({*pool, *(j for i in picked for j in _beside(dictionary, groups, i))})


def confirming(search: Pursuit) -> Pursuit:
    """The search at full size: of the few operators that are left, fewer sets are worth flows."""
    survivors = SURVIVORS if search.survivors is None else min(search.survivors, SURVIVORS)
    return replace(search, survivors=survivors, finalists=min(search.finalists, SURVIVORS))


def coarse_grid(dictionary: OperatorDictionary, grid: Grid) -> Grid:
    """A coarser grid of the same box; the same one for operators that are bound to their grid."""
    share = (COARSE / math.prod(grid.shape)) ** (1 / grid.ndim)
    if share >= 1 or any(part.family.grid_bound for part in dictionary.parts):
        return grid
    return replace(grid, shape=tuple(2 * math.ceil(max(share, 0.5) * n / 2) for n in grid.shape))


def mechanisms(dictionary: OperatorDictionary) -> list[list[int]]:
    """Operators with the same coefficients, of which those of one sign, in their order."""
    held: dict[tuple[tuple[str, float], ...], list[int]] = {}
    for i in range(len(dictionary)):
        signs = tuple((k, float(np.sign(v[i]))) for k, v in dictionary.coefficients.items())
        held.setdefault(signs, []).append(i)
    return [sorted(members, key=lambda i: _size(dictionary, i)) for members in held.values()]


def representatives(dictionary: OperatorDictionary, members: list[int]) -> list[int]:
    """Some operators of a mechanism, evenly among its coefficients."""
    if len(members) <= REPRESENTATIVES:
        return members
    places = np.linspace(0, len(members) - 1, REPRESENTATIVES).round().astype(int)
    return [members[place] for place in places]


def _beside(dictionary: OperatorDictionary, groups: list[list[int]], index: int) -> list[int]:
    """An operator and those of its mechanism whose coefficients are nearest."""
    members = next(group for group in groups if index in group)
    place = members.index(index)
    few = len(representatives(dictionary, members))
    reach = max(NEIGHBOURS // 2, len(members) // few // 2)
    return members[max(0, place - reach) : place + reach + 1]


def _size(dictionary: OperatorDictionary, index: int) -> float:
    return math.sqrt(sum(float(v[index]) ** 2 for v in dictionary.coefficients.values()))
