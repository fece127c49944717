"""One estimate of the coefficients, from all operators that could play a part of a composition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from opsplit.search.screen import Screen
    from opsplit.search.strategy import Tried

AGREE = 0.15
"""Two estimates agree if they differ by no more than this share."""
RANK = 1e-12
"""Eigenvalues below this share of the largest one are zero."""
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

    values: np.ndarray
    """`(n, coefficient)`"""
    names: tuple[str, ...]
    kind: np.ndarray = field(init=False)
    """`(n,)` operators with the same coefficients of the same signs have the same number."""
    terms: np.ndarray = field(init=False)
    """`(n,)` the same for coefficients of whatever sign."""
    turned: np.ndarray = field(init=False)
    """`(n,)` the operator with the opposite coefficients; -1 where there is none."""

    def __post_init__(self) -> None:
        signs = np.sign(self.values)
        object.__setattr__(self, "kind", _numbered(signs))
        object.__setattr__(self, "terms", _numbered(np.abs(signs)))
        rows = [tuple(row) for row in self.values.tolist()]
        place = {row: i for i, row in enumerate(rows)}
        turned = [place.get(tuple(-v for v in row), -1) if any(row) else -1 for row in rows]
        object.__setattr__(self, "turned", np.array(turned, dtype=np.int64))

    @classmethod
    def of(cls, known: Mapping[str, np.ndarray], n: int) -> Mechanisms:
        columns = [np.asarray(v, np.float64) for v in known.values()]
        return cls(np.stack(columns, 1) if columns else np.zeros((n, 0)), tuple(known))

    def opposite(self, members: np.ndarray) -> np.ndarray:
        """Whether an operator undoes a member of a set `(k, m)`: `(k, n)`."""
        signs = np.sign(self.values)
        found: np.ndarray = (signs[members] @ signs.T < 0).any(1)
        return found

    def word(self, operator: int) -> str:
        """The names of an operator's coefficients."""
        own = self.values[operator].tolist()
        return " and ".join(name for name, v in zip(self.names, own, strict=True) if v)


def symmetric_inverse(matrices: np.ndarray) -> np.ndarray:
    """Pseudo-inverses of symmetric matrices `(..., m, m)`; those that are not finite have none."""
    whole = np.isfinite(matrices).all((-2, -1), keepdims=True)
    values, vectors = np.linalg.eigh(np.where(whole, matrices, 0.0))
    large = values > RANK * np.abs(values).max(-1, keepdims=True, initial=0.0)
    inverse = np.where(large, 1 / np.where(large, values, 1.0), 0.0)
    found: np.ndarray = (vectors * inverse[..., None, :]) @ vectors.swapaxes(-1, -2)
    return found if whole.all() else np.where(whole, found, np.nan)


def _numbered(rows: np.ndarray) -> np.ndarray:
    """A number for every row; equal rows have the same one."""
    known: dict[tuple[float, ...], int] = {}
    found = [known.setdefault(tuple(row), len(known)) for row in rows.tolist()]
    return np.array(found, dtype=np.int64)


def estimate(screen: Screen, pick: Tried, most: float) -> Estimate:
    """Coefficients by the operators of one mechanism that could replace a part of the pick.

    The hypernetwork reads the coefficients of a single operator with some error. Many operators
    can play the same part with another strength. The weighted mean of their coefficients counts
    where it agrees with the coefficients of the pick; else those of the pick count. The spread is
    that of the operators, the difference of the two estimates, and the change of the coefficients
    that the residual could ask for.
    """
    mechanisms, own = screen.mechanisms, list(pick.operators)
    values = mechanisms.values
    strengths = np.array(pick.strengths or [1.0] * len(own))
    total = strengths @ values[own]
    moved, variance = np.zeros_like(total), np.zeros_like(total)
    whole, gram = screen.whole, screen.gram(own)
    # What the pick leaves, by the same algebra.
    level = whole - 2 * strengths @ screen.share(own) + strengths @ gram @ strengths
    level = max(0.0, float(level))
    alike: dict[tuple[str, str], None] = {}
    for part, member in enumerate(own):
        others = own[:part] + own[part + 1 :]
        s, gain = replacements(screen, others, np.inf)
        rival = _rival(screen, member, others, gain)
        if rival is not None:
            alike[mechanisms.word(member), mechanisms.word(rival)] = None
        gain = np.where(((s <= 0) | (s > most)).any(1), -np.inf, gain)
        # A replacement may leave a residual of up to three times the norm, plus rounding.
        # Where the residual is large anyway, only a little more is allowed.
        limit = level + min(8 * level, 0.1 * max(0.0, whole - level)) + 1e-10 * whole
        same = mechanisms.kind == mechanisms.kind[member]
        good = np.flatnonzero(same & (whole - gain <= limit))
        place = np.flatnonzero(good == member)
        if len(good) < 2 or not len(place):
            continue
        said = s[good, -1:] * values[good] + s[good, :-1] @ values[others]
        weight = 1 / np.maximum(whole - gain[good], level / 9 + 1e-12 * whole)
        weight = weight / weight.sum()
        mean = weight @ said
        # Relative to what the same algebra says of the pick itself: its quadrature may be off
        # where frames are far apart, the pick's strengths were refined with real flows.
        moved += mean - said[place[0]]
        # The variance of a weighted mean: the effective number is 1 / sum(weight^2).
        variance += weight @ (said - mean) ** 2 * (weight @ weight)
    # How far strengths could be off for the sake of the residual.
    room = level if pick.residual is None else pick.residual**2
    covariance = symmetric_inverse(gram) * min(room, whole)
    variance += (values[own] * (covariance @ values[own])).sum(0).clip(min=0)
    agree = np.abs(moved) <= AGREE * np.abs(total)
    found = np.where(agree, total + moved, total)
    spread = np.hypot(np.sqrt(variance), moved)
    names = mechanisms.names
    return Estimate(
        dict(zip(names, found.tolist(), strict=True)),
        dict(zip(names, spread.tolist(), strict=True)),
        tuple(alike),
    )


def replacements(screen: Screen, others: list[int], most: float) -> tuple[np.ndarray, np.ndarray]:
    """Strengths `(n, m)` and gains `(n,)` of every operator beside the others of a pick."""
    classes = screen.classes
    if others:
        s, gain = (x[0] for x in screen.free(classes.group[[others]], most))
        s = s / np.append(classes.ratio[others], 1.0)
    else:
        s = (screen.products / np.maximum(screen.norms, 1e-300))[:, None]
        gain = np.where((s[:, 0] > 0) & (s[:, 0] <= most), screen.products * s[:, 0], -np.inf)
    # Members of one class explain the same with other strengths.
    s, gain = s[classes.group], gain[classes.group]
    s[:, -1] /= classes.ratio
    gain[others] = -np.inf
    gain[screen.excluded[classes.group]] = -np.inf
    return s, gain


def _rival(screen: Screen, member: int, others: list[int], gain: np.ndarray) -> int | None:
    """An operator of another mechanism that explains as much as this member of the pick."""
    terms = screen.mechanisms.terms
    without = _gain(screen, others)
    own = float(gain[member]) - without
    fresh = terms != terms[member]
    for other in others:
        fresh &= terms != terms[other]
    if not own > 0 or not fresh.any():
        return None
    masked = np.where(fresh, gain, -np.inf)
    best = int(masked.argmax())
    return best if float(masked[best]) - without >= ALIKE * own else None


def _gain(screen: Screen, members: list[int]) -> float:
    """What a set explains, with the best strengths."""
    if not members:
        return 0.0
    share = screen.share(members)
    return float(share @ symmetric_inverse(screen.gram(members)) @ share)
