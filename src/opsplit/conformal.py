"""Split conformal prediction with groups: quantiles of scores, apart where scores differ.

A score is an error over its expected size. The quantile of scores is a factor that turns expected
sizes into half widths of intervals. Where scores depend on what is known of a window, such as its
noise, one factor for all would be too small for some windows and too large for others. A tree of
yes-or-no questions about these traits divides the windows, and every leaf has factors of its own
(Mondrian conformal prediction).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.settings import Printable, argument

LEVELS = tuple(round(0.01 * i, 2) for i in range(1, 100))
"""Probabilities whose factors are kept."""
LEVEL = 0.9
"""Questions are chosen for intervals of this probability."""
FEWEST = 40
"""Scores in a leaf, at least."""
PLENTY = 240
"""So many scores are enough for a tree without the scores of other quantities."""
DEEPEST = 4
"""Questions from the root to a leaf, at most."""
BETTER = 8.0
"""A question reduces the pinball loss by so many times its mean over the scores, at least: the best
of many questions that mean nothing does not."""
CUTS = tuple(0.1 * i for i in range(1, 10))
"""Shares of the scores below the thresholds that are tried."""

Factors = tuple[float, ...]
Traits = Mapping[str, float]


@dataclass(frozen=True)
class Question:
    """Whether a trait is above a threshold, and what follows."""

    trait: str
    at: float
    below: Tree
    """Where it is not, or the trait is unknown."""
    above: Tree


Tree = Question | Factors


def factors_at(tree: Tree, traits: Traits) -> Factors:
    """The factors for these traits."""
    while isinstance(tree, Question):
        tree = tree.above if traits.get(tree.trait, -math.inf) > tree.at else tree.below
    return tree


def leaves(tree: Tree) -> Iterator[Factors]:
    """The factors of every group."""
    if isinstance(tree, Question):
        yield from leaves(tree.below)
        yield from leaves(tree.above)
    else:
        yield tree


def grown(scores: Sequence[Tensor], traits: Sequence[Traits], depth: int = DEEPEST) -> Tree:
    """A tree of factors.

    Arguments:
        scores: of every trajectory one or several.
        traits: of every trajectory.
        depth: questions from here to a leaf, at most.
    """
    found = _best_question(scores, traits) if depth else None
    if found is None:
        return conformal_quantiles(torch.cat([s.flatten() for s in scores]), len(scores))
    trait, threshold = found
    above = [t[trait] > threshold for t in traits]
    below, over = (
        grown(
            [s for s, a in zip(scores, above, strict=True) if a is side],
            [t for t, a in zip(traits, above, strict=True) if a is side],
            depth - 1,
        )
        for side in (False, True)
    )
    return Question(trait, threshold, below, over)


def grown_together(
    scores: Mapping[str, Sequence[Tensor]], traits: Mapping[str, Sequence[Traits]]
) -> dict[str, Tree]:
    """Trees of several quantities, of which each may have few scores.

    What makes the scores of one of them large often does so for all. A first tree knows the scores
    of all of them, each over its median; the tree of a quantity is grown on what that one leaves.
    With scores in plenty, a quantity needs no others.
    """
    middle = {k: _middle(each) for k, each in scores.items()}
    pooled = grown(
        [one / middle[k] for k, each in scores.items() for one in each],
        [t for each in traits.values() for t in each],
    )
    if not isinstance(pooled, Question):
        return {k: grown(each, traits[k]) for k, each in scores.items()}
    found = {}
    for k, each in scores.items():
        if len(each) >= PLENTY:
            found[k] = grown(each, traits[k])
            continue
        sizes = [_size(factors_at(pooled, t)) for t in traits[k]]
        left = grown([one / size for one, size in zip(each, sizes, strict=True)], traits[k])
        found[k] = _over(pooled, left)
    return found


def _middle(scores: Sequence[Tensor]) -> float:
    return max(float(torch.cat([s.flatten() for s in scores]).double().median()), 1e-30)


def _size(factors: Factors) -> float:
    return max(interpolate(factors, LEVEL), 1e-30)


def _over(first: Tree, then: Tree) -> Tree:
    """The questions of a first tree, and behind each of its leaves those of another one, whose
    factors are multiplied by that of the leaf."""
    if isinstance(first, Question):
        return replace(first, below=_over(first.below, then), above=_over(first.above, then))
    return _times(then, _size(first))


def _times(tree: Tree, size: float) -> Tree:
    if isinstance(tree, Question):
        return replace(tree, below=_times(tree.below, size), above=_times(tree.above, size))
    return tuple(float(f"{size * x:.6g}") for x in tree)


def _best_question(scores: Sequence[Tensor], traits: Sequence[Traits]) -> tuple[str, float] | None:
    """The trait and threshold that tell small scores from large ones best."""
    if len(scores) < 2 * FEWEST:
        return None
    each = np.array([float(s.double().flatten().quantile(LEVEL)) for s in scores])
    logs = np.log(each.clip(1e-30, 1e30))
    whole = _pinball(logs)
    least, best = (1 - BETTER / len(logs)) * whole, None
    for trait in traits[0]:
        values = np.array([t[trait] for t in traits])
        for threshold in sorted({float(np.quantile(values, cut)) for cut in CUTS}):
            above = values > threshold
            if min(above.sum(), (~above).sum()) < FEWEST:
                continue
            loss = _pinball(logs[above]) + _pinball(logs[~above])
            if loss < least:
                least, best = loss, (trait, threshold)
    return best


def _pinball(logs: np.ndarray) -> float:
    """The loss of the best constant as a quantile."""
    away = logs - np.quantile(logs, LEVEL)
    return float(np.maximum(LEVEL * away, (LEVEL - 1) * away).sum())


def conformal_quantiles(scores: Tensor, n: int | None = None) -> Factors:
    """Quantiles of scores at all levels, with the correction for `n` independent ones.

    With `n` exchangeable scores the quantile at `ceil((n + 1) level) / n` covers a new one with
    probability `level` at least.
    """
    ordered = scores.flatten().double().sort().values
    count = n or len(ordered)
    out = []
    for level in LEVELS:
        corrected = min(1.0, math.ceil((count + 1) * level - 1e-9) / count)
        rank = min(len(ordered) - 1, max(0, math.ceil(corrected * len(ordered) - 1e-9) - 1))
        out.append(float(ordered[rank]))
    return tuple(out)


def interpolate(factors: Sequence[float], level: float) -> float:
    """The factor at a level between the kept ones."""
    level = argument(float, level, "The probability of an interval")
    if not LEVELS[0] <= level <= LEVELS[-1]:
        raise OpsplitError(
            f"An interval needs a probability from {LEVELS[0]} to {LEVELS[-1]}, got {level}."
        )
    place = (level - LEVELS[0]) / (LEVELS[-1] - LEVELS[0]) * (len(LEVELS) - 1)
    below = min(int(place + 1e-9), len(LEVELS) - 2)
    share = place - below
    if share < 1e-9 or share > 1 - 1e-9:
        return factors[below + round(share)]
    return factors[below] * (1 - share) + factors[below + 1] * share


def tree_of(raw: Any, depth: int = 2 * DEEPEST) -> Tree:
    """A tree as it was stored; raises `ValueError` or the like if it is none."""
    if not isinstance(raw, Mapping):
        return factors_of(raw)
    if not depth:
        raise ValueError("a tree that is too deep")
    Printable().check(raw["trait"], "trait")
    threshold = float(raw["at"])
    if not math.isfinite(threshold):
        raise ValueError("a threshold that is not finite")
    below, above = (tree_of(raw[side], depth - 1) for side in ("below", "above"))
    return Question(str(raw["trait"]), threshold, below, above)


def factors_of(raw: Sequence[float]) -> Factors:
    """Factors as they were stored."""
    factors = tuple(float(x) for x in raw)
    if len(factors) != len(LEVELS):
        raise ValueError(f"{len(factors)} factors for {len(LEVELS)} levels")
    if not all(0 <= x < math.inf for x in factors):
        raise ValueError("factors must be finite and not negative")
    return factors
