"""Operators that are multiples of each other, such as diffusion with many coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CLOSE = 1e-5
"""Relative difference of parameters, and of rates, that counts as rounding."""
MOST = 16
"""Operators of one family that others are compared with."""
AT_ONCE = 4_000_000
"""Numbers of the states whose rates are compared at once."""


@dataclass(frozen=True)
class Multiples:
    """The rate of operator `i` is `factor[i]` times that of operator `basis[place[i]]`."""

    basis: Tensor
    """`(r,)` positions of operators that are not multiples of earlier ones."""
    place: Tensor
    """`(n,)`"""
    factor: Tensor
    """`(n,)`, positive."""

    @classmethod
    def none(cls, n: int, device: torch.device) -> Multiples:
        """Every operator stands for itself."""
        everyone = torch.arange(n, device=device)
        return cls(everyone, everyone, torch.ones(n, dtype=torch.float64, device=device))


def find_multiples(
    parameters: Sequence[Tensor],
    rates: Callable[[Tensor], Tensor],
    device: torch.device,
    numbers: int = 1,
) -> Multiples:
    """Which operators are multiples of others of their part.

    Proportional parameters suggest it. That the rates are proportional too is seen on one state.

    Arguments:
        parameters: those of every part, `(E, P)`.
        rates: of operators at some positions on that state, `(k, ...)`.
        numbers: of that state, for the memory that they take.
    """
    leader = torch.cat([_leaders(p.double()) + begin for p, begin in _with_begin(parameters)])
    sizes = torch.cat([p.double().norm(dim=1).cpu() for p in parameters])
    everyone = torch.arange(len(leader))
    factor = torch.ones(len(leader), dtype=torch.float64)
    followers = (leader != everyone).nonzero()[:, 0]
    if len(followers):
        ratio = sizes[followers] / sizes[leader[followers]]
        right = torch.zeros(len(followers), dtype=torch.bool)
        some = max(1, AT_ONCE // numbers)
        for first in leader[followers].unique():
            own = (leader[followers] == first).nonzero()[:, 0]
            for few in own.split(some):
                concerned = torch.cat([first[None], followers[few]])
                found = rates(concerned.to(device)).flatten(1).double().cpu()
                missed = (found[1:] - ratio[few, None] * found[:1]).norm(dim=1)
                # Rates that are zero or not finite compare as wrong.
                right[few] = missed < CLOSE * found[1:].norm(dim=1)
        leader[followers[~right]] = followers[~right]
        factor[followers[right]] = ratio[right]
    basis, place = leader.unique(return_inverse=True)
    return Multiples(basis.to(device), place.to(device), factor.to(device))


def _with_begin(parameters: Sequence[Tensor]) -> list[tuple[Tensor, int]]:
    begins = [0]
    for p in parameters:
        begins.append(begins[-1] + len(p))
    return list(zip(parameters, begins, strict=False))


def _leaders(parameters: Tensor) -> Tensor:
    """For every operator the first one whose parameters are proportional to its own."""
    leader = torch.arange(len(parameters))
    unit = (parameters / parameters.norm(dim=1, keepdim=True)).cpu()
    open_ = torch.ones(len(parameters), dtype=torch.bool)
    for _ in range(MOST):
        left = open_.nonzero()[:, 0]
        if not len(left):
            break
        alike = open_ & ((unit - unit[left[0]]).norm(dim=1) < CLOSE)
        leader[alike] = left[0]
        open_ &= ~alike
        open_[left[0]] = False
    return leader
