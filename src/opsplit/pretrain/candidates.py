"""Structures that may be a mechanism, from simple to rich, with weights by least squares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from opsplit.operators import Spectral
from opsplit.pretrain.evidence import Evidence
from opsplit.pretrain.fitting import make_family
from opsplit.pretrain.library import (
    MOST_TERMS,
    Atom,
    Library,
    atoms_of,
    inverses,
    neighbourhoods,
    saturated_fluxes,
    saturation,
    stages,
)
from opsplit.pretrain.limit import Limit
from opsplit.pretrain.regression import Choice, Moments, moments, select

ROUNDED = 1e-2
"""Values below zero by this share of the mean are errors of the solver that made the data."""
WORK = 50_000_000
"""Numbers that are formed to choose terms; on fine grids few environments choose for all."""
FEWEST = 3
"""Environments that choose terms, at least."""
NOISY = 1e-5
"""Noise of this share of the field is more than rounding, and wants all environments."""
COARSE, FINE = (1.25, 1.06), (0.025, 0.01, 0.004, 0.0015, 0.0005, 0.0002, 0.0001)
"""Factors, and then shares, by which the number in a denominator or an inverse is changed."""


@dataclass(frozen=True)
class Candidate:
    """Terms of every channel that may be a mechanism, and their least-squares weights."""

    title: str
    terms: tuple[tuple[Atom, ...], ...]
    weights: tuple[Tensor, ...]
    """Per channel `(E, terms)`."""

    @property
    def texts(self) -> tuple[str, ...]:
        """All terms, each once."""
        return tuple(sorted({atom.text for terms in self.terms for atom in terms}))


class Candidates:
    """Structures for one mechanism; rich ones are looked at only when asked for.

    Arguments:
        limit: when to look no further; a later one may take its place.
        settled: whether what is left may be noise, so that structures with a number that must be
            found are not worth their time.
    """

    def __init__(
        self, evidence: Evidence, environments: Sequence[int], limit: Limit,
        settled: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self.evidence, self.environments, self.limit = evidence, list(environments), limit
        self.settled = settled
        self.channels = evidence.fit[0].shape[2]

    def __iter__(self) -> Iterator[Candidate]:
        """From simple to rich, each once."""
        seen: set[tuple[tuple[Atom, ...], ...]] = set()
        known = stages(self.channels, self.evidence.grid.ndim)
        moving = any(bool(self.evidence.fit[i].diff(dim=1).any()) for i in self.environments)
        for stage in known if moving else ():
            if stage[0].group == "fluxes" and not self.settled():
                yield from self._saturated()
            # The first stage is the least that a mechanism needs.
            for one in self._of(stage, self.limit if seen else Limit()):
                if one.terms not in seen:
                    seen.add(one.terms)
                    yield one
        for tuned in (self._saturated_fluxes, self.inverted, self._near) if moving else ():
            if not self.settled():
                yield from tuned()
        if not seen:
            # Where nothing explains anything, the operator that does nothing is all there is.
            atom = known[0][0].atoms[0]
            weights = torch.zeros(len(self.environments), 1, dtype=torch.float64)
            yield Candidate(
                known[0][0].name, ((atom,),) * self.channels, (weights,) * self.channels
            )

    def _of(self, stage: Sequence[Library], limit: Limit) -> Iterator[Candidate]:
        """Structures of one group: terms are chosen in some environments, weights fitted in all."""
        atoms = atoms_of(stage)
        some = self._choosing(atoms)
        fit, unseen = self._moments(some, atoms, limit)
        if fit is None or unseen is None:
            return
        for library in stage:
            allowed = [_allowed(library, atoms, c) for c in range(self.channels)]
            best = [select(fit, unseen, c, allowed[c]).terms for c in range(self.channels)]
            for begun in _beginnings(best, atoms):
                if any(begun):
                    terms = tuple(tuple(atoms[j] for j in chosen) for chosen in begun)
                    weights = tuple(fit.solve(c, chosen) for c, chosen in enumerate(begun))
                    if len(some) < len(self.environments):
                        found = self._weights(terms, limit)
                        if found is None:
                            return
                        weights = found
                    yield Candidate(library.name, terms, weights)

    def _weights(self, terms: Sequence[Sequence[Atom]], limit: Limit) -> tuple[Tensor, ...] | None:
        """Least squares for chosen terms in all environments."""
        used = list(dict.fromkeys(atom for own in terms for atom in own))
        parts = [self.evidence.fit[i] for i in self.environments]
        fit = moments(parts, used, *self.evidence.measures, limit)
        if fit is None:
            return None
        return tuple(fit.solve(c, [used.index(a) for a in own]) for c, own in enumerate(terms))

    def _choosing(self, atoms: Sequence[Atom]) -> list[int]:
        """Environments that choose terms: all of them, or few on fine grids without noise."""
        numbers = len(atoms) * self.evidence.fit[self.environments[0]][0].numel()
        count = max(FEWEST, WORK // numbers)
        noisy = any(float(self.evidence.noise[i].max()) > NOISY for i in self.environments)
        if noisy or count >= len(self.environments):
            return self.environments
        places = torch.linspace(0, len(self.environments) - 1, count).round().long().tolist()
        return [self.environments[i] for i in places]

    def _moments(
        self, environments: Sequence[int], atoms: Sequence[Atom], limit: Limit
    ) -> list[Moments | None]:
        evidence = self.evidence
        return [
            moments([part[i] for i in environments], atoms, *evidence.measures, limit)
            for part in (evidence.fit, evidence.unseen)
        ]

    def _saturated(self) -> Iterator[Candidate]:
        """Reactions with the denominator that explains most."""
        channels, positive = self.channels, self._positive()
        for power in (1, 2):

            def made(added: float, power: int = power) -> Library:
                return saturation(channels, positive, added, power)

            yield from self._tuned(made, self._added(power) if positive else [])

    def _saturated_fluxes(self) -> Iterator[Candidate]:
        """Fluxes with the denominator that explains most."""
        axes, positive = "xyz"[: self.evidence.grid.ndim], self._positive()

        def made(added: float) -> Library:
            return saturated_fluxes(self.channels, axes, positive, added)

        yield from self._tuned(made, self._added(1) if positive else [])

    def _every(self) -> Tensor:
        """All values of every channel."""
        parts = [self.evidence.fit[i].transpose(0, 2).flatten(1) for i in self.environments]
        return torch.cat(parts, 1)

    def _positive(self) -> list[int]:
        """Channels that are never negative, none where a mean is taken off."""
        every = self._every()
        lowest, mean = every.amin(1), every.mean(1)
        some = [c for c in range(self.channels) if float(lowest[c]) > -ROUNDED * float(mean[c])]
        return [] if self.evidence.units.centre else some

    def _added(self, power: int) -> list[float]:
        """What may be added to positive values in a denominator."""
        values = self._every()[self._positive()]
        usual, least = float(values.mean()), float(values.min())
        tried = [usual**power * 2.0**n for n in range(-4 * power, 2 * power + 1)]
        return tried + ([0.0] if least > 0.05 * usual else [])

    def inverted(self, linear: bool = False) -> Iterator[Candidate]:
        """Inverses of differential operators with the length that explains most."""
        axes = "xyz"[: self.evidence.grid.ndim]
        for kind in ("helm", "bihelm"):

            def made(number: float, kind: str = kind) -> Library:
                whole = inverses(self.channels, axes, kind, number)
                kept = tuple(atom for atom in whole.atoms if atom.linear or not linear)
                return replace(whole, atoms=kept)

            yield from self._tuned(made, [2.0**n for n in range(-7, 7)])

    def _near(self) -> Iterator[Candidate]:
        """Reactions and fluxes that feel a neighbourhood of the size that explains most."""
        axes = "xyz"[: self.evidence.grid.ndim]

        def made(number: float) -> Library:
            return neighbourhoods(self.channels, axes, number)

        yield from self._tuned(made, [2.0**n for n in range(-7, 7)])

    def _tuned(
        self, made: Callable[[float], Library], tried: Sequence[float]
    ) -> Iterator[Candidate]:
        """The structure with the number that explains most of the change.

        Arguments:
            made: structures whose terms hold a number, in one order for all numbers.
            tried: numbers to begin with.
        """
        if not tried:
            return
        some = self._choosing(atoms_of([made(x) for x in tried]))
        for ratio in (*COARSE, None):
            found = self._compared([made(x) for x in tried], some)
            if found is None:
                return
            place, chosen = found
            number = tried[place]
            if ratio is not None:
                tried = sorted({number * ratio**n for n in (-2, -1, 0, 1, 2)})
        shapes = tuple(one.terms for one in chosen)
        if not any(shapes):
            return
        while number:
            for share in FINE:
                tried = [number * (1 + share * n) for n in (-2, -1, 0, 1, 2)]
                found = self._compared([made(x) for x in tried], some, shapes)
                if found is None:
                    return
                number = tried[found[0]]
            # Terms that made up for a number that was not exact are not needed any more.
            found = self._compared([made(number)], some)
            if found is None:
                return
            fewer = tuple(one.terms for one in found[1])
            if not any(fewer) or sum(map(len, fewer)) >= sum(map(len, shapes)):
                break
            shapes = fewer
        library = made(number)
        terms = tuple(tuple(library.atoms[j] for j in own) for own in shapes)
        weights = self._weights(terms, self.limit)
        if weights is not None:
            yield Candidate(library.name, terms, weights)

    def _compared(
        self, known: Sequence[Library], environments: Sequence[int],
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> tuple[int, list[Choice]] | None:  # fmt: skip
        """The place of the structure that leaves least, and its terms as places in it.

        Arguments:
            shapes: terms per channel that are given, and not chosen.
        """
        each: list[list[Choice]] = []
        for some in _grouped(known):
            rows = self._each(some, environments, shapes)
            if rows is None:
                return None
            each += rows
        best = min(range(len(each)), key=lambda i: sum(one.left for one in each[i]))
        return best, each[best]

    def _each(
        self, known: Sequence[Library], environments: Sequence[int],
        shapes: Sequence[Sequence[int]] | None,
    ) -> list[list[Choice]] | None:  # fmt: skip
        """The terms of every structure, and what they leave, per channel."""
        if shapes is None:
            atoms = atoms_of(known)
        else:
            used = sorted({j for own in shapes for j in own})
            atoms = tuple(dict.fromkeys(library.atoms[j] for library in known for j in used))
        fit, unseen = self._moments(environments, atoms, self.limit)
        if fit is None or unseen is None:
            return None
        places = {atom: i for i, atom in enumerate(atoms)}
        each = []
        for library in known:
            row = []
            for c in range(self.channels):
                if shapes is None:
                    picked = select(fit, unseen, c, _allowed(library, atoms, c))
                    own = tuple(library.atoms.index(atoms[j]) for j in picked.terms)
                    row.append(Choice(own, picked.left))
                else:
                    index = [places[library.atoms[j]] for j in shapes[c]]
                    left = unseen.left(c, index, fit.solve(c, index))
                    row.append(Choice(tuple(shapes[c]), float(left.clamp_max(1.0).mean())))
            each.append(row)
        return each


def _grouped(known: Sequence[Library]) -> list[list[Library]]:
    """The same structures in groups that do not hold too many terms together."""
    groups: list[list[Library]] = [[]]
    for library in known:
        if groups[-1] and len(atoms_of([*groups[-1], library])) > MOST_TERMS:
            groups.append([])
        groups[-1].append(library)
    return groups


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


def build(candidate: Candidate, evidence: Evidence) -> tuple[Spectral, Tensor]:
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
