"""Copies of operators that act in the opposite direction, where a sign means something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from opsplit.dictionary.dictionary import OperatorDictionary
from opsplit.dictionary.part import Part
from opsplit.grid import Grid
from opsplit.operators import Mirrored, Negated, OperatorFamily
from opsplit.terms import Term

OPPOSITE = 0.3
"""A copy acts in the opposite direction if it misses the negative rate by at most this share."""
Names = tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """A way to turn an operator round, and the coefficients that change their sign."""

    family: OperatorFamily
    flipped: Names
    word: str


def oriented(dictionary: OperatorDictionary, grid: Grid, frame: Tensor) -> OperatorDictionary:
    """The dictionary, and copies of its operators whose coefficients have the opposite sign.

    Operators of one mechanism are turned round alike: mirrored along an axis, or negated. The
    first of these that changes a sign counts: on `frame` it must give the negative rate, or, for
    an operator of several terms in one dimension, an order or a degree says so. Operators that no
    turn changes, such as diffusion, have no copy.

    Arguments:
        grid: the space.
        frame: an observed field `(channel, *space)`, in the units of the operators.
    """
    found, offset = dictionary, 0
    for part in dictionary.parts:
        mine = np.arange(offset, offset + len(part))
        for names, members in _mechanisms(dictionary, mine).items():
            turn = _turn(dictionary, part, members - offset, names, grid, frame)
            if turn is not None:
                found = found.merge(_copies(dictionary, part, members, offset, turn))
        offset += len(part)
    return found


def _mechanisms(dictionary: OperatorDictionary, among: np.ndarray) -> dict[Names, np.ndarray]:
    """Operators by the names of their coefficients that are not zero."""
    held: dict[Names, list[int]] = {}
    for i in among.tolist():
        names = tuple(k for k, v in dictionary.coefficients.items() if v[i] != 0)
        if names:
            held.setdefault(names, []).append(i)
    return {names: np.asarray(members) for names, members in held.items()}


def _turn(
    dictionary: OperatorDictionary,
    part: Part,
    places: np.ndarray,
    names: Names,
    grid: Grid,
    frame: Tensor,
) -> Turn | None:
    terms = [dictionary.terms.get(name) for name in names]
    if len(names) == 1 and terms[0] is not None and not terms[0].signed:
        return None
    for family, word in _families(part.family, grid):
        if len(names) > 1:
            flipped = _flipped(family, names, terms)
            if flipped:
                return Turn(family, flipped, word)
        elif _opposite(family, part, places, grid, frame):
            return Turn(family, names, word)
    return None


def _families(inner: OperatorFamily, grid: Grid) -> Iterator[tuple[OperatorFamily, str]]:
    for axis, word in enumerate(grid.boundary):
        if word == "periodic":
            yield Mirrored(inner, axis), f"mirrored along {'xyz'[axis]}"
    yield Negated(inner), "negated"


def _flipped(family: OperatorFamily, names: Names, terms: list[Term | None]) -> Names:
    """Coefficients of several terms that change their sign; none if that is not known."""
    flipped = []
    for name, term in zip(names, terms, strict=True):
        mirrored = isinstance(family, Mirrored)
        power = None if term is None else term.order if mirrored else term.degree
        if term is None or power is None or (mirrored and family.ndim > 1):
            return ()
        if power % 2 == (1 if mirrored else 0):
            if not term.signed:
                return ()
            flipped.append(name)
    return tuple(flipped)


@torch.no_grad()
def _opposite(
    family: OperatorFamily, part: Part, places: np.ndarray, grid: Grid, frame: Tensor
) -> bool:
    """Whether a copy gives the negative rate: measured with the middle operator of them all."""
    one = torch.as_tensor(places[[len(places) // 2]])
    parameters = replace(part, codes=part.codes[one]).parameters().to(frame)
    u = frame[None, None] / part.scale
    rate, other = (f.rate(f.prepare(parameters, grid), u) for f in (part.family, family))
    return bool((rate + other).norm() <= OPPOSITE * rate.norm()) and bool(rate.norm() > 0)


def _copies(
    dictionary: OperatorDictionary, part: Part, members: np.ndarray, offset: int, turn: Turn
) -> OperatorDictionary:
    codes = part.codes[torch.as_tensor(members - offset)]
    return OperatorDictionary(
        (Part(turn.family, codes, part.decoder, part.scale),),
        {k: (-v if k in turn.flipped else v)[members] for k, v in dictionary.coefficients.items()},
        tuple(f"{dictionary.provenance[i]}, {turn.word}" for i in members),
        dictionary.terms,
        dictionary.max_strengths[members],
    )
