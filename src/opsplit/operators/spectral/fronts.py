"""Products whose fluxes follow fronts: finite volumes instead of Fourier modes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import torch
from torch import Tensor

from opsplit.fourier import field_of, spectrum_of
from opsplit.grid import Grid
from opsplit.operators.spectral.nonlinearity import Tensors
from opsplit.operators.spectral.products import Products, parse
from opsplit.weno import face_values

AXES = "xyz"


@dataclass(frozen=True)
class Fronts(Products):
    """The same sums of products, for fields with fronts that the modes of a grid cannot hold.

    Terms `d_x (u v ...)` are differences of fluxes between cells: values at the faces by WENO of
    fifth order (Jiang and Shu, 1996), fluxes by Godunov's solver for one channel and by Rusanov's
    for several. All other terms are those of `Products`.
    """

    kind = "fronts"
    takes_fronts = True

    def prepare(self, weights: Tensors, grid: Grid, unit: float) -> dict[str, Tensor]:
        tensors = super().prepare(weights, grid, unit)
        cells = weights["products"].new_tensor([1 / (h * unit) for h in grid.spacing])
        return tensors | {"per_cell": cells.expand(len(weights["products"]), -1)}

    def bound(self, tensors: Tensors, grid: Grid) -> Callable[[Tensor], Tensor]:
        weights = tensors["weights"]
        fluxes = conservative(self.terms)
        others = weights.clone()
        others[:, :, [j for j, axis in enumerate(fluxes) if axis is not None]] = 0
        smooth = None
        if bool(others.ne(0).any()):
            smooth = super().bound({**tensors, "weights": others}, grid)
        channels = weights.shape[1]
        sharp = []
        for axis in range(grid.ndim):
            mine = [j for j, a in enumerate(fluxes) if a == axis]
            if mine and bool(weights[:, :, mine].ne(0).any()):
                powers = exponents(tuple(self.terms[j] for j in mine), channels)
                per_cell = tensors["per_cell"][:, axis].reshape(-1, *[1] * (2 + grid.ndim))
                sharp.append((axis - grid.ndim, Flux(weights[:, :, mine], powers), per_cell))

        def made(spectrum: Tensor) -> Tensor:
            total = torch.zeros_like(spectrum) if smooth is None else smooth(spectrum)
            if not sharp:
                return total
            u = field_of(spectrum, grid.shape)
            if self.centre:
                u = u - u.new_tensor(self.centre).reshape(-1, *[1] * grid.ndim)
            rate = torch.zeros_like(u)
            for place, flux, per_cell in sharp:
                # Faces along the last axis.
                moved = flux.difference(u.movedim(place, -1)).movedim(-1, place)
                rate = rate + moved * per_cell
            return total + spectrum_of(rate, grid.ndim)

        return made

    def pointwise(self, channels: int, ndim: int) -> int:
        # Two reconstructions of about sixty operations per channel and axis.
        return super().pointwise(channels, ndim) + 140 * channels * ndim


@dataclass(frozen=True)
class Flux:
    """`g_c(u) = sum_j w_cj prod_d u_d^n_jd`, transported as `u_t = d_x g(u)`."""

    weights: Tensor
    """`(E, channel, term)`"""
    powers: tuple[tuple[int, ...], ...]
    """Exponent of every channel in every term."""

    def difference(self, u: Tensor) -> Tensor:
        """`g` at the right face of every cell minus `g` at its left face, along the last axis."""
        space = tuple(range(3, u.ndim))
        size = u.var(space, keepdim=True, correction=0).sqrt() + torch.finfo(u.dtype).tiny
        left, right = (size * side for side in face_values(u / size))
        flux = self._godunov(left, right) if u.shape[2] == 1 else self._rusanov(left, right)
        return flux - flux.roll(1, -1)

    def value(self, u: Tensor) -> Tensor:
        return self._sum(self.weights, torch.stack([_monomial(u, p) for p in self.powers], 2))

    def _sum(self, weights: Tensor, values: Tensor) -> Tensor:
        return torch.einsum("ecj,ekj...->ekc...", weights, values)

    def _godunov(self, left: Tensor, right: Tensor) -> Tensor:
        """The largest flux between the states of a face, or the smallest where they fall."""
        low, high = torch.minimum(left, right), torch.maximum(left, right)
        among = [left, right, *(torch.clamp(x, low, high) for x in self._turns(left))]
        values = self.value(torch.cat(among, 1)).unflatten(1, (len(among), -1))
        return torch.where(left <= right, values.amax(1), values.amin(1))

    def _turns(self, like: Tensor) -> list[Tensor]:
        """Where the flux of one channel has its extrema: zero, and one more for two terms."""
        order = sorted(range(len(self.powers)), key=lambda j: self.powers[j][0])
        turns = [torch.zeros_like(like)]
        for first, second in pairwise(order):
            (n,), (m,) = self.powers[first], self.powers[second]
            low, high = (self.weights[:, :1, j, None] for j in (first, second))
            if m - n == 1:
                turn = -n * low / torch.where(high == 0, torch.ones_like(high), m * high)
                turn = turn.reshape(-1, *[1] * (like.ndim - 1))
                turns.append(turn.expand_as(like))
        return turns

    def _rusanov(self, left: Tensor, right: Tensor) -> Tensor:
        """The mean of both sides and as much dissipation as the fastest wave needs."""
        speed = torch.maximum(self._speed(left), self._speed(right))
        mean = (self.value(left) + self.value(right)) / 2
        return mean + speed / 2 * (right - left)

    def _speed(self, u: Tensor) -> Tensor:
        """A bound of the wave speeds: the largest row sum of the Jacobian."""
        rows = torch.zeros_like(u)
        for channel in range(u.shape[2]):
            slopes = torch.stack([_slope(u, p, channel) for p in self.powers], 2)
            rows = rows + self._sum(self.weights, slopes).abs()
        return rows.amax(2, keepdim=True)


def _monomial(u: Tensor, powers: tuple[int, ...]) -> Tensor:
    out = torch.ones_like(u[:, :, 0])
    for channel, power in enumerate(powers):
        for _ in range(power):
            out = out * u[:, :, channel]
    return out


def _slope(u: Tensor, powers: tuple[int, ...], channel: int) -> Tensor:
    power = powers[channel]
    if not power:
        return torch.zeros_like(u[:, :, 0])
    less = tuple(p - (c == channel) for c, p in enumerate(powers))
    return power * _monomial(u, less)


@cache
def conservative(terms: tuple[str, ...]) -> list[int | None]:
    """The axis of every term that is a slope of a plain product (None: it is none)."""
    out: list[int | None] = []
    for term in map(parse, terms):
        plain = len(term.factors) > 1 and not any(name for _, name in term.factors)
        directed = len(term.outer) == 1 and term.outer in AXES
        out.append(AXES.index(term.outer) if plain and directed else None)
    return out


@cache
def exponents(terms: tuple[str, ...], channels: int) -> tuple[tuple[int, ...], ...]:
    """How often every channel occurs in every term."""
    found = [[c for c, _ in parse(text).factors] for text in terms]
    return tuple(tuple(each.count(c) for c in range(channels)) for each in found)
