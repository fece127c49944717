"""A weighted sum of named products of filtered channels."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, NamedTuple, Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, fit_modes, lower_modes, spectrum_of
from opsplit.grid import Grid
from opsplit.operators.flops import fft_flops
from opsplit.operators.spectral.filters import (
    added_to,
    check_filter,
    filter_symbol,
    isotropic_filter,
    order_of,
    power_below,
)
from opsplit.operators.spectral.nonlinearity import (
    Dealias,
    Nonlinearity,
    OutputScale,
    Tensors,
    nonzero_rows,
)
from opsplit.settings import NUMBER, AtMost

FACTOR = re.compile(r"(\d{1,2})(?::([a-z0-9.]{0,20}))?")


class Term(NamedTuple):
    """One product: its factors `(channel, filter)` and the filter of the whole."""

    factors: tuple[tuple[int, str], ...]
    outer: str

    @property
    def degree(self) -> int:
        """Powers of the field; those of a denominator count as negative."""
        return sum(-power_below(name) or 1 for _, name in self.factors)

    @property
    def pointwise(self) -> bool:
        """Whether it is a reaction: nothing but values at the same point."""
        filtered = [name for _, name in self.factors if name and added_to(name) is None]
        return not self.outer and not filtered

    @property
    def plain(self) -> bool:
        """Whether a factor, or a denominator, is a channel itself and no derivative of it."""
        return any(not name or added_to(name) is not None for _, name in self.factors)

    @property
    def order(self) -> float:
        return order_of(self.outer) + sum(order_of(name) for _, name in self.factors)


class Factor(NamedTuple):
    """A filtered channel, with or without the modes that dealiasing takes."""

    channel: int
    name: str
    masked: bool


@cache
def parse(text: str) -> Term:
    """`"0*0:x"` is `u_0 d_x u_0`; `"0*0@x"` is `d_x (u_0 u_0)`; `"1"` is the channel 1 itself.

    `"@"` is the constant one, `"0*1:over3000"` is `u_0 / (u_1 + 0.3)`, `"0:oversq3000"` is
    `1 / (u_0^2 + 0.3)`.
    """
    inner, _, outer = text.partition("@")
    factors = []
    for word in inner.split("*") if inner else []:
        found = FACTOR.fullmatch(word)
        if found is None:
            raise OpsplitError(f"Unknown factor {word!r:.40} in the term {text!r:.60}.")
        factors.append((int(found[1]), found[2] or ""))
    if len(factors) > 8:
        raise OpsplitError(f"The term {text!r:.60} has more than 8 factors.")
    return Term(tuple(factors), outer)


@dataclass(frozen=True)
class Products(Nonlinearity):
    """`sum_j w_j T_j(u)` with one weight per channel and term.

    The weights enter linearly, so that they can be fitted by least squares. Terms with zero weight
    in all operators of a batch cost nothing.

    Arguments:
        terms: products, such as `("0*0@x", "0*0*0")`; see `parse` for the notation.
        dealias: share of the modes of every axis that enter the products; above one, they are
            formed on a grid that much finer (1.5 makes products of two exact).
        alias_reactions: whether reactions, products without derivatives, act point by point on all
            modes instead, as in solvers that do not dealias them.
        centre: mean of every channel, subtracted first (empty: 0).
        output_scale: how fast the weights are learned by gradient.
    """

    kind = "products"

    terms: Annotated[tuple[str, ...], AtMost(1000)] = ("0*0",)
    dealias: Dealias = 2 / 3
    centre: Annotated[tuple[float, ...], NUMBER, AtMost(64)] = ()
    alias_reactions: bool = False
    output_scale: OutputScale = 0.1

    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        for text in self.terms:
            term = parse(text)
            check_filter(term.outer, ndim)
            for channel, name in term.factors:
                check_filter(name, ndim, factor=True)
                if channel >= channels:
                    raise OpsplitError(f"The term {text!r} needs more than {channels} channels.")
        if len(self.centre) not in (0, channels):
            raise OpsplitError(f"Products: centre needs {channels} numbers.")
        return {"products": (channels, len(self.terms))}

    def start(
        self, name: str, shape: tuple[int, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, float]:
        return torch.zeros(shape), torch.full(shape, self.output_scale), 1.0

    def prepare(self, weights: Tensors, grid: Grid, unit: float) -> dict[str, Tensor]:
        held = weights["products"]
        tensors = {"weights": held}
        outer, factors = self._names()
        below = lower_modes(grid, min(1.0, self.dealias), held.device)
        for kind, filters in (("outer", outer), ("factor", [(f.name, f.masked) for f in factors])):
            if filters:
                bank = torch.stack(
                    [
                        filter_symbol(name, grid, unit, held) * (below if masked else 1.0)
                        for name, masked in filters
                    ]
                )
                tensors[kind] = bank.expand(len(held), *bank.shape)
        return tensors

    def _names(self) -> tuple[list[tuple[str, bool]], list[Factor]]:
        """Distinct filters of whole products, and distinct factors."""
        return _distinct(self.terms, self.dealias < 1, self.alias_reactions)

    def products(self, tensors: Tensors, spectrum: Tensor, grid: Grid) -> Tensor:
        return self.bound(tensors, grid)(spectrum)

    def bound(self, tensors: Tensors, grid: Grid) -> Callable[[Tensor], Tensor]:
        weights = tensors["weights"]
        used = list(range(len(self.terms)))
        if not weights.requires_grad:
            used = weights.ne(0).any(0).any(0).nonzero()[:, 0].tolist()
        values = self._values(tensors, grid, used)
        outer, _ = self._names()
        fine, sums = self._fine(grid), []
        for place, (name, masked) in enumerate(outer):
            mine = [
                i
                for i, j in enumerate(used)
                if (term := parse(self.terms[j])).outer == name and self._masks(term) == masked
            ]
            if mine:
                chosen = weights[:, :, [used[i] for i in mine]]
                plain = not name and not masked
                after = None if plain else tensors["outer"][:, None, None, place]
                sums.append((mine if len(mine) < len(used) else None, chosen, after))

        def made(spectrum: Tensor) -> Tensor:
            if not sums:
                return torch.zeros_like(spectrum)
            found, total = values(spectrum), None
            for mine, chosen, after in sums:
                some = _weighted(chosen, found if mine is None else found[:, :, mine])
                modes = fit_modes(spectrum_of(some, grid.ndim), fine, grid.shape)
                modes = modes if after is None else modes * after
                total = modes if total is None else total + modes
            assert total is not None
            return total

        return made

    def evaluate(self, tensors: Tensors, spectrum: Tensor, grid: Grid, used: list[int]) -> Tensor:
        """Products `(E, K, term, *points)` of some terms, before the outer filters act."""
        return self._values(tensors, grid, used)(spectrum)

    def _values(self, tensors: Tensors, grid: Grid, used: list[int]) -> Callable[[Tensor], Tensor]:
        """The same, for many calls."""
        _, factors = self._names()
        each = [[factors.index(f) for f in self._factors(parse(self.terms[j]))] for j in used]
        needed = sorted({i for own in each for i in own})
        at = [[needed.index(i) for i in own] for own in each]
        fine = self._fine(grid)
        channels = [factors[i].channel for i in needed]
        bank = tensors["factor"][:, None, needed] if needed else None
        plain = [self.centre[factors[i].channel] * (not factors[i].name) for i in needed
                 ] if self.centre else []  # fmt: skip
        centre = None
        if any(plain):
            like = tensors["weights"]
            centre = like.new_tensor(plain).reshape(-1, *[1] * grid.ndim)
        below = [(added_to(factors[i].name), power_below(factors[i].name)) for i in needed]

        def made(spectrum: Tensor) -> Tensor:
            x = None
            if bank is not None:
                # Of a single channel every factor is a filtered copy.
                own = spectrum if spectrum.shape[2] == 1 else spectrum[:, :, channels]
                x = field_of(fit_modes(own * bank, grid.shape, fine), fine)
                x = x if centre is None else x - centre
            fields = [] if x is None else [
                field if a is None else 1 / (field**power + a)
                for field, (a, power) in zip(x.unbind(2), below, strict=True)
            ]  # fmt: skip
            values = []
            for own_factors in at:
                if not own_factors:
                    values.append(spectrum.real.new_ones(*spectrum.shape[:2], *fine))
                    continue
                value = fields[own_factors[0]]
                for place in own_factors[1:]:
                    value = value * fields[place]
                values.append(value)
            return values[0].unsqueeze(2) if len(values) == 1 else torch.stack(values, 2)

        return made

    def local(self, tensors: Tensors) -> Tensor | None:
        weights = tensors["weights"]
        if weights.requires_grad or self.dealias > 1:
            return None
        terms = [parse(text) for text in self.terms]
        spread = [self._masks(t) or bool(t.outer) or any(n for _, n in t.factors) for t in terms]
        return ~weights[:, :, spread].ne(0).flatten(1).any(1)

    def react(self, tensors: Tensors, u: Tensor) -> Tensor:
        return self.reaction(tensors)(u)

    def reaction(self, tensors: Tensors) -> Callable[[Tensor], Tensor]:
        weights = tensors["weights"]
        used = weights.ne(0).any(0).any(0).nonzero()[:, 0].tolist()
        terms = [([c for c, _ in parse(self.terms[j]).factors], weights[:, :, j]) for j in used]

        def made(u: Tensor) -> Tensor:
            space = [1] * (u.ndim - 3)
            centred = u
            if self.centre:
                centred = u - u.new_tensor(self.centre).reshape(-1, *space)
            total = torch.zeros_like(u)
            for channels, own in terms:
                weight = own.reshape(len(own), 1, -1, *space)
                factors = [centred[:, :, c : c + 1] for c in channels]
                if factors:
                    total.addcmul_(weight, math.prod(factors[1:], start=factors[0]))
                else:
                    total += weight
            return total

        return made

    def _masks(self, term: Term) -> bool:
        return self.dealias < 1 and not (self.alias_reactions and term.pointwise)

    def _factors(self, term: Term) -> list[Factor]:
        return [Factor(c, name, self._masks(term)) for c, name in term.factors]

    def _fine(self, grid: Grid) -> tuple[int, ...]:
        if self.dealias <= 1:
            return grid.shape
        return tuple(2 * -(-int(n * self.dealias) // 2) for n in grid.shape)

    def active(self, tensors: Tensors) -> Tensor | None:
        return nonzero_rows(tensors["weights"])

    def pruned(self, weights: Tensors, threshold: float) -> tuple[Self, dict[str, Tensor]]:
        held = weights["products"]
        return self, {"products": held * (held.abs() >= threshold)}

    def directed(self, weights: Tensors, ndim: int) -> Tensor:
        held = weights["products"].ne(0).any(1)
        turned = [isotropic_product(text, ndim, ndim + 1) is None for text in self.terms]
        return (held & torch.tensor(turned, dtype=torch.bool, device=held.device)).any(1)

    def isotropic(
        self, weights: Tensors, ndim: int, wanted: int
    ) -> tuple[Nonlinearity | None, dict[str, Tensor]]:
        held = weights["products"]
        used = held.ne(0).any(0).any(0).tolist()
        terms: dict[str, Tensor] = {}
        for i, text in enumerate(self.terms):
            found = isotropic_product(text, ndim, wanted) if used[i] else ()
            if found is None:
                raise OpsplitError(f"The product {text!r} has a direction: no {wanted}-D form.")
            for new in found:
                terms[new] = terms.get(new, torch.zeros_like(held[..., 0])) + held[..., i]
        if not terms:
            return None, {}
        kept = torch.stack(list(terms.values()), -1)
        return replace(self, terms=tuple(terms)), {"products": kept}

    def fields(self, channels: int, ndim: int) -> int:
        _, factors = self._names()
        return len(factors) + len(self.terms)

    def flops(self, channels: int, ndim: int, grid: Grid) -> int:
        outer, factors = self._names()
        fine = self._fine(grid)
        transforms = fft_flops(fine, len(factors) + channels * len(outer))
        return transforms + self.pointwise(channels, ndim) * math.prod(fine)

    def pointwise(self, channels: int, ndim: int) -> int:
        return sum(len(parse(t).factors) + 2 * channels for t in self.terms)


def _weighted(weights: Tensor, values: Tensor) -> Tensor:
    """Sums `(E, K, channel, *points)` of products `(E, K, term, *points)` with weights
    `(E, channel, term)`."""
    if weights.shape[2] == 1:
        return weights.reshape(len(weights), 1, -1, *[1] * (values.ndim - 3)) * values
    return torch.einsum("ecp,ekp...->ekc...", weights, values)


@cache
def _distinct(
    terms: tuple[str, ...], dealiased: bool, alias_reactions: bool
) -> tuple[list[tuple[str, bool]], list[Factor]]:
    outer: dict[tuple[str, bool], None] = {}
    factors: dict[Factor, None] = {}
    for term in map(parse, terms):
        masked = dealiased and not (alias_reactions and term.pointwise)
        outer[term.outer, masked] = None
        factors |= {Factor(c, name, masked): None for c, name in term.factors}
    return list(outer), list(factors)


def isotropic_product(text: str, ndim: int, wanted: int) -> tuple[str, ...] | None:
    """The product of `ndim` axes as a sum of products of `wanted`; None if it has a direction.

    `u^3` means the same in every dimension. The squared slope on a line, `"0:x*0:x"`, is the
    squared gradient: the sum over the axes.
    """
    term = parse(text)
    names = (*(name for _, name in term.factors), term.outer)
    kept = [isotropic_filter(name, ndim) for name in names]
    if None not in kept:
        return (_write(term, [name or "" for name in kept]),)
    single = [i for i, name in enumerate(names) if "x" in name.split(".")]
    turned = [i for i, name in enumerate(kept) if name is None]
    if ndim > 1 or len(single) != 2 or turned != single:
        return None
    out = []
    for axis in "xyz"[:wanted]:
        own = [
            ".".join(axis if part == "x" else part for part in name.split("."))
            if i in single else kept[i] or ""
            for i, name in enumerate(names)
        ]  # fmt: skip
        out.append(_write(term, own))
    return tuple(out)


def _write(term: Term, names: list[str]) -> str:
    """The product with other filters, in the notation that `parse` reads."""
    channels = [c for c, _ in term.factors]
    inner = "*".join(f"{c}:{n}" if n else f"{c}" for c, n in zip(channels, names, strict=False))
    return f"{inner}@{names[-1]}" if names[-1] or not inner else inner
