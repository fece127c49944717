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

import numpy as np
import torch
from torch import Tensor

from opsplit.search.estimate import symmetric_inverse
from opsplit.search.objective import Objective
from opsplit.search.strategy import Tried

if TYPE_CHECKING:
    from opsplit.search.classes import Classes
    from opsplit.search.estimate import Mechanisms
    from opsplit.search.pursuit import Pursuit

SILENT = np.errstate(all="ignore")
"""What is not finite is never the best, and needs no warning."""
GATHERED = 8_000_000
"""Numbers of integrals that are multiplied at once."""


class Screens:
    """The least-squares problems of some windows, and everything of them that is large.

    Transitions over several strides are mixed into as many rows as there are single transitions.
    Operators that are multiples of others share their integrals. With `r` operators that are no
    multiples of others, and rows of `transitions * points` numbers, of every window:

        integrals: `(r, row)` the integral of these operators' rates over every transition.
        mix: `(transition, transition)` from single transitions to the rows.

    Arguments:
        objective: windows and operators.
        windows: `(w,)` the windows of the objective that are looked at.
        frames: so many last frames.
        settings: those of the search.
    """

    def __init__(
        self, objective: Objective, windows: Tensor, frames: int, settings: Pursuit
    ) -> None:
        observed = objective.observed
        begin = observed.frames.shape[1] - frames
        rows = observed.scored[observed.scored >= begin] - begin
        self.used = len(rows)
        joined = torch.zeros(frames - 1, dtype=torch.bool).index_fill(0, rows.cpu(), True)
        sizes = observed.sizes[windows, -self.used :].double()
        self.mix = stride_mixture(run_lengths(joined), settings.strides, sizes)
        moments = torch.cat([torch.zeros(1).double(), observed.steps[begin:].cumsum(0)])
        whole = integration_weights(moments / observed.dt, joined)[rows.cpu()]
        weights = (self.mix @ whole.to(self.mix)) * observed.dt
        self.observed, self.multiples = observed, objective.operators.multiples
        self.row = {w: i for i, w in enumerate(windows.tolist())}
        count, points = self.mix.shape[1], observed.frames[0, 0].numel()
        basis = len(self.multiples.basis)
        self.integrals = sizes.new_zeros(len(windows), basis, count, points)
        for few in torch.arange(len(windows)).split(max(1, len(windows) // 4)):
            rates = objective.rates(windows[few], frames).flatten(3)
            one = weights[few].to(rates)
            self.integrals[few] = torch.einsum("wtf,nwfp->wntp", one, rates).double()
            del rates
        self.integrals = self.integrals.flatten(2)
        change = observed.targets[windows, -self.used :] - observed.states[windows, -self.used :]
        change = (self.mix @ change.flatten(2).double()).flatten(1)
        gram = self.integrals @ self.integrals.transpose(1, 2)
        # A rate that is not finite makes the norm so: zero times infinity is not a number.
        wild = ~gram.diagonal(dim1=1, dim2=2).isfinite()
        if bool(wild.any()):
            self.integrals[wild] = 0.0
            gram = gram.masked_fill(wild[:, :, None] | wild[:, None], 0.0)
        share = (self.integrals @ change[..., None])[..., 0]
        sums = change.square().sum(1).tolist()
        numbers = zip(
            gram.numpy(force=True), share.numpy(force=True), wild.numpy(force=True), strict=True
        )
        self.each = {
            w: Screen(objective, w, parts, whole, settings)
            for w, parts, whole in zip(self.row, numbers, sums, strict=True)
        }

    def residuals(self, predicted: Tensor, which: Sequence[int]) -> Tensor:
        """The errors `(n, row)` of one-step predictions `(n, transition, channel, *space)`, strides
        mixed in.

        Arguments:
            which: the window of every prediction.
        """
        left = self.observed.targets[list(which), -self.used :] - predicted[:, -self.used :]
        mix = self.mix[[self.row[w] for w in which]]
        return (mix @ left.flatten(2).double()).flatten(1)

    def shares(self, sets: np.ndarray, which: Sequence[int], residuals: Tensor) -> np.ndarray:
        """Inner products `(n, m)` of residuals `(n, row)` with the integrals of sets `(n, m)`."""
        held = self.multiples
        place = held.place[torch.from_numpy(sets).to(residuals.device)]
        home = torch.tensor([self.row[w] for w in which], device=residuals.device)
        out = []
        for few in torch.arange(len(sets)).split(max(1, GATHERED // residuals[0].numel())):
            rows = self.integrals[home[few, None], place[few]]
            out.append((rows @ residuals[few][..., None])[..., 0])
        found: np.ndarray = torch.cat(out).numpy(force=True)
        return found * self.each[which[0]].factor[sets]


class Screen:
    """The algebra of one window, on the classes of operators that differ in strength alone.

    Attributes, with `g` classes:

        products: `(g,)` inner products of the integrals of the classes' heads with the change.
        norms: `(g,)` squared norms of these integrals.
        excluded: `(g,)` classes that are not finite, or have no effect.
        whole: squared norm of the change.
        least: smallest norm of a residual of two and more parts so far.
    """

    def __init__(
        self,
        objective: Objective,
        window: int,
        numbers: tuple[np.ndarray, np.ndarray, np.ndarray],
        whole: float,
        settings: Pursuit,
    ) -> None:
        gram, share, wild = numbers
        self.classes: Classes = objective.classes(settings.fits_strengths)
        self.mechanisms: Mechanisms = objective.mechanisms(window)
        multiples = objective.operators.multiples
        self.place, self.factor = (x.numpy(force=True) for x in (multiples.place, multiples.factor))
        self._gram, self._share, self.whole = gram, share, whole
        self.least = math.inf
        heads = self.classes.heads
        self.columns = self.gram(heads)
        self.norms, self.products = self.columns.diagonal(), self.share(heads)
        self.excluded = wild[self.place[heads]]
        if settings.fits_strengths:
            # No strength makes an operator without effect useful.
            self.excluded = self.excluded | (self.norms == 0)

    def gram(self, members: Sequence[int] | np.ndarray) -> np.ndarray:
        """Inner products of the integrals of operators, `(m, m)`."""
        at, factor = self.place[members], self.factor[members]
        found: np.ndarray = self._gram[at[:, None], at] * factor[:, None] * factor
        return found

    def share(self, members: Sequence[int] | np.ndarray) -> np.ndarray:
        """Inner products of the integrals of operators with the change, `(m,)`."""
        found: np.ndarray = self._share[self.place[members]] * self.factor[members]
        return found

    def step(self, members: np.ndarray, share: np.ndarray, damping: float) -> np.ndarray:
        """A Levenberg-Marquardt step; the integrals are the derivatives by the strengths.

        Arguments:
            share: inner products of the integrals with the residual.
        """
        normal = self.gram(members)
        lifted = normal + damping * np.diag(normal.diagonal().clip(min=1e-300))
        found: np.ndarray = symmetric_inverse(lifted) @ share
        return np.where(np.isfinite(found), found, 0.0)

    @SILENT
    def singles(self, settings: Pursuit) -> Sets:
        """All classes by themselves."""
        if settings.refine == "none":
            s = np.ones_like(self.products)
        else:
            s = (self.products / self.norms.clip(min=1e-300)).clip(0, settings.max_strength)
        gain = 2 * s * self.products - s * s * self.norms
        # Operators without any effect explain a window at rest as well as others do.
        gain = np.where(self.excluded & ~self.excluded.all(), -np.inf, gain)
        everyone = np.arange(len(self.classes))
        return self._best(everyone[:, None], s[:, None], gain, settings)

    @SILENT
    def extend(self, kept: Sets, settings: Pursuit) -> Sets:
        """The most promising sets with one more class."""
        held = kept.members[: settings.width]
        extend = self._fixed if settings.refine == "none" else self.free
        s, gain = extend(held, settings.max_strength or math.inf)
        gain[np.arange(len(held))[:, None], held] = -np.inf
        gain[:, self.excluded] = -np.inf
        count = len(self.classes)
        if settings.fits_strengths:
            # Two operators that undo each other are one weaker operator.
            gain[self.classes.opposite(self.mechanisms)[held].any(1)] = -np.inf
        index = np.broadcast_to(np.arange(count), gain.shape)
        if settings.survivors is not None and settings.width < count:
            index = np.argsort(-gain, axis=1, kind="stable")[:, : settings.width]
        rows = np.broadcast_to(np.arange(len(held))[:, None], index.shape)
        members = np.concatenate([held[rows], index[..., None]], 2)
        members = members.reshape(index.size, held.shape[1] + 1)
        strengths, gains = s[rows, index].reshape(members.shape), gain[rows, index].ravel()
        if settings.fits_strengths:
            members, strengths = self._turned(members, strengths)
        found = self._best(members, strengths, gains, settings)
        self.least = min([self.least, *found.left[:1].tolist()])
        return found

    def _turned(self, members: np.ndarray, strengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Classes of negative strength replaced by those of the opposite direction."""
        other = self.classes.turned[members]
        negative = (strengths < 0) & (other >= 0)
        if not negative.any():
            return members, strengths
        size = np.sqrt(self.norms[members] / self.norms[other].clip(min=1e-300))
        found = np.where(negative, -strengths * size, strengths)
        return np.where(negative, other, members), found

    @SILENT
    def free(self, members: np.ndarray, most: float) -> tuple[np.ndarray, np.ndarray]:
        """Best strengths `(k, g, m + 1)` and gains of adding every class to sets.

        A set whose best strengths are not all positive is no better than a smaller one, unless
        there is an operator of the opposite direction.
        """
        columns = self.columns[members].transpose(0, 2, 1)
        own = self.columns[members[:, :, None], members[:, None]]
        share = self.products[members]
        if members.shape[1] == 1:
            inverse = np.where(own > 0, 1 / own, 0.0)
        else:
            scale = np.sqrt(self.norms[members].clip(min=1e-300))
            both = scale[:, :, None] * scale[:, None]
            inverse = symmetric_inverse(own / both) / both
        base = (inverse @ share[..., None])[..., 0]
        explained = columns @ inverse
        left = self.norms - (explained * columns).sum(2)
        fresh = left > 1e-9 * self.norms
        rest = self.products - (columns @ base[..., None])[..., 0]
        new = rest / np.where(fresh, left, 1.0)
        s = np.concatenate([base[:, None] - explained * new[..., None], new[..., None]], 2)
        gain = (share * base).sum(1, keepdims=True) + new * new * left
        turns = self.classes.turned[members][:, None] >= 0
        positive = ((s[..., :-1] > 0) | turns).all(2) & (new > 0)
        valid = fresh & positive & (np.abs(s) <= most).all(2)
        return s, np.where(valid, gain, -np.inf)

    def _fixed(self, members: np.ndarray, most: float) -> tuple[np.ndarray, np.ndarray]:
        """Gains of adding every operator to sets, all strengths equal to one."""
        own = self.columns[members[:, :, None], members[:, None]]
        inside = 2 * self.products[members].sum(1) - own.sum((1, 2))
        beside = self.columns[members].sum(1)
        gain = inside[:, None] + 2 * self.products - self.norms - 2 * beside
        return np.ones((*gain.shape, members.shape[1] + 1)), gain

    def _best(
        self, members: np.ndarray, strengths: np.ndarray, gain: np.ndarray, settings: Pursuit
    ) -> Sets:
        """The best sets, each once."""
        wanted = max(settings.width, settings.survivors or len(members))
        # Among lists of one set the first counts, in the order of the kept sets, as in beam search.
        rows = np.flatnonzero(gain > -np.inf)
        if members.shape[1] > 1 and len(rows):
            same = np.zeros_like(rows)
            for column in np.sort(members[rows], 1).T:
                _, first, same = np.unique(
                    same * len(self.classes) + column, return_index=True, return_inverse=True
                )
            rows = rows[np.sort(first)]
        chosen = rows[np.argsort(-gain[rows], kind="stable")[:wanted]]
        left = np.sqrt((self.whole - gain[chosen]).clip(min=0))
        return Sets(members[chosen], strengths[chosen], left)

    def operators(self, sets: Sets) -> tuple[np.ndarray, np.ndarray]:
        """Positions and strengths `(n, m)` of the operators that stand for sets of classes."""
        pairs = zip(sets.members.ravel().tolist(), sets.strengths.ravel().tolist(), strict=True)
        found = [self.classes.member(number, strength) for number, strength in pairs]
        shape = sets.members.shape
        positions = np.array([i for i, _ in found], dtype=np.int64).reshape(shape)
        return positions, np.array([s for _, s in found]).reshape(shape)

    def by_error(self, sets: Sets, scored: list[Tried]) -> Sets:
        """The same sets in the order of their fitting errors."""
        error = {t.operators: t.error for t in scored}
        found = self.operators(sets)[0]
        errors = np.array([error[tuple(m)] for m in found.tolist()])
        # Sets that fit alike keep the order of the dictionary, as in beam search.
        order = np.lexsort((found[:, -1], errors))
        return Sets(sets.members[order], sets.strengths[order], sets.left[order])


@dataclass(frozen=True)
class Sets:
    """Sets of classes of one size that algebra finds promising, best first."""

    members: np.ndarray
    """`(n, m)` the classes."""
    strengths: np.ndarray
    """`(n, m)` those of the classes' heads."""
    left: np.ndarray
    """`(n,)` norm of the residual."""

    def __len__(self) -> int:
        return len(self.members)

    def first(self, n: int | None) -> Sets:
        return self if n is None else Sets(self.members[:n], self.strengths[:n], self.left[:n])


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

    Arguments:
        sizes: `(..., step)` the norms of the single steps' second frames.
    """
    share, last = _strided(tuple(runs), strides)
    rows = share.to(sizes) / sizes[..., last, None]
    mixed: Tensor = torch.linalg.qr(rows, mode="r").R
    return mixed


@lru_cache(maxsize=64)
def _strided(runs: tuple[int, ...], strides: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Of every transition over all strides its single steps, and the last one of them."""
    rows, last = [], []
    for reach in dict.fromkeys(tuple(min(r, n) if r else n for n in runs) for r in strides):
        count = sum(n - r + 1 for n, r in zip(runs, reach, strict=True))
        begin = 0
        for n, r in zip(runs, reach, strict=True):
            for first in range(begin, begin + n - r + 1):
                row = torch.zeros(sum(runs), dtype=torch.float64)
                row[first : first + r] = 1 / math.sqrt(count)
                rows.append(row)
                last.append(first + r - 1)
            begin += n
    return torch.stack(rows), torch.tensor(last)


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
