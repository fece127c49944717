"""Operators that differ in nothing but their strength, as one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from opsplit.dictionary.multiples import Multiples
from opsplit.search.estimate import Mechanisms


@dataclass(frozen=True)
class Classes:
    """Operators of one mechanism that are multiples of each other form a class.

    With free strengths they explain the same. So algebra sees one operator of every class, the
    strongest, and flows act with the member whose strength is nearest to one.
    """

    heads: np.ndarray
    """`(g,)` position of the strongest operator of every class."""
    group: np.ndarray
    """`(n,)` the class of every operator."""
    ratio: np.ndarray
    """`(n,)` an operator is this times the head of its class; at most one."""
    turned: np.ndarray
    """`(g,)` the class with the opposite coefficients; -1 where there is none."""

    @classmethod
    def of(cls, multiples: Multiples, mechanisms: Mechanisms, free: bool) -> Classes:
        """The classes of a dictionary.

        Arguments:
            free: whether strengths are free; else every operator is a class of its own.
        """
        place, factor = (x.numpy(force=True) for x in (multiples.place, multiples.factor))
        n = len(place)
        if not free:
            return cls(np.arange(n), np.arange(n), np.ones(n), mechanisms.turned)
        first: dict[tuple[int, int], int] = {}
        both = zip(place.tolist(), mechanisms.kind.tolist(), strict=True)
        group = np.array([first.setdefault(pair, len(first)) for pair in both], dtype=np.int64)
        # The first of the strongest ones, class by class.
        order = np.lexsort((np.arange(n), -factor, group))
        heads = order[np.r_[True, np.diff(group[order]) > 0]] if n else order
        turned = np.full(len(heads), -1)
        known = mechanisms.turned >= 0
        turned[group[known]] = group[mechanisms.turned[known]]
        return cls(heads, group, factor / factor[heads][group], turned)

    def __len__(self) -> int:
        return len(self.heads)

    def opposite(self, mechanisms: Mechanisms) -> np.ndarray:
        """Whether classes undo each other, `(g, g)`."""
        signs = np.sign(mechanisms.values[self.heads])
        found: np.ndarray = signs @ signs.T < 0
        return found

    @cached_property
    def _sorted(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Of every class the logarithms of the ratios, rising, and the operators."""
        order = np.lexsort((-np.arange(len(self.ratio)), self.ratio, self.group))
        parts = np.split(order, np.flatnonzero(np.diff(self.group[order])) + 1)
        return [(np.log(self.ratio[part]), part) for part in parts]

    def member(self, number: int, strength: float) -> tuple[int, float]:
        """The operator of a class whose strength is nearest to one, and that strength.

        Arguments:
            strength: that of the head of the class.
        """
        ratios, operators = self._sorted[number]
        if not 0 < strength < 1 or len(operators) == 1:
            return int(self.heads[number]), strength
        wanted = float(np.log(strength))
        at = int(ratios.searchsorted(wanted))
        if at == len(ratios) or (at > 0 and wanted - ratios[at - 1] < ratios[at] - wanted):
            at -= 1
        found = int(operators[at])
        return found, strength / float(self.ratio[found])
