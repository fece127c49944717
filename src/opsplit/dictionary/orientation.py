"""Copies of operators that act in the opposite direction, where a sign means something."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
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
    """A way to turn operators round, and the coefficients that change their sign."""

    family: OperatorFamily
    flipped: Names
    word: str


def oriented(dictionary: OperatorDictionary, grid: Grid, frame: Tensor) -> OperatorDictionary:
    """The dictionary, and copies of its operators whose coefficients have the opposite sign.

    The degree of a term says whether negated operators change its sign, the order whether mirrored
    ones do. In several dimensions, and where neither is known, `frame` says it: a copy that gives
    the negative rate there has the opposite sign. Operators that no turn changes, such as
    diffusion, have no copy.

    Arguments:
        grid: the space.
        frame: an observed field `(channel, *space)`, in the units of the operators.
    """
    told = grid.ndim == 1 and all(
        (t := dictionary.terms.get(name)) and t.order is not None and t.degree is not None
        for name in dictionary.coefficients
    )
    # What the terms say is the same for all frames.
    known: dict[Hashable, OperatorDictionary] = dictionary.__dict__.setdefault("_sides", {})
    if told and grid.boundary in known:
        return known[grid.boundary]
    turns: list[tuple[int, Names, Turn]] = []
    offset = 0
    for number, part in enumerate(dictionary.parts):
        for names, members in _within(dictionary, offset, len(part)):
            # A mechanism with operators of either sign needs no copies.
            if len(names) == 1 and _both_signs(dictionary.coefficients[names[0]]):
                continue
            once: dict[Names, Turn] = {}
            one = replace(part, codes=part.codes[[members[len(members) // 2] - offset]])
            for turn in _turns(one, names, dictionary.terms, grid, frame):
                once.setdefault(turn.flipped, turn)
            turns += [(number, names, turn) for turn in once.values()]
        offset += len(part)
    found = _with_copies(dictionary, tuple(turns))
    if told:
        known[grid.boundary] = found
    return found


def _with_copies(
    dictionary: OperatorDictionary, turns: tuple[tuple[int, Names, Turn], ...]
) -> OperatorDictionary:
    """The dictionary and its copies; made once for all windows that ask for the same ones."""
    made = dictionary.__dict__.setdefault("_turned", {})
    if turns not in made:
        found = dictionary
        for number, names, turn in turns:
            part = dictionary.parts[number]
            offset = sum(len(before) for before in dictionary.parts[:number])
            members = dict(_within(dictionary, offset, len(part)))[names]
            found = found.merge(_copies(dictionary, part, members, offset, turn))
        made[turns] = found
    held: OperatorDictionary = made[turns]
    return held


def _within(
    dictionary: OperatorDictionary, offset: int, count: int
) -> Iterator[tuple[Names, np.ndarray]]:
    """The mechanisms of one part: names, and positions of its operators."""
    for names, members in dictionary.mechanisms.items():
        mine = members[(members >= offset) & (members < offset + count)]
        if names and len(mine):
            yield names, mine


def _both_signs(values: np.ndarray) -> bool:
    return bool((values > 0).any() and (values < 0).any())


def _turns(
    one: Part, names: Names, terms: Mapping[str, Term], grid: Grid, frame: Tensor
) -> Iterator[Turn]:
    """The turns of a mechanism that change signs, by one operator of it."""
    known = {name: terms.get(name) or Term(name, signed=True) for name in names}
    signed = known[names[0]].signed
    negated, mirrored = Negated(one.family), _mirrored(one, grid, frame)
    even = _flipped(names, [None if t.degree is None else t.degree + 1 for t in known.values()])
    orders = [t.order for t in known.values()] if grid.ndim == 1 else [None]
    odd = _flipped(names, orders)
    if even is None and len(names) == 1:
        even = names if signed and _opposite(negated, one, grid, frame) else ()
    if odd is None and mirrored and len(names) == 1:
        odd = names if signed and _opposite(mirrored, one, grid, frame) else ()
    if even:
        yield Turn(negated, even, "negated")
    if odd and mirrored:
        yield Turn(mirrored, odd, f"mirrored along {'xyz'[mirrored.axis]}")
    both = tuple(name for name in names if (name in (even or ())) != (name in (odd or ())))
    if even and odd and mirrored and both:
        yield Turn(Negated(mirrored), both, "mirrored and negated")


def _mirrored(one: Part, grid: Grid, frame: Tensor) -> Mirrored | None:
    """The operator mirrored along the axis that changes it most."""
    axes = [axis for axis, word in enumerate(grid.boundary) if word == "periodic"]
    made = [Mirrored(one.family, axis) for axis in axes]
    if len(made) < 2:
        return made[0] if made else None
    return min(made, key=lambda family: _misses(family, one, grid, frame))


def _flipped(names: Names, powers: Sequence[int | None]) -> Names | None:
    """Names of the terms with an odd power; None if one is unknown.

    Whether training saw either sign does not matter: data of the other convention have the other.
    """
    if any(power is None for power in powers):
        return None
    return tuple(name for name, power in zip(names, powers, strict=True) if power and power % 2)


def _opposite(family: OperatorFamily, one: Part, grid: Grid, frame: Tensor) -> bool:
    return _misses(family, one, grid, frame) <= OPPOSITE


@torch.no_grad()
def _misses(family: OperatorFamily, one: Part, grid: Grid, frame: Tensor) -> float:
    """How far a copy is from the negative rate, as a share of the rate."""
    parameters, u = one.parameters().to(frame), frame[None, None] / one.scale
    rate, other = (f.rate(f.prepare(parameters, grid), u) for f in (one.family, family))
    size = float(rate.norm())
    return float((rate + other).norm()) / size if size > 0 else math.inf


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
