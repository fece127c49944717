"""One estimate of the coefficients, from all operators that could play a part of a composition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from opsplit.search.screen import Screen
    from opsplit.search.strategy import Tried

AGREE = 0.15
"""Two estimates agree if they differ by no more than this share."""
ALIKE = 0.995
"""A mechanism acts like another one if it explains this share of what the other explains."""


@dataclass(frozen=True)
class Estimate:
    """Coefficients of a composition and how sure they are."""

    coefficients: Mapping[str, float]
    spread: Mapping[str, float]
    alike: tuple[tuple[str, str], ...] = ()
    """Mechanisms of the composition, each with another one that explains the frames as well."""


@dataclass(frozen=True)
class Mechanisms:
    """Which coefficients every operator has, and with which sign."""

    values: Tensor
    """`(n, coefficient)`"""
    names: tuple[str, ...]
    kind: Tensor = field(init=False)
    """`(n,)` operators with the same coefficients of the same signs have the same number."""

    turned: Tensor = field(init=False)
    """`(n,)` the operator with the opposite coefficients; -1 where there is none."""

    def __post_init__(self) -> None:
        signs = torch.nn.functional.pad(self.values.sign(), (0, 1))
        _, kind = torch.unique(signs, dim=0, return_inverse=True)
        object.__setattr__(self, "kind", kind)
        rows = [tuple(row) for row in self.values.tolist()]
        place = {row: i for i, row in enumerate(rows)}
        turned = [place.get(tuple(-v for v in row), -1) if any(row) else -1 for row in rows]
        object.__setattr__(self, "turned", torch.tensor(turned, device=self.values.device))

    @classmethod
    def of(cls, known: Mapping[str, np.ndarray], n: int, like: Tensor) -> Mechanisms:
        columns = [torch.as_tensor(np.asarray(v, float)) for v in known.values()]
        table = torch.stack(columns, 1) if columns else torch.zeros(n, 0)
        return cls(table.to(like), tuple(known))

    def opposite(self, members: Tensor) -> Tensor:
        """Whether an operator undoes a member of a set `(k, m)`: `(k, n)`."""
        signs = self.values.sign()
        return (signs[members] @ signs.T < 0).any(1)

    def word(self, operator: int) -> str:
        """The names of an operator's coefficients."""
        own = self.values[operator].tolist()
        return " and ".join(name for name, v in zip(self.names, own, strict=True) if v)

    def same_terms(self, operator: int) -> Tensor:
        """`(n,)` operators with the same coefficients, of whatever sign."""
        held = self.values != 0
        return (held == held[operator]).all(1)


def estimate(screen: Screen, pick: Tried, mechanisms: Mechanisms, most: float) -> Estimate:
    """Coefficients by the operators of one mechanism that could replace a part of the pick.

    The hypernetwork reads the coefficients of a single operator with some error. Many operators
    can play the same part with another strength. The weighted mean of their coefficients counts
    where it agrees with the coefficients of the pick; else those of the pick count. The spread is
    that of the operators, the difference of the two estimates, and the change of the coefficients
    that the residual could ask for.
    """
    values, own = mechanisms.values, list(pick.operators)
    strengths = torch.tensor(pick.strengths or [1.0] * len(own)).to(values)
    total = strengths @ values[own]
    moved, variance = torch.zeros_like(total), torch.zeros_like(total)
    left = screen.change - strengths @ screen.rows(own)
    level, whole = float(left @ left), float(screen.change @ screen.change)
    alike: dict[tuple[str, str], None] = {}
    for part, member in enumerate(own):
        others = own[:part] + own[part + 1 :]
        s, gain = replacements(screen, others, torch.inf)
        rival = _rival(screen, mechanisms, member, others, gain)
        if rival is not None:
            alike[mechanisms.word(member), mechanisms.word(rival)] = None
        gain[(s <= 0).any(1) | (s > most).any(1)] = -torch.inf
        # A replacement may leave a residual of up to three times the norm, plus rounding.
        # Where the residual is large anyway, only a little more is allowed.
        limit = level + min(8 * level, 0.1 * max(0.0, whole - level)) + 1e-10 * whole
        same = mechanisms.kind == mechanisms.kind[member]
        good = (same & (whole - gain <= limit)).nonzero()[:, 0]
        if len(good) < 2 or member not in good.tolist():
            continue
        said = s[good, -1:] * values[good] + s[good, :-1] @ values[others]
        weight = 1 / (whole - gain[good]).clamp_min(level / 9 + 1e-12 * whole)
        weight = weight / weight.sum()
        mean = weight @ said
        # Relative to what the same algebra says of the pick itself: its quadrature may be off
        # where frames are far apart, the pick's strengths were refined with real flows.
        moved += mean - said[good.tolist().index(member)]
        # The variance of a weighted mean: the effective number is 1 / sum(weight^2).
        variance += weight @ (said - mean) ** 2 * weight.square().sum()
    # How far strengths could be off for the sake of the residual.
    room = level if pick.residual is None else pick.residual**2
    rows = screen.rows(own)
    covariance = torch.linalg.pinv(rows @ rows.T, hermitian=True) * min(room, whole)
    variance += (values[own] * (covariance @ values[own])).sum(0).clamp_min(0)
    spread = variance.sqrt()
    agree = moved.abs() <= AGREE * total.abs()
    found = torch.where(agree, total + moved, total)
    spread = torch.hypot(spread, moved)
    names = mechanisms.names
    return Estimate(
        dict(zip(names, found.tolist(), strict=True)),
        dict(zip(names, spread.tolist(), strict=True)),
        tuple(alike),
    )


def replacements(screen: Screen, others: list[int], most: float) -> tuple[Tensor, Tensor]:
    """Strengths `(n, m)` and gains `(n,)` of every operator beside the others of a pick."""
    if others:
        at = torch.tensor([others], device=screen.integrals.device)
        s, gain = (x[0] for x in screen.free(at, most))
    else:
        s = (screen.products / screen.norms.clamp_min(1e-300))[:, None]
        gain = screen.products * s[:, 0]
        gain = torch.where((s[:, 0] > 0) & (s[:, 0] <= most), gain, -torch.inf)
    gain[others] = -torch.inf
    gain[screen.excluded] = -torch.inf
    return s, gain


def _rival(
    screen: Screen, mechanisms: Mechanisms, member: int, others: list[int], gain: Tensor
) -> int | None:
    """An operator of another mechanism that explains as much as this member of the pick."""
    without = _gain(screen, others)
    own = float(gain[member]) - without
    fresh = ~mechanisms.same_terms(member)
    for other in others:
        fresh &= ~mechanisms.same_terms(other)
    if not own > 0 or not bool(fresh.any()):
        return None
    masked = torch.where(fresh, gain, -torch.inf)
    best = int(masked.argmax())
    return best if float(masked[best]) - without >= ALIKE * own else None


def _gain(screen: Screen, members: list[int]) -> float:
    """What a set explains, with the best strengths."""
    if not members:
        return 0.0
    rows = screen.rows(members)
    share = screen.products[members]
    return float(share @ torch.linalg.lstsq(rows @ rows.T, share[:, None]).solution[:, 0])
