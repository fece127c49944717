"""Candidate terms of an unknown equation, from simple structures to rich ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, product

MOST_TERMS = 400
"""A library with more terms than this is left out."""


@dataclass(frozen=True)
class Atom:
    """One candidate: a derivative of the channel itself, or a product."""

    text: str
    """A filter for a linear term, a product in the notation of `Products` otherwise."""
    linear: bool


@dataclass(frozen=True)
class Library:
    """A structure that may explain a mechanism: its candidate terms."""

    name: str
    atoms: tuple[Atom, ...]


def libraries(channels: int, ndim: int) -> list[Library]:
    """Structures in the order in which they are preferred: each holds the ones before it."""
    axes = "xyz"[:ndim]
    held: list[Atom] = []
    out: list[Library] = []
    for name, atoms in (
        ("linear", _linear(channels, axes)),
        ("polynomial of degree 2", _polynomial(channels, 2)),
        ("polynomial of degree 3", _polynomial(channels, 3)),
        ("conservative polynomial", _conservative(channels, axes)),
        ("products with derivatives", _slopes(channels, axes)),
        ("products with potentials", _potentials(channels, axes)),
    ):
        held += [atom for atom in atoms if atom not in held]
        if len(held) <= MOST_TERMS and (not out or len(held) > len(out[-1].atoms)):
            out.append(Library(name, tuple(held)))
    return out


def _linear(channels: int, axes: str) -> Iterator[Atom]:
    for name in ("", "lap", *axes, "lap2", *(f"{a}.lap" for a in axes), "lap3"):
        yield Atom(name, linear=True)
    if len(axes) > 1:
        for first, second in combinations_with_replacement(axes, 2):
            yield Atom(first + second, linear=True)
    for channel in range(channels if channels > 1 else 0):
        for name in ("", "lap", *axes):
            yield Atom(f"{channel}:{name}" if name else f"{channel}", linear=False)


def _polynomial(channels: int, degree: int) -> Iterator[Atom]:
    yield Atom("@", linear=False)
    for chosen in combinations_with_replacement(range(channels), degree):
        yield Atom("*".join(map(str, chosen)), linear=False)


def _conservative(channels: int, axes: str) -> Iterator[Atom]:
    for degree in (2, 3):
        for chosen in combinations_with_replacement(range(channels), degree):
            for outer in (*axes, "lap"):
                yield Atom("*".join(map(str, chosen)) + "@" + outer, linear=False)


def _slopes(channels: int, axes: str) -> Iterator[Atom]:
    slopes = [f"{c}:{a}" for c in range(channels) for a in axes]
    for first, second in combinations_with_replacement(slopes, 2):
        yield Atom(f"{first}*{second}", linear=False)
    if channels > 1:
        # Of one channel, u u_x is half of (u^2)_x.
        for channel, slope in product(range(channels), slopes):
            yield Atom(f"{channel}*{slope}", linear=False)


def _potentials(channels: int, axes: str) -> Iterator[Atom]:
    if len(axes) < 2:
        return
    for first, second in product(range(channels), repeat=2):
        for a, b in product(axes, repeat=2):
            yield Atom(f"{first}:p{a}*{second}:{b}", linear=False)
