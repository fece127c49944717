"""Choose the structure of every mechanism by evidence, and fit its weights.

Terms compete on trajectories that were not fitted; weights start from least squares on integrals
between frames and are refined through the real flow. Names of equations play no part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.operators import Derivatives, Fronts, Products, Spectral
from opsplit.operators.family import unpack
from opsplit.pretrain.choices import (
    SIMPLER,
    dealiased,
    following_fronts,
    pooled,
    sharpened,
    shortened,
)
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.fitting import ENOUGH, make_family, refined, with_steps
from opsplit.pretrain.library import Atom, Library, atoms_of, saturation, stages
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.refine import beyond_noise, errors, noise_floor
from opsplit.pretrain.regression import moments, select
from opsplit.trajectories import Trajectories

ROUNDED = 1e-2
"""Values below zero by this share of the mean are errors of the solver that made the data."""


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
class _Candidate:
    """Terms of every channel that may be a mechanism, and their least-squares weights."""

    title: str
    terms: tuple[tuple[Atom, ...], ...]
    weights: tuple[Tensor, ...]
    """Per channel `(E, terms)`."""


def mechanisms(data: Trajectories) -> dict[str, tuple[int, ...]]:
    """Environments by the coefficients that are active in them, such as `r` or `c+D`."""
    _, first = data.environments()
    out: dict[str, list[int]] = {}
    for i, place in enumerate(first.tolist()):
        active = [k for k, v in data.coefficients.items() if float(v[place])]
        out.setdefault("+".join(active) or "none", []).append(i)
    return {k: tuple(v) for k, v in out.items()}


def learn(
    evidence: Evidence, name: str, environments: Sequence[int], labels: Tensor | None = None,
    limit: Limit | None = None, tell: Callable[[str, float], None] | None = None,
) -> Learned:  # fmt: skip
    """The structure of one mechanism: the simplest among those that forecast unseen fields best.

    Arguments:
        labels: the coefficient of every environment, where the mechanism has a single one.
        limit: when to be content with the best so far.
        tell: hears every structure that is tried, and the least error so far.
    """
    grid, limit = evidence.grid, limit or Limit()
    train = evidence.pairs(environments, unseen=False, seed=1)
    check = evidence.pairs(environments, unseen=True, seed=2)
    noise = torch.stack([evidence.noise[i] for i in environments])
    tried: list[tuple[Rival, Tensor, Spectral, Tensor]] = []
    for candidate in _candidates(evidence, environments, limit):
        if tried and limit.over():
            break
        if tell is not None:
            tell(candidate.title, min((t[0].error for t in tried), default=math.inf))
        family, parameters = _build(candidate, evidence)
        family = with_steps(family, parameters, train, evidence)
        family, parameters = refined(family, parameters, train, evidence, limit)
        found = errors(family, parameters, check, grid)
        error = float(found.mean())
        texts = tuple(sorted({atom.text for terms in candidate.terms for atom in terms}))
        tried.append((Rival(candidate.title, texts, error), found, family, parameters))
        if error < ENOUGH:
            break
    # Noise in the frames is in all errors alike, and would make structures seem equally good.
    _, _, family, parameters = min(tried, key=lambda t: t[0].error)
    floor = noise_floor(family, parameters, check, noise, grid)
    left = [float(beyond_noise(found, floor).mean()) for _, found, *_ in tried]
    able = [t for t, x in zip(tried, left, strict=True) if x <= SIMPLER * min(left) + ENOUGH]
    _, _, family, parameters = min(able, key=lambda t: len(t[0].terms))
    family, parameters = dealiased(family, parameters, train, check, evidence, limit)
    family, parameters = sharpened(family, parameters, environments, train, evidence, limit)
    family, parameters = shortened(family, parameters, train, check, floor, evidence, limit)
    if labels is not None:
        parameters = pooled(family, parameters, labels, [*train, *check], evidence)
    found = errors(family, parameters, check, grid)
    floor = noise_floor(family, parameters, check, noise, grid)
    whole = evidence.whole_pairs(environments)
    lasting = beyond_noise(
        errors(family, parameters, whole, grid),
        noise_floor(family, parameters, whole, noise, grid),
    )
    rivals = tuple(rival for rival, *_ in tried)
    return Learned(
        name,
        tuple(environments),
        family,
        parameters,
        found,
        floor,
        lasting,
        rivals,
        not limit.hit,
    )


def _candidates(
    evidence: Evidence, environments: Sequence[int], limit: Limit
) -> Iterator[_Candidate]:
    """Structures from simple to rich, each once; rich ones are looked at only when asked for."""
    channels = evidence.fit[0].shape[2]
    seen: set[tuple[tuple[Atom, ...], ...]] = set()
    for stage in stages(channels, evidence.grid.ndim):
        if stage[0].group == "fluxes":
            yield from _saturated(evidence, environments, limit)
        atoms = atoms_of(stage)
        # The first stage is the least that a mechanism needs.
        patience = limit if seen else Limit()
        fit, unseen = (
            moments([part[i] for i in environments], atoms, *evidence.measures, patience)
            for part in (evidence.fit, evidence.unseen)
        )
        if fit is None or unseen is None:
            return
        for library in stage:
            best = [
                select(fit, unseen, c, _allowed(library, atoms, c)).terms for c in range(channels)
            ]
            for some in _beginnings(best, atoms):
                terms = tuple(tuple(atoms[j] for j in chosen) for chosen in some)
                if any(some) and terms not in seen:
                    seen.add(terms)
                    weights = tuple(fit.solve(c, chosen) for c, chosen in enumerate(some))
                    yield _Candidate(library.name, terms, weights)
    if not seen:
        # Where nothing explains anything, the operator that does nothing is all there is.
        weights = (torch.zeros(len(environments), 1, dtype=torch.float64),) * channels
        yield _Candidate(stage[0].name, ((atoms[0],),) * channels, weights)


def _saturated(
    evidence: Evidence, environments: Sequence[int], limit: Limit
) -> Iterator[_Candidate]:
    """Reactions with the denominator that explains most, of channels that are never negative."""
    channels = evidence.fit[0].shape[2]
    every = torch.cat([evidence.fit[i].transpose(0, 2).flatten(1) for i in environments], 1)
    positive = [c for c in range(channels) if float(every[c].min()) > -ROUNDED * every[c].mean()]
    if not positive or evidence.units.centre:
        return
    usual, least = float(every[positive].mean()), float(every[positive].min())
    tried = [usual * 2.0**n for n in range(-4, 3)] + ([0.0] if least > 0.05 * usual else [])
    for ratio in (1.25, 1.06, 1.0):
        known = [saturation(channels, positive, added) for added in tried]
        atoms = atoms_of(known)
        fit, unseen = (
            moments([part[i] for i in environments], atoms, *evidence.measures, limit)
            for part in (evidence.fit, evidence.unseen)
        )
        if fit is None or unseen is None:
            return
        chosen = [
            [select(fit, unseen, c, _allowed(library, atoms, c)) for c in range(channels)]
            for library in known
        ]
        place = min(range(len(known)), key=lambda i: sum(one.left for one in chosen[i]))
        tried = sorted({tried[place] * ratio**n for n in (-2, -1, 0, 1, 2)})
    assert fit is not None
    terms = tuple(tuple(atoms[j] for j in one.terms) for one in chosen[place])
    weights = tuple(fit.solve(c, one.terms) for c, one in enumerate(chosen[place]))
    yield _Candidate(known[place].name, terms, weights)


def _beginnings(
    chosen: Sequence[Sequence[int]], atoms: Sequence[Atom]
) -> list[tuple[tuple[int, ...], ...]]:
    """Terms to try, per channel; of linear ones first the best one, then the best two, and so on.

    Frames far apart make integrals between them inexact, and further terms mend that; the exact
    flow of a linear operator needs no such terms.
    """
    linear = all(atoms[j].linear for terms in chosen for j in terms)
    most = max(map(len, chosen))
    counts = range(1, most + 1) if linear else [most]
    return [tuple(tuple(sorted(terms[:n])) for terms in chosen) for n in counts]


def _allowed(library: Library, atoms: Sequence[Atom], channel: int) -> list[int]:
    """Positions of the terms that may enter the rate of a channel."""
    return [j for j, a in enumerate(atoms) if a in library.atoms and not a.repeats(channel)]


def _build(candidate: _Candidate, evidence: Evidence) -> tuple[Spectral, Tensor]:
    """A family with these terms, and their weights `(E, P)`."""
    used = list(dict.fromkeys(atom for terms in candidate.terms for atom in terms))
    names = {
        "derivatives": tuple(atom.text for atom in used if atom.linear),
        "products": tuple(atom.text for atom in used if not atom.linear),
    }
    family = make_family(names["derivatives"], names["products"], evidence)
    channels, count = len(candidate.terms), len(candidate.weights[0])
    weights = {
        kind: torch.zeros(count, channels, len(texts), dtype=torch.float64)
        for kind, texts in names.items()
    }
    for c, (terms, found) in enumerate(zip(candidate.terms, candidate.weights, strict=True)):
        for place, atom in enumerate(terms):
            kind = "derivatives" if atom.linear else "products"
            weights[kind][:, c, names[kind].index(atom.text)] = found[:, place]
    pieces = [weights[name].flatten(1) for name in family.shapes()]
    return family, torch.cat(pieces, 1)


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
        most = max(n.dealias for n in parts)
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
