"""Scores of many candidates of which only the best matter: few transitions first, then more.

Errors are never negative, so the sum over some transitions bounds the sum over all from below. A
candidate whose sum over some exceeds the sum of the best over all is left out without any loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


def best_scores(
    errors: Callable[[Tensor, Tensor], Tensor],
    owner: Tensor,
    keep: int,
    transitions: int,
    slack: float = 0.0,
) -> Tensor:
    """Mean errors `(n,)`; infinite for candidates that cannot be among the best of their window.

    Arguments:
        errors: errors `(n, m)` of chosen candidates on chosen transitions.
        owner: the window of every candidate.
        keep: how many of every window count as its best.
        transitions: number of transitions.
        slack: share by which the others may be worse than the last of the best.
    """
    order = torch.tensor(spaced_order(transitions), device=owner.device)
    left = torch.arange(len(owner), device=owner.device)
    windows = owner.unique().tolist()
    if len(owner) <= 2 * keep * len(windows) or transitions < 2:
        return errors(left, order).mean(1)
    first = errors(left, order[:1])
    table = torch.cat([first, first.new_zeros(len(left), transitions - 1)], 1)
    whole = torch.full_like(table[:, 0], math.inf)
    seen = 1
    while len(left) and seen < transitions:
        # The most promising are scored in full; their errors are the limit for the others.
        sums = table[:, :seen].sum(1)
        leaders = torch.cat([_lowest(left[owner[left] == w], sums, keep) for w in windows])
        table[leaders, seen:] = errors(leaders, order[seen:])
        whole[leaders] = table[leaders].mean(1)
        left = left[~torch.isin(left, leaders)]
        for w in windows:
            best = whole[_lowest((owner == w).nonzero()[:, 0], whole, keep)[-1]]
            bound = best * transitions * (1 + slack) * (1 + 1e-5)
            left = left[(owner[left] != w) | (sums[left] <= bound)]
        end = min(seen + (1 if seen < 3 else 2), transitions)
        table[left, seen:end] = errors(left, order[seen:end])
        seen = end
    whole[left] = table[left].mean(1)
    return whole


def _lowest(candidates: Tensor, sums: Tensor, n: int) -> Tensor:
    return candidates[torch.sort(sums[candidates], stable=True).indices[:n]]


def spaced_order(n: int) -> list[int]:
    """0..n-1 in an order whose first few cover the whole range evenly."""
    order = [0]
    step = n
    while step > 1:
        step = (step + 1) // 2
        order += [i for i in range(0, n, step) if i not in order]
    return order
