"""Operator splitting: the flow of a sum of operators by composing the flows of each.

All schemes act on a list of `m` flows. Each flow acts on the states of many candidates at once:
position `i` of the list is the `i`-th operator of every candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, spectrum_of

Scheme = Literal["lie", "strang", "fourth"]
SCHEMES: tuple[Scheme, ...] = ("lie", "strang", "fourth")
MOST_SUBSTEPS = 1000
"""Splitting errors are far below rounding with fewer."""

Flow = Callable[[Tensor, float | Tensor], Tensor]
"""`flow(u, duration) -> u`"""


@runtime_checkable
class Diagonal(Protocol):
    """A flow that may be no more than a factor of every mode."""

    def __call__(self, u: Tensor, duration: float | Tensor, /) -> Tensor: ...

    def multiplier(self, u: Tensor, duration: float | Tensor, /) -> Tensor | None:
        """The factors `(E, 1, channel, *modes)` for states `u`; None if the flow does more."""


def split_step(
    flows: Sequence[Flow],
    u: Tensor,
    duration: float | Tensor,
    scheme: Scheme = "strang",
    refinement: int = 1,
) -> Tensor:
    """The state after `duration` of the sum of the operators behind `flows`.

    - `lie`: `f_m o ... o f_1`, first order.
    - `strang`: half steps of 1..m-1, a whole step of m, half steps back; second order.
    - `fourth`: Richardson's combination `(4 S(h/2) S(h/2) - S(h)) / 3` of Strang. Composition
      methods of that order need negative steps, which are ill-posed for diffusion.

    Arguments:
        flows: one flow per operator; a strength is a longer or shorter duration inside it.
        refinement: equal substeps, at most `MOST_SUBSTEPS`.
    """
    if not 1 <= refinement <= MOST_SUBSTEPS:
        raise OpsplitError(
            f"refinement counts substeps and must lie in 1..{MOST_SUBSTEPS}, got {refinement}."
        )
    step = STEPS.get(scheme)
    if step is None:
        raise OpsplitError(f"Unknown splitting scheme {scheme!r}; choose from {list(SCHEMES)}.")
    if len(flows) == 1:
        return flows[0](u, duration)
    h = duration / refinement
    if scheme == "strang":
        # In one go: where steps meet, flows may share their transforms.
        return run(_palindrome(flows, h) * refinement, u)
    for _ in range(refinement):
        u = step(flows, u, h)
    return u


def _palindrome(flows: Sequence[Flow], h: float | Tensor) -> list[tuple[Flow, float | Tensor]]:
    """Half steps, the last operator's whole step, half steps back."""
    half = [(flow, h / 2) for flow in flows[:-1]]
    return [*half, (flows[-1], h), *reversed(half)]


def run(steps: Sequence[tuple[Flow, float | Tensor]], u: Tensor) -> Tensor:
    """Flows one after the other; those that only multiply modes share their transforms."""
    waiting: list[Tensor] = []

    def multiplied(u: Tensor) -> Tensor:
        factor = math.prod(waiting[1:], start=waiting[0])
        waiting.clear()
        ndim = u.ndim - 3
        return field_of(factor * spectrum_of(u, ndim), u.shape[3:])

    for flow, h in steps:
        factor = flow.multiplier(u, h) if isinstance(flow, Diagonal) else None
        if factor is not None:
            waiting.append(factor)
            continue
        u = flow(multiplied(u) if waiting else u, h)
    return multiplied(u) if waiting else u


def lie(flows: Sequence[Flow], u: Tensor, h: float | Tensor) -> Tensor:
    """One Lie step: all flows in the order of the list."""
    return run([(flow, h) for flow in flows], u)


def strang(flows: Sequence[Flow], u: Tensor, h: float | Tensor) -> Tensor:
    """One Strang step: half steps, the last operator's whole step, half steps back."""
    return run(_palindrome(flows, h), u)


def strang_prefix(leading: Sequence[Flow], u: Tensor, h: float | Tensor) -> Tensor:
    """The half steps before the last operator; all extensions of one list share them."""
    return lie(leading, u, h / 2)


def strang_finish(flows: Sequence[Flow], u: Tensor, h: float | Tensor) -> Tensor:
    """The last operator's whole step and the half steps back."""
    u = flows[-1](u, h)
    return lie(flows[-2::-1], u, h / 2)


def fourth(flows: Sequence[Flow], u: Tensor, h: float | Tensor) -> Tensor:
    """One step of Richardson's combination of two Strang steps and one."""
    fine = strang(flows, strang(flows, u, h / 2), h / 2)
    return (4 * fine - strang(flows, u, h)) / 3


STEPS: dict[str, Callable[[Sequence[Flow], Tensor, float | Tensor], Tensor]] = {
    "lie": lie,
    "strang": strang,
    "fourth": fourth,
}


def flows_per_step(parts: int, scheme: Scheme, refinement: int = 1) -> int:
    """Flows that one step of a composition costs."""
    if parts == 1:
        return 1
    strang_flows = 2 * parts - 1
    return refinement * {"lie": parts, "strang": strang_flows, "fourth": 3 * strang_flows}[scheme]
