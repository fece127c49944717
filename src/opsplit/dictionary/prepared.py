"""Operators of several families behind one call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from opsplit.dictionary.multiples import Multiples, find_multiples
from opsplit.grid import Grid
from opsplit.operators import OperatorFamily, Prepared
from opsplit.operators.family import Multiplier, Propagator

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

    def acting(self, index: Tensor, strengths: Tensor) -> Acting:
        """Operator `index[e]` with the strength `strengths[e]`, for several flows."""
        return Acting(self, index, strengths)

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
                self.parameters,
                lambda index: self.rates(index, state),
                prepared.device,
                state.numel(),
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
        groups = _alike(part, index, duration)
        if len(groups) == 1:
            return groups[0][1](u)
        out = torch.empty_like(u)
        for mine, move in groups:
            out[mine] = move(u[mine])
        return out

    def evaluations(self, duration: float | Tensor) -> float:
        """Right-hand-side evaluations of one flow, for the dearest family; mean over durations."""
        each = duration.reshape(-1).tolist() if isinstance(duration, Tensor) else [duration]
        counts = [max(family.evaluations(h) for family, _, _ in self.parts) for h in each]
        return sum(counts) / len(counts)

    def flops(self) -> int:
        """Floating-point operations of one evaluation on one state, for the dearest family."""
        return max(family.flops(self.grid) for family, _, _ in self.parts)


class Acting:
    """Chosen operators with their strengths, ready to act again and again.

    What depends on the operators and the duration alone is done once per duration.
    """

    def __init__(self, operators: PreparedDictionary, index: Tensor, strengths: Tensor) -> None:
        self.operators, self.strengths = operators, strengths
        self.parts = [
            (part, mine.nonzero()[:, 0], position)
            for part, mine, position in operators._by_part(index)
        ]
        self._moves: dict[float, list[tuple[Tensor, Propagator, float]]] = {}
        self._evaluations: dict[float, float] = {}
        self._multipliers: dict[float, Tensor | None] = {}

    def evaluations(self, duration: float) -> float:
        """Right-hand-side evaluations of one flow, mean over the operators."""
        if duration not in self._evaluations:
            found = self.operators.evaluations(self._lasting(duration))
            self._evaluations[duration] = found
        return self._evaluations[duration]

    def multiplier(self, u: Tensor, duration: float | Tensor) -> Tensor | None:
        """The factor of every mode, `(E, 1, channel, *modes)`, if that is all the flow does."""
        h = float(duration)
        if h not in self._multipliers:
            self._multipliers[h] = self._multiplier(h)
        return self._multipliers[h]

    def _multiplier(self, duration: float) -> Tensor | None:
        found = [(mine, move) for mine, move, _ in self._moving(duration)]
        factors = [move.factor for _, move in found if isinstance(move, Multiplier)]
        if len(factors) < len(found):
            return None
        if len(factors) == 1:
            return factors[0]
        # torch's own function imports a computer algebra system.
        shape = np.broadcast_shapes(*(tuple(f.shape[1:]) for f in factors))
        made = factors[0].new_empty(len(self.strengths), *shape)
        for (mine, _), factor in zip(found, factors, strict=True):
            made[mine] = factor
        return made

    def _lasting(self, duration: float) -> Tensor:
        return self.strengths.to(self.operators.parameters[0].dtype) * duration

    def _moving(self, duration: float) -> list[tuple[Tensor, Propagator, float]]:
        """Rows, flow and scale of the operators that act together."""
        if duration not in self._moves:
            each = self._lasting(duration)
            self._moves[duration] = [
                (mine[rows], move, part[2])
                for part, mine, position in self.parts
                for rows, move in _alike(part, position, each[mine])
            ]
        return self._moves[duration]

    def __call__(self, u: Tensor, duration: float | Tensor) -> Tensor:
        """The states `(E, K, channel, *space)` after `duration`, each by its own operator."""
        moves = self._moving(float(duration))
        if len(moves) == 1:
            # All operators are of one family, in their order.
            return _scaled(moves[0][1], u, moves[0][2])
        out = torch.empty_like(u)
        for mine, move, scale in moves:
            out[mine] = _scaled(move, u[mine], scale)
        return out


def _scaled(move: Propagator, u: Tensor, scale: float) -> Tensor:
    return move(u) if scale == 1.0 else move(u / scale) * scale


def _alike(part: PreparedPart, index: Tensor, duration: Tensor) -> list[tuple[Tensor, Propagator]]:
    """Entries of one family that need as many steps, and their flows.

    So a flow does not depend on what else is in the batch.
    """
    family, prepared, _ = part
    steps = [family.evaluations(h) for h in duration.tolist()]
    counts = dict.fromkeys(steps)
    everyone = torch.arange(len(index), device=index.device)
    if len(counts) == 1:
        return [(everyone, family.propagator(prepared.take(index), duration))]
    found = []
    for count in counts:
        mine = everyone[torch.tensor([s == count for s in steps], device=index.device)]
        found.append((mine, family.propagator(prepared.take(index[mine]), duration[mine])))
    return found
