"""The fitting error of compositions on observed windows, for many candidates at once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, PreparedDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.search.result import Cost
from opsplit.splitting import Flow, Scheme, lie, split_step, strang_finish, strang_prefix

GAP = 1.75
"""Frames that are this many usual steps apart have others missing between them."""


class BudgetError(Exception):
    """A search ran into its limit of time or evaluations; the message says which."""


class Objective:
    """Mean relative error of one teacher-forced step over the transitions of a window.

    Several windows are scored in the same calls: candidate `i` belongs to window `which[i]`.

    Arguments:
        dictionary: the operators.
        window: observed frames `(time, channel, *space)`, or several such windows
            `(window, time, channel, *space)`.
        grid: their space.
        dt: time between frames, one number or one per pair of neighbours. Pairs that are much
            further apart than usual are gaps, and not scored. An infinite step ends a trajectory:
            the next frame begins another one of the same dynamics.
        scheme: how operators are composed.
        refinement: substeps per frame.
        memory_mb: candidates are scored in chunks that stay below this.
    """

    def __init__(
        self,
        dictionary: OperatorDictionary,
        window: Tensor,
        grid: Grid,
        dt: float | Sequence[float],
        scheme: Scheme = "strang",
        refinement: int = 1,
        memory_mb: float = 256.0,
    ) -> None:
        windows = window if window.ndim == 3 + grid.ndim else window[None]
        if windows.shape[1] < 2:
            raise OpsplitError(
                f"A search needs at least 2 observed frames, got {windows.shape[1]}."
            )
        if len(dictionary) == 0:
            raise OpsplitError("The dictionary is empty: there is nothing to compose.")
        self.dictionary, self.windows, self.grid = dictionary, windows, grid
        self.scheme, self.refinement, self.memory_mb = scheme, refinement, memory_mb
        self.operators = dictionary.prepare(grid, windows)
        between = torch.as_tensor(dt, dtype=torch.float64).cpu()
        if between.ndim and len(between) != windows.shape[1] - 1:
            raise OpsplitError(
                f"{windows.shape[1]} frames have {windows.shape[1] - 1} steps between them, "
                f"got {len(between)}."
            )
        between = between.expand(windows.shape[1] - 1)
        self.breaks = between.isinf()
        self.dt = float(between[~self.breaks].median())
        self.between = torch.where(self.breaks, 2 * GAP * self.dt, between)
        self.scored = (self.between <= GAP * self.dt).nonzero()[:, 0].to(windows.device)
        steps = self.between[self.scored.cpu()]
        # Times read from a file are rounded; equal steps share their calls.
        even = torch.allclose(steps, steps.new_tensor(self.dt), rtol=1e-4, atol=0)
        self.durations: float | Tensor = self.dt if even else steps.to(windows)
        self.states, self.targets = windows[:, self.scored], windows[:, self.scored + 1]
        size = self.targets.flatten(2).norm(dim=2)
        # An all-zero frame has no relative error; measure against the window's size instead.
        whole = windows.flatten(1).norm(dim=1).clamp_min(1e-30)
        self.sizes = torch.where(size > 0, size, whole[:, None])
        per_candidate = max(
            part.family.workspace(grid, self.transitions) for part in dictionary.parts
        )
        if not even:
            per_candidate *= self.transitions
        self.chunk = max(1, int(memory_mb * 2**20 / (windows.element_size() * per_candidate)))
        self.flows = self.evaluations = 0
        self.began = time.perf_counter()
        self.limit_seconds = self.limit_evaluations = math.inf

    @property
    def transitions(self) -> int:
        """Pairs of neighbouring frames that are scored."""
        return self.states.shape[1]

    def scored_among(self, frames: int) -> int:
        """Scored transitions between the last so many frames."""
        return int((self.scored >= self.windows.shape[1] - frames).sum())

    def _lasting(self, frames: Tensor | None = None) -> float | Tensor:
        """How long the scored transitions (or these of them) last."""
        h = self.durations
        return h[frames] if isinstance(h, Tensor) and frames is not None else h

    @property
    def device(self) -> torch.device:
        return self.windows.device

    def __len__(self) -> int:
        """Windows."""
        return len(self.windows)

    # What a search may spend, and what it spent.

    def limit(self, seconds: float | None, evaluations: int | None) -> None:
        """Let scoring raise `BudgetError` beyond these limits, counted from now."""
        self.began = time.perf_counter()
        self.flows = self.evaluations = 0
        self.limit_seconds = math.inf if seconds is None else seconds
        self.limit_evaluations = math.inf if evaluations is None else evaluations

    def forget_limits(self) -> None:
        self.limit_seconds = self.limit_evaluations = math.inf

    def check_budget(self) -> None:
        if self.evaluations >= self.limit_evaluations:
            raise BudgetError(f"stopped by max_evaluations={self.limit_evaluations:,}")
        if time.perf_counter() - self.began >= self.limit_seconds:
            raise BudgetError(f"stopped by max_seconds={self.limit_seconds:g}")

    def cost(self) -> Cost:
        """What was spent since the search began."""
        seconds = time.perf_counter() - self.began
        return Cost(self.flows, self.evaluations, seconds, self.operators.flops)

    # Scores.

    def score(
        self, sets: Tensor, strengths: Tensor | None = None, which: Tensor | None = None
    ) -> Tensor:
        """Fitting errors `(n,)` of `n` compositions of one length, `(n, m)` positions each."""
        return self.errors(sets, strengths, which).mean(1)

    def errors(
        self,
        sets: Tensor,
        strengths: Tensor | None = None,
        which: Tensor | None = None,
        frames: Tensor | None = None,
    ) -> Tensor:
        """Errors `(n, transitions)` of whole compositions, without any reuse, or on some frames."""
        home = self._home(sets, which)
        at = torch.arange(self.transitions, device=sets.device) if frames is None else frames
        lasting = self._lasting(at)
        out = [self.states.new_zeros(0, len(at))]
        for part in self._chunks(len(sets)):
            weight = None if strengths is None else strengths[part]
            u = self.states[home[part][:, None], at]
            u = self.step(sets[part], u, weight, duration=lasting)
            out.append(self.relative(u, home[part], at))
        return torch.cat(out)

    @torch.no_grad()
    def step(
        self,
        sets: Tensor,
        u: Tensor,
        strengths: Tensor | None = None,
        operators: PreparedDictionary | None = None,
        duration: float | Tensor | None = None,
    ) -> Tensor:
        """States `(n, K, channel, *space)` one frame later, under one composition each.

        Without a `duration` they are the states of the scored transitions.
        """
        flows = [self._flow(sets[:, i], strengths, i, operators) for i in range(sets.shape[1])]
        lasting = self._lasting() if duration is None else duration
        return split_step(flows, u, lasting, self.scheme, self.refinement)

    def free_run(
        self, sets: Tensor, strengths: Tensor | None = None, which: Tensor | None = None
    ) -> Tensor:
        """Relative errors `(n, transitions)` of a rollout from the first frame alone."""
        home = self._home(sets, which)
        u = self.free_states(sets, strengths, home)
        return self.relative(u, home)

    def free_states(self, sets: Tensor, strengths: Tensor | None, home: Tensor) -> Tensor:
        """The rollout itself at the ends of the transitions `(n, transitions, channel, *space)`."""
        u = self.windows[home, :1]
        frames = []
        for i, span in enumerate(self.between.tolist()):
            if self.breaks[i]:
                u = self.windows[home, i + 1 : i + 2]
                frames.append(u)
                continue
            steps = 1 if span <= GAP * self.dt else math.ceil(span / self.dt - 1e-6)
            for _ in range(steps):
                u = self.step(sets, u, strengths, duration=span / steps)
            frames.append(u)
        return torch.cat(frames, 1)[:, self.scored]

    def rates(self, windows: Tensor, frames: int) -> Tensor:
        """`f(u)` of every operator on the last frames: `(operator, window, frame, ...)`."""
        u = self.windows[windows, -frames:]
        each = u.flatten(0, 1)
        n = len(self.dictionary)
        cost = max(p.family.workspace(self.grid, len(each)) for p in self.dictionary.parts)
        count = max(p.family.rate_evaluations for p in self.dictionary.parts)
        chunk = max(1, int(self.memory_mb / 4 * 2**20 / (u.element_size() * cost)))
        out = []
        for begin in range(0, n, chunk):
            index = torch.arange(begin, min(begin + chunk, n), device=self.device)
            with torch.no_grad():
                out.append(self.operators.rate(index, each.expand(len(index), *each.shape)))
            self.evaluations += len(index) * len(each) * count
        return torch.cat(out).unflatten(1, u.shape[:2])

    def _home(self, sets: Tensor, which: Tensor | None) -> Tensor:
        return sets.new_zeros(len(sets)) if which is None else which

    def _chunks(self, n: int) -> Iterator[slice]:
        """Slices of the candidates; the budget is looked at before each but the very first."""
        for begin in range(0, n, self.chunk):
            if self.evaluations:
                self.check_budget()
            yield slice(begin, begin + self.chunk)

    def _flow(
        self,
        index: Tensor,
        strengths: Tensor | None,
        position: int,
        operators: PreparedDictionary | None = None,
    ) -> Flow:
        used = operators or self.operators

        def flow(u: Tensor, duration: float | Tensor) -> Tensor:
            entries, each = index, u
            if isinstance(duration, Tensor) and duration.ndim:
                # Transitions that last differently long become entries of their own.
                weight = 1.0 if strengths is None else strengths[:, position, None].to(u.dtype)
                entries = index.repeat_interleave(u.shape[1])
                duration = (weight * duration).expand(u.shape[:2]).flatten()
                each = u.flatten(0, 1)[:, None]
            elif strengths is not None:
                duration = strengths[:, position].to(u.dtype) * duration
            states = u.shape[0] * u.shape[1]
            self.flows += states
            self.evaluations += round(states * used.evaluations(duration))
            return used.flow(entries, each, duration).reshape(u.shape)

        return flow

    # Extensions of kept lists, for beam search.

    @torch.no_grad()
    def prefix(self, kept: Tensor, which: Tensor | None = None) -> Tensor:
        """States `(beam, transitions, ...)` before the last operator of an extension acts."""
        u = self.states[self._home(kept, which)]
        leading = [self._flow(kept[:, i], None, i) for i in range(kept.shape[1])]
        h = self._lasting() / self.refinement
        return strang_prefix(leading, u, h) if self.scheme == "strang" else lie(leading, u, h)

    @property
    def can_reuse(self) -> bool:
        """Whether extensions of one list share their leading flows."""
        return self.scheme in ("lie", "strang")

    @torch.no_grad()
    def extension_errors(
        self,
        kept: Tensor,
        prefix: Tensor | None,
        row: Tensor,
        new: Tensor,
        frames: Tensor,
        which: Tensor | None = None,
    ) -> Tensor:
        """Errors `(n, frames)` of list `kept[row]` with operator `new` appended, on some frames.

        With the `prefix` of the kept lists the leading flows are not computed again.
        """
        home = self._home(kept, which)
        lasting = self._lasting(frames)
        out = [self.states.new_zeros(0, len(frames))]
        for part in self._chunks(len(row)):
            r, j = row[part], new[part]
            flows = [self._flow(kept[r, i], None, i) for i in range(kept.shape[1])]
            flows.append(self._flow(j, None, kept.shape[1]))
            if prefix is None:
                u = self.states[home[r][:, None], frames]
                u = split_step(flows, u, lasting, self.scheme, self.refinement)
            else:
                h = lasting / self.refinement
                u = prefix[r[:, None], frames]
                u = strang_finish(flows, u, h) if self.scheme == "strang" else flows[-1](u, h)
                if self.refinement > 1:
                    rest = lasting - h
                    u = split_step(flows, u, rest, self.scheme, self.refinement - 1)
            out.append(self.relative(u, home[r], frames))
        return torch.cat(out)

    def relative(self, u: Tensor, home: Tensor, frames: Tensor | None = None) -> Tensor:
        """Relative errors; a state that is not finite is infinitely bad."""
        chosen = torch.arange(self.transitions, device=home.device) if frames is None else frames
        at = (home[:, None], chosen)
        error = (u - self.targets[at]).flatten(2).norm(dim=2) / self.sizes[at]
        return torch.where(torch.isfinite(error), error, torch.inf)
