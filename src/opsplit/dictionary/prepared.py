"""Operators of several families behind one call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from opsplit.dictionary.multiples import Multiples, find_multiples
from opsplit.grid import Grid
from opsplit.operators import OperatorFamily, Prepared

PreparedPart = tuple[OperatorFamily, Prepared, float]
"""A family, its operators on a grid, and the scale of the fields they act on."""


@dataclass(frozen=True)
class PreparedDictionary:
    """Operators of several families behind one call: `flow(index, u, duration)`."""

    parts: tuple[PreparedPart, ...]
    parameters: tuple[Tensor, ...]
    """Of the operators of every part, `(E, P)`."""

    def __len__(self) -> int:
        return sum(len(prepared) for _, prepared, _ in self.parts)

    @property
    def grid(self) -> Grid:
        return self.parts[0][1].grid

    def flow(self, index: Tensor, u: Tensor, duration: float | Tensor) -> Tensor:
        """Operator `index[e]` on the states `u[e]`, for all `e`: `(E, K, channel, *space)`."""
        if len(self.parts) == 1:
            return self._flow(self.parts[0], index, u, duration)
        each = torch.as_tensor(duration, dtype=u.dtype, device=u.device).expand(len(index))
        out = torch.empty_like(u)
        for part, mine, position in self._by_part(index):
            out[mine] = self._flow(part, position, u[mine], each[mine])
        return out

    def rates(self, index: Tensor, u: Tensor) -> Tensor:
        """Right-hand sides `(n, K, channel, *space)` of operators on the same states `u`."""
        found, places = [], []
        for (family, prepared, scale), mine, position in self._by_part(index):
            states = (u / scale).expand(len(position), *u.shape)
            found.append(family.rate(prepared.take(position), states) * scale)
            places.append(mine.nonzero()[:, 0])
        if len(found) == 1:
            return found[0]
        return torch.cat(found)[torch.cat(places).argsort()]

    @cached_property
    def multiples(self) -> Multiples:
        """Operators whose rates are multiples of those of others."""
        family, prepared, _ = self.parts[0]
        draw = torch.Generator().manual_seed(0)
        state = torch.randn(1, family.channels, *prepared.grid.shape, generator=draw)
        state = state.to(self.parameters[0])
        with torch.no_grad():
            return find_multiples(
                self.parameters, lambda index: self.rates(index, state), prepared.device
            )

    def _by_part(self, index: Tensor) -> Iterator[tuple[PreparedPart, Tensor, Tensor]]:
        """Each part with the entries that are its own and their positions in it."""
        offset = 0
        for part in self.parts:
            mine = (index >= offset) & (index < offset + len(part[1]))
            if bool(mine.any()):
                yield part, mine, index[mine] - offset
            offset += len(part[1])

    @staticmethod
    def _flow(
        part: PreparedPart,
        index: Tensor,
        u: Tensor,
        duration: float | Tensor,
    ) -> Tensor:
        """Flows of one family; an operator that many entries share acts on all their states."""
        family, prepared, scale = part
        u = u / scale
        if isinstance(duration, Tensor) and duration.ndim:
            return PreparedDictionary._flow_each(part, index, u, duration) * scale
        operators, group = torch.unique(index, return_inverse=True)
        counts = torch.bincount(group)
        largest = int(counts.max())
        if largest == 1 or largest * len(operators) > 1.3 * len(index):
            return family.flow(prepared.take(index), u, duration) * scale
        # Entries of one operator side by side, padded to the largest group.
        order = torch.sort(group, stable=True).indices
        slot = torch.empty_like(group)
        first = counts.cumsum(0) - counts
        slot[order] = torch.arange(len(index), device=index.device) - first[group[order]]
        states = u.new_zeros(len(operators), largest, *u.shape[1:])
        states[group, slot] = u
        moved = family.flow(prepared.take(operators), states.flatten(1, 2), duration)
        return moved.unflatten(1, (largest, u.shape[1]))[group, slot] * scale

    @staticmethod
    def _flow_each(part: PreparedPart, index: Tensor, u: Tensor, duration: Tensor) -> Tensor:
        """Every entry for its own duration, those that need as many steps together.

        So a flow does not depend on what else is in the batch.
        """
        family, prepared, _ = part
        steps = [family.evaluations(h) for h in duration.tolist()]
        if len(set(steps)) == 1:
            return family.flow(prepared.take(index), u, duration)
        out = torch.empty_like(u)
        for count in set(steps):
            mine = torch.tensor([s == count for s in steps], device=u.device)
            out[mine] = family.flow(prepared.take(index[mine]), u[mine], duration[mine])
        return out

    def evaluations(self, duration: float | Tensor) -> float:
        """Right-hand-side evaluations of one flow, for the dearest family; mean over durations."""
        each = duration.reshape(-1).tolist() if isinstance(duration, Tensor) else [duration]
        counts = [max(family.evaluations(h) for family, _, _ in self.parts) for h in each]
        return sum(counts) / len(counts)

    def flops(self) -> int:
        """Floating-point operations of one evaluation on one state, for the dearest family."""
        return max(family.flops(self.grid) for family, _, _ in self.parts)
