"""Pursuit: our search. Rates once, least squares for all sets, real flows for the best.

On the observed frames every operator has a rate `f_i(u_t)`. A composition with strengths `s_i`
explains the window if `u_b - u_a = sum_i s_i int_a^b f_i(u) dt` between all frames `a < b`. The
integrals follow from the rates by quadrature. Sets of any size are therefore scored by inner
products of these integrals, without another call of an operator. The best sets of every size are
then scored with real flows, and Levenberg-Marquardt steps refine their strengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.search.beam import settle
from opsplit.search.codes import refine_codes
from opsplit.search.estimate import estimate
from opsplit.search.objective import Objective
from opsplit.search.polish import polished, stronger
from opsplit.search.screen import Screen, Screens, Sets
from opsplit.search.strategy import (
    Count,
    Improvement,
    Record,
    Report,
    Strategy,
    Tried,
    as_tensors,
    best_so_far,
)
from opsplit.settings import AtMost, Between, Size

LEAP = 0.5
"""A size is passed over if one more part reduces the residual to less than this share, or several
more parts to this share each."""
HOPE = 0.9
"""A size is not the last if several more parts reduce the residual to less than this share each."""
MOST_ROUNDS = 16
"""Rounds of refinement at most, as long as each of them gets on."""
ONWARD = 0.8
"""A round that leaves at most this share of what was left before it gets on."""
MUCH = 0.05
"""Several more parts are looked at where more than this share of the change is left."""
STRONGER = 4
"""So many times operators that are as strong as they may be give way to stronger ones."""
ROUNDING = 1e-6
"""Fitting errors below this are those of single precision."""


@dataclass(frozen=True)
class Pursuit(Strategy):
    """Find operators and their strengths together.

    Arguments:
        max_parts: longest composition.
        threshold: smallest relative improvement that justifies one more operator.
        tolerance: a fitting error that needs no further parts, whatever they improve; where little
            changes, a smaller one does.
        refine: `"none"` keeps all strengths at one, `"strengths"` fits them, `"codes"` also
            moves the codes of the picked operators through the frozen decoder.
        width: sets per length that are extended, chosen by algebra.
        survivors: sets per length that are scored with real flows (None: all).
        iterations: Levenberg-Marquardt steps on the survivors' strengths.
        max_strength: largest strength (None: what all operators of the dictionary allow). A
            strength is a longer flow, and learned flows are trained on short ones.
        strides: transitions over so many frames count together with single steps; 0 is the
            whole window. Long ones show weak effects, and noise averages out over them.
        screen_frames: only the last so many frames enter the algebra (None: all).

    Examples:
        >>> import opsplit
        >>> splitter = opsplit.OperatorSplitter("combined", opsplit.Pursuit(max_seconds=5))
    """

    max_parts: Count = 5
    threshold: Improvement = 0.05
    tolerance: Annotated[float, Between(0.0, 1e30)] = 2e-5
    refine: Literal["none", "strengths", "codes"] = "strengths"
    width: Count = 32
    survivors: Count | None = 6
    iterations: Annotated[int, Between(0, 1000)] = 2
    max_strength: Size | None = None
    strides: Annotated[tuple[int, ...], Between(0, 10**6), AtMost(1000)] = (1, 4, 0)
    screen_frames: Annotated[int, Between(2, 10**9)] | None = None
    rerank: bool = field(default=True, kw_only=True)

    kind: ClassVar[str] = "pursuit"

    @property
    def fits_strengths(self) -> bool:
        """Whether operators get a strength: all but `refine="none"` do that."""
        return self.refine != "none"

    def least_mb(self, objective: Objective) -> float:
        return max(objective.least_mb(), 2 * self._frame_mb(objective))

    @staticmethod
    def _frame_mb(objective: Objective) -> float:
        """Megabytes of the rates of operators, multiples of others left out, on one frame.

        Rates in single and integrals in double precision, with room for a copy.
        """
        operators = len(objective.operators.multiples.basis)
        return 16 * operators * objective.windows[0, 0].numel() / 2**20

    def check(self) -> None:
        if not self.strides:
            raise OpsplitError(
                "Pursuit: strides is empty; (1, 4, 0) means one frame, four frames, the window."
            )

    def explore(self, objective: Objective, records: list[Record], report: Report) -> None:
        if self.max_strength is None:
            return replace(self, max_strength=self._most(objective)).explore(
                objective, records, report
            )
        observed = objective.windows.shape[1]
        frames = min(self.screen_frames or observed, observed)
        while not objective.observed.scored_among(frames):
            frames += 1
        room = objective.memory_mb / self._frame_mb(objective)
        while frames > 2 and room < frames and objective.observed.scored_among(max(2, frames // 2)):
            frames = max(2, frames // 2)
        if frames < min(self.screen_frames or observed, observed):
            for record in records:
                record.remark = (
                    f"The memory limit leaves {frames} of {observed} frames for the choice of "
                    "operators; a larger memory_mb lets it use more."
                )
        fit = int(room / frames)
        windows = torch.arange(len(objective), device=objective.device)
        groups = windows.split(max(1, fit))
        for i, group in enumerate(groups):

            def part(share: float, words: str, before: int = i) -> None:
                report((before + share) / len(groups), words)

            self._explore_group(objective, records, group, frames, part)

    def finish(self, objective: Objective, records: list[Record]) -> None:
        if self.refine == "codes":
            refine_codes(objective, records, self._most(objective))

    def _most(self, objective: Objective) -> float:
        """The largest strength that the search gives to an operator."""
        if self.max_strength is not None:
            return self.max_strength
        return largest_strength(objective.dictionary)

    def _explore_group(
        self,
        objective: Objective,
        records: list[Record],
        group: Tensor,
        frames: int,
        report: Report,
    ) -> None:
        held = Screens(objective, group, frames, self)
        screens = held.each
        longest = min(self.max_parts, len(objective.dictionary))
        promising = {w: screen.singles(self) for w, screen in screens.items()}
        for w in [w for w, sets in promising.items() if not len(sets)]:
            records[w].status, records[w].done = "no operator has a finite effect", True
            del promising[w]
        longest = longest if promising else 0
        enough = self._enough(objective)
        for size in range(1, longest + 1):
            last, ahead = size == longest, {}
            brief: dict[int, Sets] = {}
            hopeful: set[int] = set()
            if not last and self.survivors is not None:
                ahead = {w: screens[w].extend(p, self) for w, p in promising.items()}
                for w, sets in ahead.items():
                    share = self._outlook(screens[w], promising[w], sets, longest - size)
                    # Where algebra sees a large step ahead, one set of this size is enough.
                    if share < LEAP:
                        brief[w] = promising[w].first(1)
                    # Mechanisms may cancel until the last is there.
                    if share < HOPE:
                        hopeful.add(w)
            full = {w: p.first(self.survivors) for w, p in promising.items() if w not in brief}
            self._score(objective, records, held, brief, 0)
            self._score(objective, records, held, full, self.iterations)
            for w in list(promising):
                record = records[w]
                parts = f"{size} part" if size == 1 else f"{size} parts"
                alike = [t for t in record.tried.values() if len(t.operators) == size]
                leader = min(alike, key=lambda t: t.error)
                done = settle(record, leader, size, longest, self.threshold)
                done = done and w not in hopeful
                if not done and leader.error < enough[w]:
                    record.status, done = (
                        f"{parts} fit to {enough[w]:.2g}",
                        True,
                    )
                if not done and self.survivors is None:
                    ahead[w] = screens[w].extend(screens[w].by_error(promising[w], alike), self)
                if not done and not len(ahead[w]):
                    record.status, done = (
                        f"no operator improves on {parts}",
                        True,
                    )
                record.done = done
                del promising[w]
                if not done:
                    promising[w] = ahead[w]
            report(size / longest, best_so_far(objective, records[int(group[0])].pick))
            if not promising:
                break
        if self.fits_strengths and self.iterations:
            self._polish(objective, {w: records[w] for w in screens})
            report(1.0, best_so_far(objective, records[int(group[0])].pick))
        for w, screen in screens.items():
            records[w].least = screen.least
            if self.fits_strengths:
                # Each may still become the pick, and one estimate belongs to one composition.
                for tried in self.final(records[w]):
                    most = self._most(objective)
                    records[w].estimates[tried.operators] = estimate(screen, tried, most)

    def _polish(self, objective: Objective, records: dict[int, Record]) -> None:
        """Give the picks the best strengths that there are nearby."""
        most = self._most(objective)
        picks = {w: r.pick for w, r in records.items() if r.pick and r.pick.residual}
        for _ in range(1 + STRONGER):
            picks = {w: t for w, t in picks.items() if math.isfinite(t.error)}
            for w, now in self._polished(objective, picks).items():
                picks[w] = records[w].tried[now.operators] = records[w].pick = now
            # What is as strong as it may be goes on as a stronger operator of its mechanism.
            each = {w: stronger(objective.mechanisms(w), t, most) for w, t in picks.items()}
            picks = {w: t for w, t in each.items() if t is not None}

    def _polished(self, objective: Objective, picks: dict[int, Tried]) -> dict[int, Tried]:
        """Those of the picks that get better, with their new strengths."""
        found = {}
        for size in {len(t.operators) for t in picks.values()}:
            group = [(w, t) for w, t in picks.items() if len(t.operators) == size]
            which = torch.tensor([w for w, _ in group], device=objective.device)
            sets, strengths = as_tensors([t for _, t in group], objective)
            most = self._most(objective)
            best = list(polished(objective, self.strides, sets, strengths, which, most))
            refined = torch.stack([s for s, _ in best])
            errors = objective.score(sets, refined, which).tolist()
            for (w, old), (s, share), error in zip(group, best, errors, strict=True):
                if share < 1:
                    residual = share * (old.residual or 0.0)
                    found[w] = Tried(old.operators, error, tuple(s.tolist()), residual=residual)
        return found

    def _enough(self, objective: Objective) -> np.ndarray:
        """The fitting error of every window that needs no further parts.

        It is relative to the field. Where a large mean hardly changes, all errors are small, and
        what counts is the share of the change.
        """
        seen = objective.observed
        changed = (seen.targets - seen.states).flatten(2).norm(dim=2) / seen.sizes
        least: np.ndarray = MUCH * changed.double().mean(1).numpy(force=True)
        return np.minimum(self.tolerance, least.clip(min=min(ROUNDING, self.tolerance)))

    def _outlook(self, screen: Screen, now: Sets, ahead: Sets, more: int) -> float:
        """The share of the residual that each further part leaves, as algebra sees it: of one
        more part or, where much is left to explain, of several that cancel each other."""
        much = len(now) > 0 and bool(now.left[0] > MUCH * math.sqrt(screen.whole))
        best = 1.0
        for parts in range(1, more + 1):
            if not len(ahead):
                break
            best = min(best, float(ahead.left[0] / max(now.left[0], 1e-300)) ** (1 / parts))
            if best < LEAP or not much or parts == more:
                break
            ahead = screen.extend(ahead, self)
        return best

    def _score(
        self,
        objective: Objective,
        records: list[Record],
        screens: Screens,
        candidates: dict[int, Sets],
        iterations: int,
    ) -> None:
        """Score candidates of one size with real flows and refine their strengths."""
        if not candidates:
            return
        observed, device = objective.observed, objective.device
        which = [w for w, sets in candidates.items() for _ in range(len(sets))]
        chosen = [screens.each[w].operators(s) for w, s in candidates.items()]
        sets = np.concatenate([positions for positions, _ in chosen])
        strengths = np.concatenate([s for _, s in chosen])
        refine, most = self.refine != "none", self._most(objective)
        rounds = iterations if refine else 0
        strided, errors = np.full(len(sets), np.inf), np.full(len(sets), np.inf)
        trial, damping = strengths.clip(0, most), np.full(len(sets), 1e-6)
        gap = np.zeros_like(strengths)
        live, enough = np.arange(len(sets)), self._enough(objective)
        for iteration in range(1 + MOST_ROUNDS if rounds else 1):
            before = strided.copy()
            for part in np.split(live, range(objective.chunk, len(live), objective.chunk)):
                if objective.meter.flows:
                    objective.meter.check()
                home = [which[i] for i in part]
                at = torch.tensor(home, device=device)
                weight = torch.from_numpy(trial[part]).to(device) if refine else None
                members = torch.from_numpy(sets[part]).to(device)
                u = objective.step(members, observed.states[at], weight)
                found = observed.errors(u, at).mean(1).tolist()
                residuals = screens.residuals(u, home)
                sizes = residuals.norm(dim=1).tolist()
                share = screens.shares(sets[part], home, residuals) if rounds else None
                for row, (i, e, size) in enumerate(zip(part, found, sizes, strict=True)):
                    if math.isfinite(e) and size < strided[i] * (1 - 1e-9):
                        strided[i], errors[i], strengths[i] = size, e, trial[i]
                        gap[i] = 0.0 if share is None else share[row]
                        damping[i] *= 0.1
                    else:
                        damping[i] *= 100
                        if iteration == 0:
                            errors[i] = e
                    own = tuple(trial[i].tolist()) if refine else None
                    records[which[i]].add(Tried(tuple(sets[i].tolist()), e, own))
            live = _better_half(which, errors)
            if iteration >= rounds:
                # Frames far apart make steps inexact: the best goes on as long as it gets on.
                best_of = {which[i]: i for i in reversed(live)}
                live = np.array(list(best_of.values()), dtype=np.int64)
                onward = (strided < ONWARD * before) & (errors > enough[which])
                live = live[onward[live]]
            live = live[np.isfinite(strided[live])]
            if not len(live):
                break
            for i in live:
                step = screens.each[which[i]].step(sets[i], gap[i], damping[i])
                trial[i] = (strengths[i] + step).clip(0, most)
        # The strengths that explain all strides best count, not those of the single steps.
        for i, operators in enumerate(sets.tolist()):
            own = tuple(strengths[i].tolist()) if refine else None
            best = Tried(tuple(operators), float(errors[i]), own, residual=float(strided[i]))
            records[which[i]].tried[best.operators] = best


def _better_half(which: list[int], errors: np.ndarray) -> np.ndarray:
    """Positions of the better half of the candidates of every window: only they are worth more
    flows."""
    mine: dict[int, list[int]] = {}
    for i, w in enumerate(which):
        mine.setdefault(w, []).append(i)
    halves = (sorted(own, key=lambda i: errors[i])[: (len(own) + 1) // 2] for own in mine.values())
    return np.array([i for half in halves for i in half], dtype=np.int64)


def largest_strength(dictionary: OperatorDictionary) -> float:
    """The largest strength that every operator of a dictionary allows."""
    return float(dictionary.max_strengths.min())
