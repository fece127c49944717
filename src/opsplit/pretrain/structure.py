"""Choose the structure of every mechanism by evidence, and fit its weights.

Terms compete on trajectories that were not fitted; weights start from least squares on integrals
between frames and are refined through the real flow. Names of equations play no part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import squared_wavenumber
from opsplit.operators import Derivatives, Fronts, OperatorFamily, Products, Spectral
from opsplit.operators.family import SLACK, unpack
from opsplit.operators.spectral.fronts import conservative
from opsplit.operators.spectral.products import parse
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.library import Atom, Library, atoms_of, libraries
from opsplit.pretrain.refine import Pairs, errors, necessity, refine
from opsplit.pretrain.regression import Moments, moments, select
from opsplit.trajectories import Trajectories

SIMPLER = 1.1
"""A simpler structure is taken where its error is at most this many times the best."""
ENOUGH = 1e-4
"""Errors below this share of the change count as equal."""
STEPS = (1, 2, 4, 8, 16, 32)
"""Integration steps per frame that are tried."""
LARGEST_GROWTH = 2.0
"""Modes may grow this many times as fast as the fastest that the training fields hold."""
BETTER = 0.7
"""Another way to evaluate products must lower the error to this share."""
MOST_FRONTS = 8
"""Environments, the last ones, on which two ways to follow fronts are compared."""
DAMPED = 10.0
"""How much the flow of a frame damps the finest modes where products act on all of them."""
NEEDED = 3.0
"""A weight without which the squared error rises this many times is not tried to be dropped."""

Report = Callable[[float, str], None]


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
    rivals: tuple[Rival, ...]


def mechanisms(data: Trajectories) -> dict[str, tuple[int, ...]]:
    """Environments by the coefficients that are active in them, such as `r` or `c+D`."""
    _, first = data.environments()
    out: dict[str, list[int]] = {}
    for i, place in enumerate(first.tolist()):
        active = [k for k, v in data.coefficients.items() if float(v[place])]
        out.setdefault("+".join(active) or "none", []).append(i)
    return {k: tuple(v) for k, v in out.items()}


def learn(
    evidence: Evidence, name: str, environments: Sequence[int], labels: Tensor | None = None
) -> Learned:
    """The structure of one mechanism: the simplest among those that forecast unseen fields best.

    Arguments:
        labels: the coefficient of every environment, where the mechanism has a single one.
    """
    grid = evidence.grid
    channels = evidence.fit[0].shape[2]
    known = libraries(channels, grid.ndim)
    atoms = atoms_of(known)
    fit, unseen = (
        moments([part[i] for i in environments], atoms, grid, evidence.dt, evidence.units)
        for part in (evidence.fit, evidence.unseen)
    )
    train = evidence.pairs(environments, unseen=False, seed=1)
    check = evidence.pairs(environments, unseen=True, seed=2)
    candidates: dict[tuple[tuple[int, ...], ...], str] = {}
    for library in known:
        best = [select(fit, unseen, c, _allowed(library, atoms, c)).terms for c in range(channels)]
        for some in _beginnings(best, atoms):
            if any(some):
                candidates.setdefault(some, library.name)
    # Where nothing explains anything, the operator that does nothing is all there is.
    candidates = candidates or {((0,),) * channels: known[0].name}
    tried: list[tuple[Rival, Spectral, Tensor, Tensor]] = []
    for chosen, title in candidates.items():
        family, parameters = _build(fit, chosen, atoms, evidence)
        family = _with_steps(family, parameters, train, evidence)
        family, parameters = _refined(family, parameters, train, evidence)
        found = errors(family, parameters, check, grid)
        terms = tuple(sorted({atoms[j].text for c in chosen for j in c}))
        tried.append((Rival(title, terms, float(found.mean())), family, parameters, found))
        if float(found.mean()) < ENOUGH:
            break
    least = min(rival.error for rival, *_ in tried)
    _, family, parameters, _ = next(t for t in tried if t[0].error <= SIMPLER * least + ENOUGH)
    family, parameters = _dealiased(family, parameters, train, check, evidence)
    family, parameters = _sharpened(family, parameters, environments, train, evidence)
    family, parameters, found = _shortened(family, parameters, train, check, evidence)
    if labels is not None:
        parameters = _pooled(family, parameters, labels, [*train, *check], evidence)
        found = errors(family, parameters, check, grid)
    return Learned(name, tuple(environments), family, parameters, found, tuple(t[0] for t in tried))


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


def _build(
    fit: Moments, chosen: Sequence[Sequence[int]], atoms: Sequence[Atom], evidence: Evidence
) -> tuple[Spectral, Tensor]:
    """A family with these terms, and their least-squares weights."""
    used = sorted({j for c in chosen for j in c})
    linear = tuple(atoms[j].text for j in used if atoms[j].linear)
    products = tuple(atoms[j].text for j in used if not atoms[j].linear)
    family = make_family(linear, products, evidence)
    channels, count = len(chosen), fit.whole.shape[0]
    weights = {
        "derivatives": torch.zeros(count, channels, len(linear), dtype=torch.float64),
        "products": torch.zeros(count, channels, len(products), dtype=torch.float64),
    }
    for c, terms in enumerate(chosen):
        if not terms:
            continue
        found = fit.solve(c, terms)
        for place, j in enumerate(terms):
            kind = "derivatives" if atoms[j].linear else "products"
            names = linear if atoms[j].linear else products
            weights[kind][:, c, names.index(atoms[j].text)] = found[:, place]
    pieces = [weights[name].flatten(1) for name in family.shapes()]
    return family, torch.cat(pieces, 1)


def make_family(linear: tuple[str, ...], products: tuple[str, ...], evidence: Evidence) -> Spectral:
    """A spectral family with these terms."""
    channels, units = evidence.fit[0].shape[2], evidence.units
    return Spectral(
        channels, evidence.grid.ndim, SLACK * evidence.dt, Derivatives(linear, 1e30),
        # Reactions act point by point, as in most solvers.
        Products(products, centre=units.centre, alias_reactions=True) if products else None,
        units.wavenumber,
    )  # fmt: skip


def _bounded(family: Spectral, parameters: Tensor, evidence: Evidence) -> Spectral:
    """The same family whose modes grow little faster than those that the data hold."""
    assert isinstance(family.linear, Derivatives)
    free = replace(family, linear=replace(family.linear, max_growth=1e30))
    symbol = free.prepare(parameters, evidence.grid).tensors["symbol"].real
    k = squared_wavenumber(evidence.grid).sqrt()
    inside = k <= 3 * evidence.units.wavenumber
    fastest = float((symbol * inside).max().clamp_min(0))
    return replace(family, linear=replace(family.linear, max_growth=LARGEST_GROWTH * fastest))


def _with_steps(
    family: Spectral, parameters: Tensor, pairs: Sequence[Pairs], evidence: Evidence
) -> Spectral:
    """As many steps per frame as the flow needs to be accurate."""
    family = _bounded(family, parameters, evidence)
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


def _refined(
    family: Spectral, parameters: Tensor, pairs: Sequence[Pairs], evidence: Evidence
) -> tuple[Spectral, Tensor]:
    free = parameters.ne(0).any(0).nonzero()[:, 0]
    refined = refine(family, parameters, free, pairs, evidence.grid)
    return _bounded(family, refined, evidence), refined


def _shortened(
    family: Spectral, parameters: Tensor, train: Sequence[Pairs], check: Sequence[Pairs],
    evidence: Evidence,
) -> tuple[Spectral, Tensor, Tensor]:  # fmt: skip
    """Drop weights as long as forecasts of unseen fields do not get worse."""
    found = errors(family, parameters, check, evidence.grid)
    while True:
        free = parameters.ne(0).any(0).nonzero()[:, 0]
        if len(free) < 2:
            return family, parameters, found
        rise = necessity(family, parameters, free, train, evidence.grid)
        loose = [place for place, x in zip(free.tolist(), rise.tolist(), strict=True) if x < NEEDED]
        if not loose:
            return family, parameters, found
        best: tuple[float, Spectral, Tensor, Tensor] | None = None
        for place in loose:
            less = parameters.clone()
            less[:, place] = 0
            own, less = _refined(family, less, train, evidence)
            now = errors(own, less, check, evidence.grid)
            if best is None or float(now.mean()) < best[0]:
                best = (float(now.mean()), own, less, now)
        assert best is not None
        if best[0] > 1.1 * float(found.mean()) + 0.1 * ENOUGH:
            return family, parameters, found
        _, family, parameters, found = best


def _dealiased(
    family: Spectral, parameters: Tensor, train: Sequence[Pairs], check: Sequence[Pairs],
    evidence: Evidence,
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
        other = _with_steps(way, parameters, train, evidence)
        other, refined = _refined(other, parameters, train, evidence)
        found = float(errors(other, refined, check, evidence.grid).mean())
        if found < BETTER * least:
            best, least = (other, refined), found
    return best


def _sharpened(
    family: Spectral, parameters: Tensor, environments: Sequence[int], train: Sequence[Pairs],
    evidence: Evidence,
) -> tuple[Spectral, Tensor]:  # fmt: skip
    """Fluxes by finite volumes, where they follow fronts better than Fourier modes do."""
    before = family.nonlinearity
    places, fronts = evidence.front_pairs(environments[-MOST_FRONTS:], seed=3)
    conserves = isinstance(before, Products) and any(
        axis is not None for axis in conservative(before.terms)
    )
    if not conserves or not places:
        return family, parameters
    assert isinstance(before, Products)
    some = parameters[-MOST_FRONTS:][places]
    sharp = replace(family, nonlinearity=_following_fronts(before), filter_rate=0.0)
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
    return _refined(sharp, parameters, train, evidence)


def _following_fronts(products: Products) -> Fronts:
    return Fronts(**{f.name: getattr(products, f.name) for f in fields(products)})


def _pooled(
    family: Spectral, parameters: Tensor, labels: Tensor, pairs: Sequence[Pairs],
    evidence: Evidence,
) -> Tensor:  # fmt: skip
    """Weights proportional to the coefficient, in environments that they forecast better.

    Fronts may leave an environment too few frames for weights of its own.
    """
    if len(labels) < 3:
        return parameters
    shape = (parameters / labels[:, None]).median(0).values
    common = labels[:, None] * shape
    own, other = (errors(family, p, pairs, evidence.grid) for p in (parameters, common))
    return torch.where((other < own)[:, None], common, parameters)


def join(learned: Sequence[Learned], evidence: Evidence) -> tuple[OperatorFamily, Tensor]:
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
            family = replace(family, nonlinearity=_following_fronts(own), filter_rate=0.0)
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
    assert isinstance(one.family.linear, Derivatives)
    names = {"derivatives": one.family.linear.terms}
    if isinstance(one.family.nonlinearity, Products):
        names["products"] = one.family.nonlinearity.terms
    held = unpack(one.parameters, one.family.shapes())
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
