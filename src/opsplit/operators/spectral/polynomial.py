"""Polynomials in the field, its derivatives and its inverse Laplacian's gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations_with_replacement
from typing import Annotated, Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import (
    field_of,
    fit_modes,
    lower_modes,
    odd_wavenumbers,
    spectrum_of,
    squared_wavenumber,
)
from opsplit.grid import Grid
from opsplit.operators.family import Examples
from opsplit.operators.flops import fft_flops
from opsplit.operators.spectral.nonlinearity import (
    Dealias,
    Nonlinearity,
    OutputScale,
    Tensors,
    nonzero_rows,
)
from opsplit.settings import NUMBER, SIZE, AtMost, Between

MOST_MONOMIALS = 1000
"""More monomials than this are a mistake."""
NEARLY_SAME = 1e-9
"""Share of the identity added to the Gram matrix of monomials that are nearly the same."""

Numbers = Annotated[tuple[float, ...], NUMBER, AtMost(1000)]
Sizes = Annotated[tuple[float, ...], SIZE, AtMost(1000)]
Matrix = Annotated[tuple[float, ...], NUMBER, AtMost(MOST_MONOMIALS**2)]


@dataclass(frozen=True)
class Polynomial(Nonlinearity):
    """All monomials up to a degree, in every point; only their weights are generated.

    The factors are the channels and, if asked for, derivatives and inverse filters of each. They
    are centred and divided by their usual size; an orthonormalising matrix makes the weights
    independent of each other on the training data.

    Arguments:
        degree: highest degree.
        lower_degrees: whether monomials of lower degree belong to it, down to the constant.
        derivatives: whether first derivatives are factors; a reaction has none.
        inverse: whether filters like `i k / |k|^2` are factors (velocity from vorticity).
        dealias: share of the modes of every axis that enter the products; above one, they are
            formed on a grid that much finer (1.5 makes products of two exact).
        output_scale: how fast the weights are learned.
        centre: usual mean of every channel, subtracted first (empty: 0).
        spread: usual size of every factor, divided by (empty: 1).
        mixing: rows of the matrix that orthonormalises the monomials (empty: the identity).
    """

    kind = "polynomial"

    degree: Annotated[int, Between(1, 8)] = 2
    lower_degrees: bool = True
    derivatives: bool = False
    inverse: bool = False
    dealias: Dealias = 1.0
    output_scale: OutputScale = 0.1
    centre: Numbers = ()
    spread: Sizes = ()
    mixing: Matrix = ()

    def filters(self, ndim: int) -> int:
        """Factors that every channel gives."""
        return 1 + ndim * (self.derivatives + self.inverse)

    def monomials(self, channels: int, ndim: int) -> list[tuple[int, ...]]:
        """The factors in every monomial, lower degrees first."""
        factors = channels * self.filters(ndim)
        lowest = 0 if self.lower_degrees else self.degree
        count = sum(math.comb(factors + d - 1, d) for d in range(lowest, self.degree + 1))
        if count > MOST_MONOMIALS:
            raise OpsplitError(
                f"A polynomial of degree {self.degree} in {factors} factors has {count} monomials, "
                f"more than {MOST_MONOMIALS}; choose a lower degree or fewer factors."
            )
        return _monomials(factors, lowest, self.degree)

    def check_sizes(self, channels: int, ndim: int) -> None:
        """Refuse units that belong to another number of channels or axes."""
        n = len(self.monomials(channels, ndim))
        factors = channels * self.filters(ndim)
        for name, wanted in (("centre", channels), ("spread", factors), ("mixing", n * n)):
            found = len(getattr(self, name))
            if found not in (0, wanted):
                raise OpsplitError(f"Polynomial: {name} needs {wanted} numbers, got {found}.")

    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        self.check_sizes(channels, ndim)
        return {"output": (channels, len(self.monomials(channels, ndim)), 1)}

    def start(
        self, name: str, shape: tuple[int, ...], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, float]:
        return torch.zeros(shape), torch.full(shape, self.output_scale), 1.0

    def prepare(self, weights: Tensors, grid: Grid, unit: float) -> dict[str, Tensor]:
        generated = weights["output"][..., 0]
        bank = self._bank(grid, unit, generated)
        return {
            "bank": bank.expand(len(generated), *bank.shape),
            "weights": self.plain_weights(generated),
        }

    def plain_weights(self, generated: Tensor) -> Tensor:
        """Weights of the monomials themselves, `(E, channel, monomial)`."""
        if not self.mixing:
            return generated
        n = generated.shape[-1]
        return generated @ generated.new_tensor(self.mixing).reshape(n, n)

    def _bank(self, grid: Grid, unit: float, like: Tensor) -> Tensor:
        """Filters `(filter, *modes)`: the identity, derivatives, inverse filters."""
        gradient = 1j * odd_wavenumbers(grid, like.dtype, like.device) / unit
        one = torch.ones_like(gradient[:1])
        filters = [one]
        if self.derivatives:
            filters.append(gradient)
        if self.inverse:
            square = squared_wavenumber(grid, like.dtype, like.device) / unit**2
            filters.append(
                torch.where(square > 0, gradient / torch.where(square > 0, square, 1), 0)
            )
        bank = torch.cat(filters)
        return bank * self._kept(grid, like.device) if self.dealias < 1 else bank

    def _kept(self, grid: Grid, device: torch.device) -> Tensor:
        return lower_modes(grid, self.dealias, device)

    def _fine(self, grid: Grid) -> tuple[int, ...]:
        """The grid that monomials are formed on: a finer one if `dealias` is above one."""
        if self.dealias <= 1:
            return grid.shape
        return tuple(2 * math.ceil(n * self.dealias / 2) for n in grid.shape)

    def factors(self, bank: Tensor, spectrum: Tensor, grid: Grid) -> Tensor:
        """The fields that monomials multiply, `(E, K, factor, *space)`."""
        channels, fine = spectrum.shape[2], self._fine(grid)
        held = (spectrum[:, :, :, None] * bank[:, None, None]).flatten(2, 3)
        x = field_of(fit_modes(held, grid.shape, fine), fine)
        if self.centre:
            # Of all filters only the first, the identity, lets a constant pass.
            mean = x.new_zeros(channels, x.shape[2] // channels)
            mean[:, 0] = x.new_tensor(self.centre)
            x = x - mean.reshape(-1, *[1] * grid.ndim)
        if self.spread:
            x = x / x.new_tensor(self.spread).reshape(-1, *[1] * grid.ndim)
        return x

    def evaluate(self, x: Tensor, channels: int, ndim: int, used: Tensor | None = None) -> Tensor:
        """Monomials of factors `(E, K, factor, *space)`: those at the positions `used`, or all."""
        known = self.monomials(channels, ndim)
        terms = []
        for chosen in known if used is None else [known[i] for i in used.tolist()]:
            factors = [x[:, :, i] for i in chosen]
            terms.append(math.prod(factors[1:], start=factors[0]) if chosen else 0 * x[:, :, 0] + 1)
        return torch.stack(terms, 2)

    def products(self, tensors: Tensors, spectrum: Tensor, grid: Grid) -> Tensor:
        x = self.factors(tensors["bank"], spectrum, grid)
        weights, used = tensors["weights"], None
        if not weights.requires_grad:
            # Weights that are zero in all operators of a pruned dictionary cost nothing.
            used = weights.ne(0).any(0).any(0).nonzero()[:, 0]
            weights = weights[..., used]
        terms = self.evaluate(x, spectrum.shape[2], grid.ndim, used)
        made = spectrum_of(torch.einsum("ecp,ekp...->ekc...", weights, terms), grid.ndim)
        made = fit_modes(made, self._fine(grid), grid.shape)
        return made * self._kept(grid, made.device) if self.dealias < 1 else made

    def pruned(self, weights: Tensors, threshold: float) -> tuple[Self, dict[str, Tensor]]:
        kept = self.plain_weights(weights["output"][..., 0])
        kept = kept * (kept.abs() >= threshold)
        return replace(self, mixing=()), {"output": kept[..., None]}

    def active(self, tensors: Tensors) -> Tensor | None:
        return nonzero_rows(tensors["weights"])

    def fitted(self, examples: Examples, unit: float) -> Self:
        """Centre and size of the factors, and the matrix that orthonormalises the monomials."""
        grid, states = examples.grid, examples.states[None]
        axes = (0, 1, *range(3, states.ndim))
        centre = tuple(states.mean(axes).tolist()) if self.lower_degrees else ()
        own = replace(self, centre=centre, spread=(), mixing=())
        bank, spectrum = own._bank(grid, unit, states)[None], spectrum_of(states, grid.ndim)
        spread = own.factors(bank, spectrum, grid).square().mean(axes).sqrt()
        own = replace(own, spread=tuple(spread.clamp_min(1e-12).tolist()))
        x = own.factors(bank, spectrum, grid)
        terms = own.evaluate(x, examples.channels, grid.ndim).transpose(0, 2).flatten(1).double()
        gram = terms @ terms.T / terms.shape[1]
        gram += NEARLY_SAME * torch.eye(len(gram)).double() * gram.diagonal().mean()
        inverse = torch.linalg.inv(torch.linalg.cholesky(gram))
        return replace(own, mixing=tuple(inverse.flatten().tolist()))

    def directed(self, weights: Tensors, ndim: int) -> Tensor:
        turned = self.derivatives or self.inverse
        return torch.full((len(weights["output"]),), turned, device=weights["output"].device)

    def isotropic(
        self, weights: Tensors, ndim: int, wanted: int
    ) -> tuple[Nonlinearity | None, dict[str, Tensor]]:
        return self, {"output": weights["output"]}

    def fields(self, channels: int, ndim: int) -> int:
        return channels * self.filters(ndim) + len(self.monomials(channels, ndim))

    def flops(self, channels: int, ndim: int, grid: Grid) -> int:
        fine = self._fine(grid)
        transforms = fft_flops(fine, channels * (self.filters(ndim) + 1))
        return transforms + self.pointwise(channels, ndim) * math.prod(fine)

    def pointwise(self, channels: int, ndim: int) -> int:
        return (self.degree + 2 * channels) * len(self.monomials(channels, ndim))


@cache
def _monomials(factors: int, lowest: int, highest: int) -> list[tuple[int, ...]]:
    return [
        chosen
        for degree in range(lowest, highest + 1)
        for chosen in combinations_with_replacement(range(factors), degree)
    ]
