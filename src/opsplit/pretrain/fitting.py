"""A spectral family for chosen terms: its steps, its bound of growth, its refined weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from opsplit.fourier import squared_wavenumber
from opsplit.operators import Derivatives, Products, Spectral
from opsplit.operators.family import SLACK
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.refine import Pairs, refine

ENOUGH = 1e-4
"""Errors below this share of the change count as equal."""
STEPS = (1, 2, 4, 8, 16, 32)
"""Integration steps per frame that are tried."""
LARGEST_GROWTH = 2.0
"""Modes may grow this many times as fast as the fastest that the training fields hold."""


def make_family(linear: tuple[str, ...], products: tuple[str, ...], evidence: Evidence) -> Spectral:
    """A spectral family with these terms."""
    channels, units = evidence.fit[0].shape[2], evidence.units
    return Spectral(
        channels, evidence.grid.ndim, SLACK * evidence.dt, Derivatives(linear, 1e30),
        # Reactions act point by point, as in most solvers.
        Products(products, centre=units.centre, alias_reactions=True) if products else None,
        units.wavenumber,
    )  # fmt: skip


def bounded(family: Spectral, parameters: Tensor, evidence: Evidence) -> Spectral:
    """The same family whose modes grow little faster than those that the data hold."""
    assert isinstance(family.linear, Derivatives)
    free = replace(family, linear=replace(family.linear, max_growth=1e30))
    symbol = free.prepare(parameters, evidence.grid).tensors["symbol"].real
    k = squared_wavenumber(evidence.grid).sqrt()
    inside = k <= 3 * evidence.units.wavenumber
    fastest = float((symbol * inside).max().clamp_min(0))
    return replace(family, linear=replace(family.linear, max_growth=LARGEST_GROWTH * fastest))


def with_steps(
    family: Spectral, parameters: Tensor, pairs: Sequence[Pairs], evidence: Evidence
) -> Spectral:
    """As many steps per frame as the flow needs to be accurate."""
    family = bounded(family, parameters, evidence)
    if family.nonlinearity is None:
        return family
    some = [Pairs(p.states[:, :4], p.targets[:, :4], p.duration) for p in pairs]
    flows = {}

    def flow(steps: int) -> list[Tensor]:
        if steps not in flows:
            own = replace(family, max_step=SLACK * evidence.dt / steps)
            operators = own.prepare(parameters, evidence.grid)
            flows[steps] = [own.flow(operators, p.states, p.duration) for p in some]
        return flows[steps]

    for steps in STEPS[:-1]:
        gaps = [
            ((a - b).flatten(2).norm(dim=2) / p.change()).mean(1).max()
            for a, b, p in zip(flow(steps), flow(2 * steps), some, strict=True)
        ]
        # Not a number is no small gap.
        if all(float(gap) < ENOUGH for gap in gaps):
            break
    return replace(family, max_step=SLACK * evidence.dt / steps)


def refined(
    family: Spectral, parameters: Tensor, pairs: Sequence[Pairs], evidence: Evidence, limit: Limit
) -> tuple[Spectral, Tensor]:
    """Weights that forecast the pairs best, and the family whose growth they bound."""
    free = parameters.ne(0).any(0).nonzero()[:, 0]
    better = refine(family, parameters, free, pairs, evidence.grid, limit)
    return bounded(family, better, evidence), better
