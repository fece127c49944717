"""A symbol that is a weighted sum of derivatives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators.spectral.filters import check_filter, filter_symbol, isotropic_filter
from opsplit.operators.spectral.linear_part import LinearPart
from opsplit.settings import AtMost, Between

MODES, PER_UNIT = 1024, 16
"""Modes, and how many make one unit of wavenumber, among which the limit of growth is sought."""


@dataclass(frozen=True)
class Derivatives(LinearPart):
    """`L(k) = sum_j w_j D_j(k)` with one weight per channel and derivative.

    The weights enter linearly, so that they can be fitted by least squares. Modes may grow, but no
    faster than `max_growth`: instabilities are physics, and a weight that is wrong by rounding must
    not blow up the finest modes.

    Arguments:
        terms: filters, such as `("x", "lap", "lap2")`; see `filters.py` for the names.
        max_growth: largest real part of the symbol, per unit of time.
    """

    kind = "derivatives"

    terms: Annotated[tuple[str, ...], AtMost(64)] = ("lap",)
    max_growth: Annotated[float, Between(0.0, 1e30)] = 0.0

    def shapes(self, channels: int, ndim: int) -> dict[str, tuple[int, ...]]:
        for term in self.terms:
            check_filter(term, ndim)
        return {"derivatives": (channels, len(self.terms))}

    def start(self, name: str, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        return torch.zeros(shape), torch.ones(shape)

    def values(self, weights: Mapping[str, Tensor], grid: Grid, unit: float) -> Tensor:
        held = weights["derivatives"]
        if not self.terms:
            modes = (*grid.shape[:-1], grid.shape[-1] // 2 + 1)
            return torch.zeros(*held.shape[:2], *modes).to(held) + 0j
        symbol = self._unlimited(held, grid, unit)
        return torch.complex(symbol.real.clamp(max=self.max_growth), symbol.imag)

    def _unlimited(self, held: Tensor, grid: Grid, unit: float) -> Tensor:
        bank = torch.stack([filter_symbol(term, grid, unit, held) for term in self.terms])
        return torch.einsum("ecj,j...->ec...", held + 0j, bank)

    def right_up_to(self, weights: Mapping[str, Tensor], ndim: int, unit: float) -> float:
        """Where the growth of an operator reaches its limit."""
        held, lowest = weights["derivatives"], math.inf
        for axis in range(ndim if self.terms else 0):
            shape = tuple(2 * MODES if a == axis else 2 for a in range(ndim))
            line = Grid(shape, (2 * math.pi * PER_UNIT / unit,) * ndim)
            symbol = self._unlimited(held, line, unit).real.movedim(2 + axis, -1)
            # The other axes at their mean; every mode is a step further along this one.
            growth = symbol.flatten(2, -2)[:, :, 0] if ndim > 1 else symbol
            beyond = (growth[..., :MODES].amax((0, 1)) > self.max_growth).nonzero()[:, 0]
            if len(beyond):
                lowest = min(lowest, max(0, int(beyond[0]) - 1) * unit / PER_UNIT)
        return lowest

    def directed(self, weights: Mapping[str, Tensor], ndim: int, unit: float) -> Tensor:
        held = weights["derivatives"].ne(0).any(1)
        turned = [isotropic_filter(term, ndim) is None for term in self.terms]
        return (held & torch.tensor(turned, dtype=torch.bool, device=held.device)).any(1)

    def isotropic(
        self, weights: Mapping[str, Tensor], ndim: int, wanted: int
    ) -> tuple[LinearPart, dict[str, Tensor]]:
        held = weights["derivatives"]
        used = held.ne(0).any(0).any(0).tolist()
        terms: dict[str, Tensor] = {}
        for i, term in enumerate(self.terms):
            name = isotropic_filter(term, ndim) if used[i] else None
            if used[i] and name is None:
                raise OpsplitError(f"The filter {term!r} has a direction: no {wanted}-D form.")
            if name is not None:
                # On a line `xx` and `lap` are one filter.
                terms[name] = terms.get(name, torch.zeros_like(held[..., 0])) + held[..., i]
        kept = torch.stack(list(terms.values()), -1) if terms else held[..., :0]
        return replace(self, terms=tuple(terms)), {"derivatives": kept}
