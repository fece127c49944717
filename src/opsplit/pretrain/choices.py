"""Choices that follow the structure: how products and fronts are evaluated, which weights stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from opsplit.operators import Fronts, Products, Spectral
from opsplit.operators.family import SLACK
from opsplit.operators.spectral.fronts import conservative
from opsplit.operators.spectral.products import parse
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.fitting import ENOUGH, STEPS, refined, with_steps
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.refine import Pairs, beyond_noise, errors, necessity

SIMPLER = 1.1
"""A simpler structure is taken where its error is at most this many times the best."""
BETTER = 0.7
"""Another way to evaluate products must lower the error to this share."""
MOST_FRONTS = 8
"""Environments, the last ones, on which two ways to follow fronts are compared."""
DAMPED = 10.0
"""How much the flow of a frame damps the finest modes where products act on all of them."""
BLOWN = 1.0
"""An error above that of copying, although weights were fitted."""
CALM = (1 / 2, 5 / 12, 1 / 3, 1 / 4)
"""Shares of the modes that enter products instead of two thirds."""
UNSEEN = 0.1
"""Differences of squared errors below this share of those that noise makes are none."""
NEEDED = 3.0
"""A weight without which the squared error rises this many times is not tried to be dropped."""


def shortened(
    family: Spectral, parameters: Tensor, train: Sequence[Pairs], check: Sequence[Pairs],
    floor: Tensor, evidence: Evidence, limit: Limit,
) -> tuple[Spectral, Tensor]:  # fmt: skip
    """Drop weights as long as forecasts of unseen fields do not get worse.

    Arguments:
        floor: errors `(E,)` that noise in the frames makes.
    """
    found = errors(family, parameters, check, evidence.grid)
    error = float(beyond_noise(found, floor).mean())
    while True:
        free = parameters.ne(0).any(0).nonzero()[:, 0]
        if len(free) < 2 or limit.over():
            return family, parameters
        rise = necessity(family, parameters, free, train, evidence.grid)
        loose = [place for place, x in zip(free.tolist(), rise.tolist(), strict=True) if x < NEEDED]
        best: tuple[float, Spectral, Tensor] | None = None
        for place in loose:
            if limit.over():
                break
            less = parameters.clone()
            less[:, place] = 0
            own, less = refined(family, less, train, evidence, limit)
            found = errors(own, less, check, evidence.grid)
            now = float(beyond_noise(found, floor).mean())
            if best is None or now < best[0]:
                best = (now, own, less)
        if best is None or best[0] > 1.1 * error + 0.1 * ENOUGH:
            return family, parameters
        error, family, parameters = best


def dealiased(
    family: Spectral, parameters: Tensor, train: Sequence[Pairs], check: Sequence[Pairs],
    evidence: Evidence, limit: Limit,
) -> tuple[Spectral, Tensor]:  # fmt: skip
    """Another way to treat modes that the grid cannot hold, where the data were made like that.

    Reactions on the lower modes only; products with derivatives on all modes, whose finest the
    flow damps (Hou and Li, 2007).
    """
    before = family.nonlinearity
    if not isinstance(before, Products):
        return family, parameters
    kinds = {parse(text).pointwise for text in before.terms}
    ways = []
    if True in kinds:
        ways.append(replace(family, nonlinearity=replace(before, alias_reactions=False)))
    if False in kinds:
        every = replace(before, dealias=1.0)
        ways.append(replace(family, nonlinearity=every, filter_rate=DAMPED / evidence.dt))
    best, least = (
        (family, parameters),
        float(errors(family, parameters, check, evidence.grid).mean()),
    )
    for way in ways:
        if limit.over():
            break
        other = with_steps(way, parameters, train, evidence)
        other, weights = refined(other, parameters, train, evidence, limit)
        found = float(errors(other, weights, check, evidence.grid).mean())
        if found < BETTER * least:
            best, least = (other, weights), found
    return best


def calmed(
    family: Spectral, parameters: Tensor, check: Sequence[Pairs], evidence: Evidence
) -> Spectral:
    """Products of fewer modes, where the finest ones make flows blow up.

    High derivatives of products, as in films that flatten, are too fast there for any number of
    steps that is tried, though fields that they smooth hold nothing in those modes.
    """

    def error(tried: Spectral) -> float:
        return float(errors(tried, parameters, check, evidence.grid).mean())

    products = family.nonlinearity
    if not isinstance(products, Products):
        return family
    best, least = family, error(family)
    for share in CALM:
        if least < BLOWN:
            break
        fewer = replace(family, nonlinearity=replace(products, dealias=share))
        fewer = with_steps(fewer, parameters, check, evidence)
        if (found := error(fewer)) < least:
            best, least = fewer, found
    return best


def sharpened(
    family: Spectral, parameters: Tensor, environments: Sequence[int], train: Sequence[Pairs],
    evidence: Evidence, limit: Limit,
) -> tuple[Spectral, Tensor]:  # fmt: skip
    """Fluxes by finite volumes, where they follow fronts better than Fourier modes do."""
    before = family.nonlinearity
    places, fronts = evidence.front_pairs(environments[-MOST_FRONTS:], seed=3)
    conserves = isinstance(before, Products) and any(
        axis is not None for axis in conservative(before.terms)
    )
    if not conserves or not places or limit.over():
        return family, parameters
    assert isinstance(before, Products)
    some = parameters[-MOST_FRONTS:][places]
    sharp = replace(family, nonlinearity=following_fronts(before), filter_rate=0.0)
    tried: list[tuple[float, Spectral]] = []
    for steps in STEPS:
        other = replace(sharp, max_step=SLACK * evidence.dt / steps)
        tried.append((float(errors(other, some, fronts, evidence.grid).mean()), other))
        # Too few steps blow up; twice as many as enough change nothing.
        if len(tried) > 1 and tried[-2][0] < min(1.0, SIMPLER * tried[-1][0]):
            break
    best = min(error for error, _ in tried)
    if best > BETTER * float(errors(family, some, fronts, evidence.grid).mean()):
        return family, parameters
    sharp = next(other for error, other in tried if error <= SIMPLER * best + ENOUGH)
    return refined(sharp, parameters, train, evidence, limit)


def following_fronts(products: Products) -> Fronts:
    return Fronts(**{f.name: getattr(products, f.name) for f in fields(products)})


def pooled(
    family: Spectral, parameters: Tensor, labels: Tensor, pairs: Sequence[Pairs], floor: Tensor,
    evidence: Evidence,
) -> Tensor:  # fmt: skip
    """Weights proportional to the coefficient, in environments that they forecast better, or as
    well as noise lets anybody see.

    Fronts may leave an environment too few frames for weights of its own.
    """
    if len(labels) < 3:
        return parameters
    shape = (parameters / labels[:, None]).median(0).values
    common = labels[:, None] * shape
    own, other = (errors(family, p, pairs, evidence.grid) for p in (parameters, common))
    alike = other.square() - own.square() < UNSEEN * floor.square()
    return torch.where(alike[:, None], common, parameters)
