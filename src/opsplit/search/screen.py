"""The algebra of pursuit: least squares for the strengths of sets of operators.

To first order a composition changes a state by the sum of the integrals of its operators' rates,
each times its strength. Which sets, with which strengths, explain the observed change is then a
matter of inner products between integrals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from opsplit.search.objective import Objective
from opsplit.search.strategy import Tried

if TYPE_CHECKING:
    from opsplit.search.pursuit import Pursuit


class Screen:
    """The least-squares problem of one window.

    Transitions over several strides are mixed into as many rows as there are single transitions.
    Operators that are multiples of others share their integrals. Attributes, with `n` operators,
    `r` of them no multiples of others, and rows of `transitions * points` numbers:

        integrals: `(r, row)` the integral of these operators' rates over every transition.
        multiples: which operators are multiples of which.
        change: `(row,)` the observed change, which the integrals must add up to.
        products: `(n,)` inner products of the integrals with the change.
        norms: `(n,)` squared norms of the integrals.
        excluded: `(n,)` operators that are not finite, or have no effect.
    """

    def __init__(self, objective: Objective, window: int, rates: Tensor, settings: Pursuit) -> None:
        frames = rates.shape[1]
        observed = objective.observed
        begin = observed.frames.shape[1] - frames
        rows = observed.scored[observed.scored >= begin] - begin
        self.used = len(rows)
        self.sizes = observed.sizes[window, -self.used :].double()
        joined = torch.zeros(frames - 1, dtype=torch.bool).index_fill(0, rows.cpu(), True)
        mix = stride_mixture(run_lengths(joined), settings.strides, self.sizes)
        moments = torch.cat([torch.zeros(1).double(), observed.steps[begin:].cumsum(0)])
        whole = integration_weights(moments / observed.dt, joined)[rows.cpu()]
        weights = (mix @ whole.to(mix)) * observed.dt
        self.multiples = objective.operators.multiples
        place, factor = self.multiples.place, self.multiples.factor
        self.integrals = (
            torch.einsum("tf,nf...->nt...", weights.to(rates), rates).flatten(1).double()
        )
        norms = self.integrals.square().sum(1)
        # A rate that is not finite makes the norm so: zero times infinity is not a number.
        wild = ~norms.isfinite()
        if bool(wild.any()):
            self.integrals[wild], norms[wild] = 0.0, 0.0
        self.norms, self.excluded = norms[place] * factor.square(), wild[place]
        self.mix = mix
        self.targets = observed.targets[window, -self.used :]
        change = self.targets - observed.states[window, -self.used :]
        self.change = (mix @ change.flatten(1).double()).flatten()
        self.products = (self.integrals @ self.change)[place] * factor
        if settings.refine != "none":
            # No strength makes an operator without effect useful.
            self.excluded |= self.norms == 0
        self.columns: dict[int, Tensor] = {}
        self.n = len(place)
        self.mechanisms = objective.mechanisms(window)

    def rows(self, members: Tensor | list[int]) -> Tensor:
        """The integrals of operators, `(m, row)`."""
        held = self.multiples
        return held.factor[members, None] * self.integrals[held.place[members]]

    def residual(self, predicted: Tensor) -> Tensor:
        """The error of one-step predictions `(transition, channel, *space)`, strides mixed in."""
        left = self.targets - predicted[-self.used :]
        return (self.mix @ left.flatten(1).double()).flatten()

    def step(self, members: Tensor, residual: Tensor, damping: float) -> Tensor:
        """A Levenberg-Marquardt step; the integrals are the derivatives by the strengths."""
        return marquardt(self.rows(members), residual, damping)

    def singles(self, settings: Pursuit) -> Sets:
        """All operators by themselves."""
        if settings.refine == "none":
            s = torch.ones_like(self.products)
        else:
            s = (self.products / self.norms.clamp_min(1e-300)).clamp(0, settings.max_strength)
        gain = 2 * s * self.products - s * s * self.norms
        # Operators without any effect explain a window at rest as well as others do.
        gain = torch.where(self.excluded & ~self.excluded.all(), -torch.inf, gain)
        everyone = torch.arange(self.n, device=gain.device)
        return self._best(everyone[:, None], s[:, None], gain, settings)

    def extend(self, kept: Sets, settings: Pursuit) -> Sets:
        """The most promising sets with one more operator."""
        held = kept.members[: settings.width]
        extend = self._fixed if settings.refine == "none" else self.free
        s, gain = extend(held, settings.max_strength or math.inf)
        gain.scatter_(1, held, -torch.inf)
        gain[:, self.excluded] = -torch.inf
        if settings.fits_strengths:
            # Two operators that undo each other are one weaker operator.
            gain[self.mechanisms.opposite(held)] = -torch.inf
        if settings.survivors is None:
            index = torch.arange(self.n, device=gain.device).expand(len(held), -1)
        else:
            index = gain.topk(min(self.n, settings.width), dim=1).indices
        rows = torch.arange(len(held), device=gain.device)[:, None].expand_as(index)
        members = torch.cat([held[rows], index[..., None]], 2).flatten(0, 1)
        strengths, gains = s[rows, index].flatten(0, 1), gain[rows, index].flatten()
        if settings.fits_strengths:
            members, strengths = self._turned(members, strengths)
        return self._best(members, strengths, gains, settings)

    def _turned(self, members: Tensor, strengths: Tensor) -> tuple[Tensor, Tensor]:
        """Operators of negative strength replaced by those of the opposite direction."""
        other = self.mechanisms.turned[members]
        size = (self.norms[members] / self.norms[other].clamp_min(1e-300)).sqrt()
        negative = (strengths < 0) & (other >= 0)
        found = torch.where(negative, -strengths * size, strengths)
        return torch.where(negative, other, members), found

    def _gram_columns(self, members: Tensor) -> Tensor:
        """Inner products of all operators with those of the sets: `(k, n, m)`."""
        held = self.multiples
        wanted = held.place[members].flatten().tolist()
        missing = [i for i in dict.fromkeys(wanted) if i not in self.columns]
        if missing:
            found = (self.integrals[missing] @ self.integrals.T)[:, held.place] * held.factor
            self.columns.update(zip(missing, found, strict=True))
        columns = torch.stack([self.columns[i] for i in wanted]).reshape(*members.shape, self.n)
        return (columns * held.factor[members, None]).transpose(1, 2)

    def free(self, members: Tensor, most: float) -> tuple[Tensor, Tensor]:
        """Best strengths `(k, n, m + 1)` and gains of adding every operator to sets.

        A set whose best strengths are not all positive is no better than a smaller one, unless
        there is an operator of the opposite direction.
        """
        columns, share = self._gram_columns(members), self.products[members]
        own = columns.gather(1, members[..., None].expand(-1, -1, members.shape[1]))
        scale = own.diagonal(dim1=1, dim2=2).sqrt()
        even = own / scale[:, :, None] / scale[:, None]
        inverse = torch.linalg.pinv(even, hermitian=True, rtol=1e-12)
        inverse = inverse / scale[:, :, None] / scale[:, None]
        base = torch.einsum("kij,kj->ki", inverse, share)
        explained = columns @ inverse
        left = self.norms - (explained * columns).sum(2)
        fresh = left > 1e-9 * self.norms
        rest = self.products - torch.einsum("knm,km->kn", columns, base)
        new = rest / torch.where(fresh, left, 1.0)
        s = torch.cat([base[:, None] - explained * new[..., None], new[..., None]], 2)
        gain = (share * base).sum(1, keepdim=True) + new * new * left
        turned = (self.mechanisms.turned[members] >= 0)[:, None].expand(-1, self.n, -1)
        turns = torch.cat([turned, torch.zeros_like(turned[..., :1])], 2)
        valid = fresh & ((s > 0) | turns).all(2) & (s.abs() <= most).all(2)
        return s, torch.where(valid, gain, -torch.inf)

    def _fixed(self, members: Tensor, most: float) -> tuple[Tensor, Tensor]:
        """Gains of adding every operator to sets, all strengths equal to one."""
        columns = self._gram_columns(members)
        own = columns.gather(1, members[..., None].expand(-1, -1, members.shape[1]))
        inside = 2 * self.products[members].sum(1) - own.sum((1, 2))
        gain = inside[:, None] + 2 * self.products - self.norms - 2 * columns.sum(2)
        return torch.ones(*gain.shape, members.shape[1] + 1).to(gain), gain

    def _best(self, members: Tensor, strengths: Tensor, gain: Tensor, settings: Pursuit) -> Sets:
        """The best sets, each once."""
        wanted = max(settings.width, settings.survivors or len(members))
        # Among lists of one set the first counts, in the order of the kept sets, as in beam search.
        rows = (gain > -math.inf).nonzero()[:, 0]
        if members.shape[1] > 1 and len(rows):
            same = torch.zeros_like(rows)
            for column in members[rows].sort(1).values.T:
                _, same = torch.unique(same * self.n + column, return_inverse=True)
            place = torch.arange(len(rows), device=rows.device)
            first = torch.full_like(place, len(rows)).scatter_reduce(0, same, place, "amin")
            rows = rows[first[first < len(rows)].sort().values]
        order = torch.sort(gain[rows], descending=True, stable=True).indices
        chosen = rows[order[:wanted]]
        left = (self.change @ self.change - gain[chosen]).clamp_min(0).sqrt()
        return Sets(members[chosen], strengths[chosen], left)


@dataclass(frozen=True)
class Sets:
    """Sets of one size that algebra finds promising, best first."""

    members: Tensor
    """`(n, m)` positions in the dictionary."""
    strengths: Tensor
    """`(n, m)`"""
    left: Tensor
    """`(n,)` norm of the residual."""

    def __len__(self) -> int:
        return len(self.members)

    def first(self, n: int | None) -> Sets:
        return self if n is None else Sets(self.members[:n], self.strengths[:n], self.left[:n])

    def by_error(self, scored: list[Tried]) -> Sets:
        """The same sets in the order of their fitting errors."""
        error = {t.operators: t.error for t in scored}
        errors = torch.tensor([error[tuple(m)] for m in self.members.tolist()])
        # Sets that fit alike keep the order of the dictionary, as in beam search.
        place = torch.sort(self.members[:, -1].cpu(), stable=True).indices
        order = place[torch.sort(errors[place], stable=True).indices].to(self.members.device)
        return Sets(self.members[order], self.strengths[order], self.left[order])


def marquardt(jacobian: Tensor, residual: Tensor, damping: float) -> Tensor:
    """A Levenberg-Marquardt step from rows `(m, row)` of derivatives; zero where there is none."""
    normal = jacobian @ jacobian.T
    normal = normal + damping * torch.diag(normal.diagonal().clamp_min(1e-300))
    found: Tensor = torch.linalg.lstsq(normal, (jacobian @ residual)[:, None]).solution[:, 0]
    return found.nan_to_num(0.0)


def run_lengths(joined: Tensor) -> list[int]:
    """How many transitions follow each other without a gap, run by run."""
    lengths, run = [], 0
    for whole in [*joined.tolist(), False]:
        if whole:
            run += 1
        elif run:
            lengths.append(run)
            run = 0
    return lengths


def stride_mixture(runs: Sequence[int], strides: tuple[int, ...], sizes: Tensor) -> Tensor:
    """A matrix over single steps whose products equal those over all strides together.

    A transition over `r` frames is the sum of its `r` single steps, within a run that no gap
    interrupts. With one row per transition, weighted by its size and number, only the Gram matrix
    of the rows matters: a square root of it has as many rows as there are single steps.
    """
    rows = []
    for reach in dict.fromkeys(tuple(min(r, n) if r else n for n in runs) for r in strides):
        count = sum(n - r + 1 for n, r in zip(runs, reach, strict=True))
        begin = 0
        for n, r in zip(runs, reach, strict=True):
            for first in range(begin, begin + n - r + 1):
                row = sizes.new_zeros(sum(runs))
                row[first : first + r] = 1 / (sizes[first + r - 1] * math.sqrt(count))
                rows.append(row)
            begin += n
    stacked = torch.stack(rows)
    mixed: Tensor = torch.linalg.qr(stacked, mode="r").R
    return mixed


def integration_weights(times: Tensor, joined: Tensor | None = None) -> Tensor:
    """Weights `(frames - 1, frames)` of the integrals between neighbouring frames.

    Each integrates the cubic through the four nearest frames (fewer if there are fewer) that no
    gap separates; `joined` says between which neighbours there is none. Rows of gaps are zero.
    """
    whole = (True,) * (len(times) - 1) if joined is None else tuple(joined.tolist())
    return _weights(tuple(times.tolist()), whole)


@lru_cache(maxsize=64)
def _weights(times: tuple[float, ...], whole: tuple[bool, ...]) -> Tensor:
    """The same for times that many windows have in common."""
    frames = len(times)
    moments = torch.tensor(times, dtype=torch.float64)
    weights = torch.zeros(frames - 1, frames, dtype=torch.float64)
    for j in range(frames - 1):
        if not whole[j]:
            continue
        low, high = j, j + 1
        while low > 0 and whole[low - 1]:
            low -= 1
        while high < frames - 1 and whole[high]:
            high += 1
        points = min(4, high - low + 1)
        first = max(low, min(j - 1, high + 1 - points))
        powers = torch.arange(points, dtype=torch.float64)
        step = moments[j + 1] - moments[j]
        at = (moments[first : first + points] - moments[j]) / step
        weights[j, first : first + points] = step * torch.linalg.solve(
            at[None] ** powers[:, None], 1 / (powers + 1)
        )
    return weights
