"""Choose the structure of every mechanism by evidence, and fit its weights.

Terms compete on trajectories that were not fitted; weights start from least squares on integrals
between frames and are refined through the real flow. Names of equations play no part.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from opsplit.errors import OpsplitError, OpsplitWarning
from opsplit.operators import Derivatives, Fronts, Products, Spectral
from opsplit.operators.family import unpack
from opsplit.pretrain.candidates import Candidate, Candidates, build
from opsplit.pretrain.choices import (
    SIMPLER,
    calmed,
    dealiased,
    following_fronts,
    pooled,
    sharpened,
    shortened,
)
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.fitting import ENOUGH, make_family, refined, with_steps
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.refine import beyond_noise, errors, noise_floor
from opsplit.trajectories import Trajectories

MANY = 3
"""Linear terms, from this number on, are tried to be written with fewer."""
HIDDEN = 1.5
"""Squared errors up to so many times those of noise leave nothing that is worth a long search."""
CLOSE = 0.2
"""Structures with a smaller error may have the right terms, evaluated in another way than in the
data."""


@dataclass(frozen=True)
class Rival:
    """A structure that competed for a mechanism."""

    name: str
    terms: tuple[str, ...]
    error: float
    """Of a short forecast on unseen fields, relative to the change; mean over environments."""


@dataclass(frozen=True)
class Learned:
    """The structure of one mechanism with the weights of its environments."""

    mechanism: str
    environments: tuple[int, ...]
    family: Spectral
    parameters: Tensor
    """`(E, P)`"""
    error: Tensor
    """Of short forecasts on unseen fields, relative to the change, `(E,)`."""
    noise: Tensor
    """The part of that error which white noise in the frames explains, `(E,)`."""
    lasting: Tensor
    """Error of forecasts to the last frame of unseen trajectories, relative to the change until
    then and without noise, `(E,)`: errors of a step may grow."""
    rivals: tuple[Rival, ...]
    complete: bool = True
    """Whether there was time for all that could be tried."""


@dataclass(frozen=True)
class _Tried:
    """A structure with the weights that forecast best."""

    rival: Rival
    found: Tensor
    """Errors on unseen fields, `(E,)`."""
    family: Spectral
    parameters: Tensor
    evaluated: bool
    """Whether another way to evaluate its products was tried."""


def mechanisms(data: Trajectories) -> dict[str, tuple[int, ...]]:
    """Environments by the coefficients that are active in them, such as `r` or `c+D`."""
    _, first = data.environments()
    out: dict[str, list[int]] = {}
    for i, place in enumerate(first.tolist()):
        active = [k for k, v in data.coefficients.items() if float(v[place])]
        out.setdefault("+".join(active) or "none", []).append(i)
    return {k: tuple(v) for k, v in out.items()}


class Contest:
    """The structures of one mechanism compete: the simplest of the best forecasts of unseen
    fields wins.

    Arguments:
        labels: the coefficient of every environment, where the mechanism has a single one.
        tell: hears every structure that is tried, and the least error so far.
    """

    def __init__(
        self, evidence: Evidence, name: str, environments: Sequence[int],
        labels: Tensor | None = None, tell: Callable[[str, float], None] | None = None,
    ) -> None:  # fmt: skip
        self.evidence, self.name, self.environments = evidence, name, tuple(environments)
        self.labels, self.tell = labels, tell
        self.train = evidence.pairs(environments, unseen=False, seed=1)
        self.check = evidence.pairs(environments, unseen=True, seed=2)
        self.noise = evidence.noise_of(environments, seed=2)
        self.candidates = Candidates(evidence, environments, Limit(), self.settled)
        self.ahead = iter(self.candidates)
        self.tried: list[_Tried] = []
        self.hurried = False
        """Whether there was no time for a structure."""

    @property
    def least(self) -> float:
        """The error of the best structure so far, infinite at the beginning."""
        return min((t.rival.error for t in self.tried), default=math.inf)

    def settled(self) -> bool:
        """Whether the best structure leaves no more than the noise in the frames."""
        if not self.tried:
            return False
        best = min(self.tried, key=lambda t: t.rival.error)
        floor = self._floor(best.family, best.parameters)
        return float(best.found.square().mean()) < HIDDEN * float(floor.square().mean())

    def until(self, enough: float, limit: Limit) -> None:
        """Try structures until one leaves less than this share of the change."""
        self.candidates.limit = limit
        while self.least >= enough and not (self.tried and limit.over()):
            candidate = next(self.ahead, None)
            self.hurried = self.hurried or limit.hit
            if candidate is None:
                return
            if self.tell is not None:
                self.tell(candidate.title, self.least)
            self.tried.append(self._try(candidate, limit))

    def _try(self, candidate: Candidate, limit: Limit) -> _Tried:
        evidence = self.evidence
        family, parameters = build(candidate, evidence)
        family = with_steps(family, parameters, self.train, evidence)
        family = calmed(family, parameters, self.train, evidence)
        family, parameters = refined(family, parameters, self.train, evidence, limit)
        found = errors(family, parameters, self.check, evidence.grid)
        evaluated = ENOUGH <= float(found.mean()) < min(CLOSE, self.least)
        if evaluated:
            # The right terms, perhaps: richer structures would only mend their evaluation.
            family, parameters = dealiased(
                family, parameters, self.train, self.check, evidence, limit
            )
            found = errors(family, parameters, self.check, evidence.grid)
        rival = Rival(candidate.title, candidate.texts, float(found.mean()))
        return _Tried(rival, found, family, parameters, evaluated)

    def best(self) -> _Tried:
        """The simplest of those that are about as good as the best one."""
        # Noise in the frames is in all errors alike, and would make structures seem equally good.
        least = min(self.tried, key=lambda t: t.rival.error)
        floor = self._floor(least.family, least.parameters)
        left = [float(beyond_noise(t.found, floor).mean()) for t in self.tried]
        most = SIMPLER * min(left) + ENOUGH
        able = [t for t, x in zip(self.tried, left, strict=True) if x <= most]
        return min(able, key=lambda t: len(t.rival.terms))

    def _simplify(self, limit: Limit) -> None:
        """Many linear terms may stand for one inverse, and act otherwise on modes that the fields
        do not hold."""
        best = self.best()
        if best.family.nonlinearity is not None or len(best.rival.terms) < MANY:
            return
        self.candidates.limit = limit
        for candidate in self.candidates.inverted(linear=True):
            if limit.over():
                return
            self.tried.append(self._try(candidate, limit))

    def finish(self, limit: Limit) -> Learned:
        """Try all that may help, and refine the winner."""
        self.until(ENOUGH, limit)
        self._simplify(limit)
        evidence, train, check = self.evidence, self.train, self.check
        best = self.best()
        family, parameters = best.family, best.parameters
        if not best.evaluated:
            family, parameters = dealiased(family, parameters, train, check, evidence, limit)
        family, parameters = sharpened(
            family, parameters, self.environments, train, evidence, limit
        )
        floor = self._floor(family, parameters)
        family, parameters = shortened(family, parameters, train, check, floor, evidence, limit)
        if self.labels is not None:
            floor = self._floor(family, parameters)
            both = [*train, *check]
            parameters = pooled(family, parameters, self.labels, both, floor, evidence)
        return self.learned(family, parameters, not (self.hurried or limit.hit))

    def first(self) -> Learned:
        """The best so far, as it is."""
        best = self.best()
        return self.learned(best.family, best.parameters, True)

    def learned(self, family: Spectral, parameters: Tensor, complete: bool) -> Learned:
        """These operators with their errors."""
        grid = self.evidence.grid
        whole = self.evidence.whole_pairs(self.environments)
        shaken = self.evidence.noise_of_whole(self.environments)
        lasting = beyond_noise(
            errors(family, parameters, whole, grid),
            noise_floor(family, parameters, whole, shaken, grid),
        )
        return Learned(
            self.name,
            self.environments,
            family,
            parameters,
            errors(family, parameters, self.check, grid),
            self._floor(family, parameters),
            lasting,
            tuple(t.rival for t in self.tried),
            complete,
        )

    def _floor(self, family: Spectral, parameters: Tensor) -> Tensor:
        return noise_floor(family, parameters, self.check, self.noise, self.evidence.grid)


def learn(
    evidence: Evidence, name: str, environments: Sequence[int], labels: Tensor | None = None,
    limit: Limit | None = None,
) -> Learned:  # fmt: skip
    """The structure of one mechanism."""
    return Contest(evidence, name, environments, labels).finish(limit or Limit())


def join(learned: Sequence[Learned], evidence: Evidence) -> tuple[Spectral, Tensor]:
    """One family with the terms of all mechanisms, and the weights `(E, P)` of all environments."""
    names: dict[str, list[str]] = {"derivatives": [], "products": []}
    for one in learned:
        for kind, terms in used_terms(one).items():
            names[kind] += [t for t in terms if t not in names[kind]]
    family = make_family(tuple(names["derivatives"]), tuple(names["products"]), evidence)
    assert isinstance(family.linear, Derivatives)
    most = max(one.family.linear.max_growth for one in learned)  # type: ignore[attr-defined]
    step = min(one.family.max_step or math.inf for one in learned)
    family = replace(family, linear=replace(family.linear, max_growth=most), max_step=step)
    if isinstance(family.nonlinearity, Products):
        parts = [n for one in learned if isinstance(n := one.family.nonlinearity, Products)]
        # Few mechanisms have reactions; those that have decide.
        aliased = all(n.alias_reactions for n in parts)
        shares = [n.dealias for n in parts]
        # What blows up on many modes needs few, whatever would do for the others.
        most = max(shares) if min(shares) >= Products.dealias else min(shares)
        damping = max(one.family.filter_rate for one in learned)
        own = replace(family.nonlinearity, alias_reactions=aliased, dealias=most)
        family = replace(family, nonlinearity=own, filter_rate=damping)
        if any(isinstance(n, Fronts) for n in parts):
            family = replace(family, nonlinearity=following_fronts(own), filter_rate=0.0)
    count = sum(len(one.environments) for one in learned)
    weights = {
        name: torch.zeros(count, *shape, dtype=torch.float64)
        for name, shape in family.shapes().items()
    }
    for one in learned:
        rows = torch.tensor(one.environments)
        for kind, terms in used_terms(one).items():
            for term, held in terms.items():
                weights[kind][rows, :, names[kind].index(term)] = held
    return family, torch.cat([w.flatten(1) for w in weights.values()], 1)


def used_terms(one: Learned) -> dict[str, dict[str, Tensor]]:
    """Weights `(E, channel)` of the terms that a mechanism has."""
    return terms_of(one.family, one.parameters)


def terms_of(family: Spectral, parameters: Tensor) -> dict[str, dict[str, Tensor]]:
    """Weights `(E, channel)` of the terms that any of the operators `(E, P)` has."""
    assert isinstance(family.linear, Derivatives)
    names = {"derivatives": family.linear.terms}
    if isinstance(family.nonlinearity, Products):
        names["products"] = family.nonlinearity.terms
    held = unpack(parameters, family.shapes())
    return {
        kind: {t: held[kind][..., i] for i, t in enumerate(terms) if held[kind][..., i].any()}
        for kind, terms in names.items()
    }


def check_data(data: Trajectories) -> None:
    """Refuse data that no structure can be learned from."""
    if data.data.shape[1] < 6:
        raise OpsplitError(
            "Learning a structure needs at least 6 frames per trajectory, "
            f"got {data.data.shape[1]}."
        )
    if not data.uniform:
        raise OpsplitError("Learning a structure needs frames that are equally far apart.")
    if not bool(data.data.diff(dim=1).any()):
        raise OpsplitError("No field changes from frame to frame: there is nothing to learn.")
    idle = torch.stack([*data.coefficients.values(), torch.zeros(len(data.data))]).eq(0).all(0)
    moving = data.data.diff(dim=1).flatten(1).any(1)
    if 0 < (count := int((idle & moving).sum())) < len(data.data):
        warnings.warn(
            f"{count} of {len(data.data)} trajectories change although all their coefficients are "
            "zero: do the data name the coefficient that acts in them? Names of axes, such as x "
            "and t, cannot be coefficients in a table.",
            OpsplitWarning,
            stacklevel=2,
        )
