"""Candidate terms of an unknown equation, from simple structures to rich ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations, product

from opsplit.operators.spectral.filters import UNIT, added_to

MOST_TERMS = 400
"""A library with more terms than this is left out."""


@dataclass(frozen=True)
class Atom:
    """One candidate: a derivative of the channel itself, or a product."""

    text: str
    """A filter for a linear term, a product in the notation of `Products` otherwise."""
    linear: bool

    def repeats(self, channel: int) -> bool:
        """Whether it is a linear term of this channel, written as a product."""
        own, _, name = self.text.partition(":")
        single = not self.linear and not {"*", "@"} & set(self.text)
        return single and own == f"{channel}" and added_to(name) is None


@dataclass(frozen=True)
class Library:
    """A structure that may explain a mechanism: its candidate terms."""

    name: str
    atoms: tuple[Atom, ...]
    group: str = "linear"
    """Structures of one group are looked at together."""


def libraries(channels: int, ndim: int) -> list[Library]:
    """Structures in the order in which they are preferred.

    Each holds those before it, but for fractional derivatives, which compete by themselves.
    """
    axes = "xyz"[:ndim]
    held = list(_linear(channels, axes))
    out = [Library("linear", tuple(held)), Library("fractional", (*held, *_fractional(axes)))]
    for name, group, atoms in (
        ("polynomial of degree 2", "reactions", _polynomial(channels, 2)),
        ("polynomial of degree 3", "reactions", _polynomial(channels, 3)),
        ("polynomial of high degree", "reactions", _high(channels)),
        ("conservative polynomial", "fluxes", _conservative(channels, axes)),
        ("products with derivatives", "products", _slopes(channels, axes)),
        ("fluxes along curvature", "products", _stresses(channels, axes)),
        ("fluxes of the slope", "products", _steep(channels, axes)),
        ("products with potentials", "products", _potentials(channels, axes)),
        ("products with half potentials", "products", _potentials(channels, axes, ".abs")),
        ("brackets with curvatures", "brackets", _brackets(channels, axes)),
    ):
        before = len(held)
        held += [atom for atom in atoms if atom not in held]
        if before < len(held) <= MOST_TERMS:
            out.append(Library(name, tuple(held), group))
    return out


def stages(channels: int, ndim: int) -> list[list[Library]]:
    """The same structures in groups: terms of a rich group are formed only if simple ones fail."""
    groups: dict[str, list[Library]] = {}
    for library in libraries(channels, ndim):
        groups.setdefault(library.group, []).append(library)
    return list(groups.values())


def atoms_of(known: Sequence[Library]) -> tuple[Atom, ...]:
    """All terms of several structures, each once."""
    return tuple(dict.fromkeys(atom for library in known for atom in library.atoms))


def _fractional(axes: str) -> Iterator[Atom]:
    """Symbols of broken and of negative order, the latter of forces by a potential."""
    for name in ("half", "abs", "abs.half", "lap.half", "abs3"):
        yield Atom(name, linear=True)
    for a in axes:
        yield Atom(f"{a}.abs", linear=True)
        yield Atom(f"p{a}", linear=True)


def _linear(channels: int, axes: str) -> Iterator[Atom]:
    odd = [f"{a}.{power}" for power in ("lap", "lap2") for a in axes]
    for name in ("", "lap", *axes, "lap2", *odd[: len(axes)], "lap3", *odd[len(axes) :]):
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


def _high(channels: int) -> Iterator[Atom]:
    """Smooth reactions that are no polynomial, such as sines, want a few degrees more."""
    for degree in {1: (4, 5, 6, 7), 2: (4, 5)}.get(channels, ()):
        for chosen in combinations_with_replacement(range(channels), degree):
            yield Atom("*".join(map(str, chosen)), linear=False)
    for channel, degree in product(range(channels if channels > 1 else 0), (4, 5, 6, 7)):
        yield Atom("*".join([f"{channel}"] * degree), linear=False)


def saturation(channels: int, positive: Sequence[int], added: float, power: int = 1) -> Library:
    """Reactions with a denominator `v + added`, such as `u v / (0.3 + v)` or `u^2 / v`, or
    `v^2 + added`.

    A numerator of as high a degree in `v` is a polynomial and a fraction with a lower one.
    """
    atoms = [Atom("", linear=True), *(a for c in range(1, 4) for a in _polynomial(channels, c))]
    for below in positive:
        bottom = f"{below}:{'over' if power == 1 else 'oversq'}{round(added / UNIT)}"
        others = [f"{c}*" for c in range(channels) if c != below]
        # The denominator with a square has an odd numerator too.
        odd = [f"{below}*"] if power == 2 else []
        for top in ("", *odd, *others, *(2 * other for other in others)):
            atoms.append(Atom(top + bottom, linear=False))
    return Library("reactions with a denominator", tuple(dict.fromkeys(atoms)), "denominators")


def saturated_fluxes(channels: int, axes: str, positive: Sequence[int], added: float) -> Library:
    """Fluxes along gradients whose factor saturates, such as `(v / (0.3 + v) w_x)_x`.

    Such a factor is one minus a fraction without a numerator.
    """
    atoms = [Atom(name, linear=True) for name in ("", *axes, "lap")]
    atoms += [a for a in _linear(channels, axes) if not a.linear]
    bottoms = [f"{below}:over{round(added / UNIT)}" for below in positive]
    for c, a in product(range(channels), axes):
        atoms += [Atom(f"{below}*{c}:{a}@{a}", linear=False) for below in positive]
        for bottom in bottoms:
            atoms.append(Atom(f"{c}:{a}*{bottom}@{a}", linear=False))
            atoms += [Atom(f"{d}*{c}:{a}*{bottom}@{a}", linear=False) for d in range(channels)]
    for bottom, a in product(bottoms, axes):
        tops = ["", *(f"{d}*" for d in range(channels))]
        atoms += [Atom(f"{top}{bottom}@{a}", linear=False) for top in tops]
    return Library("fluxes with a denominator", tuple(dict.fromkeys(atoms)), "denominators")


def neighbourhoods(channels: int, axes: str, number: float) -> Library:
    """Reactions with, and fluxes towards, the mean of a neighbourhood with weights of a bell."""
    bell = f"bell{max(1, round(number / UNIT))}"
    atoms = [Atom(name, linear=True) for name in ("", "lap", bell)]
    atoms += list(_polynomial(channels, 2))
    for c, d in product(range(channels), repeat=2):
        if c != d:
            atoms += [Atom(f"{d}", linear=False), Atom(f"{d}:{bell}", linear=False)]
        atoms += [Atom(f"{c}*{d}:{bell}", linear=False)]
        atoms += [Atom(f"{c}*{c}*{d}:{bell}", linear=False)]
        atoms += [Atom(f"{c}*{d}:{a}.{bell}@{a}", linear=False) for a in axes]
    return Library("means of a neighbourhood", tuple(dict.fromkeys(atoms)), "inverses")


def inverses(channels: int, axes: str, kind: str, number: float) -> Library:
    """Terms smoothed by the inverse of `1 - c lap` (kind `helm`) or `1 + c lap^2` (`bihelm`).

    Waves of finite depth, pressures, and signals that spread much faster than they act are such.
    """
    filter_ = f"{kind}{max(1, round(number / UNIT))}"
    atoms = [Atom(name, linear=True) for name in ("", *axes, "lap", filter_)]
    atoms += [Atom(f"{a}.{filter_}", linear=True) for a in axes]
    if kind == "bihelm":
        atoms += [Atom(f"lap.{filter_}", linear=True)]
    atoms += [a for a in _linear(channels, axes) if not a.linear]
    for other in range(channels if channels > 1 else 0):
        atoms.append(Atom(f"{other}:{filter_}", linear=False))
    for degree in (2, 3) if channels == 1 else (2,):
        for chosen in combinations_with_replacement(range(channels), degree):
            whole = "*".join(map(str, chosen))
            for outer in ("", *axes, filter_, *(f"{a}.{filter_}" for a in axes)):
                atoms.append(Atom(f"{whole}@{outer}" if outer else whole, linear=False))
    atoms += _brackets(channels, axes, f"@{filter_}")
    for c, d in product(range(channels), repeat=2):
        # A pressure of the slope, and a flux along the gradient of a signal.
        for a in axes:
            if c <= d:
                slopes = "*".join(f"{e}:{b}" for e, b in ((c, a), (d, a)))
                atoms += [Atom(f"{slopes}@{b}.{filter_}", linear=False) for b in axes]
            atoms.append(Atom(f"{c}*{d}:{a}.{filter_}@{a}", linear=False))
    return Library("inverses of differential operators", tuple(dict.fromkeys(atoms)), "inverses")


def _conservative(channels: int, axes: str) -> Iterator[Atom]:
    # Fluxes of one channel that are smooth but no polynomial want high degrees.
    for degree in (2, 3, 4, 5, 6) if channels == 1 else (2, 3):
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
            if not slope.startswith(f"{channel}:"):
                # A flux along the gradient of another channel, as in chemotaxis.
                yield Atom(f"{channel}*{slope}@{slope[-1]}", linear=False)


def _stresses(channels: int, axes: str) -> Iterator[Atom]:
    """Fluxes along the gradient of a curvature, as surface tension makes them in a film."""
    for channel, a in product(range(channels), axes):
        for power in (1, 2, 3) if channels == 1 else (1,):
            yield Atom("*".join([f"{channel}"] * power) + f"*{channel}:{a}.lap@{a}", linear=False)


def _steep(channels: int, axes: str) -> Iterator[Atom]:
    """Fluxes `|grad u|^2 grad u` and `grad |grad u|^2`, as growing surfaces have them."""
    if channels > 1:
        return
    for a, b in product(axes, repeat=2):
        yield Atom(f"0:{a}*0:{b}*0:{b}@{a}" if a <= b else f"0:{b}*0:{b}*0:{a}@{a}", linear=False)
    for a in axes:
        yield Atom(f"0:{a}*0:{a}@lap", linear=False)


def _brackets(channels: int, axes: str, outer: str = "") -> Iterator[Atom]:
    """Parts of `u_x lap v_y - u_y lap v_x`: forces of currents, and waves that drift."""
    for first, second in product(range(channels), repeat=2):
        for a, b in permutations(axes, 2):
            yield Atom(f"{first}:{a}*{second}:{b}.lap{outer}", linear=False)


def _potentials(channels: int, axes: str, half: str = "") -> Iterator[Atom]:
    if len(axes) < 2:
        return
    for first, second in product(range(channels), repeat=2):
        for a, b in product(axes, repeat=2):
            yield Atom(f"{first}:p{a}{half}*{second}:{b}", linear=False)
