"""The fitting error of compositions on an observed window, for many candidates at once."""

from __future__ import annotations

import math
import time

import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.search.result import Composition, Cost, SearchResult
from opsplit.splitting import Scheme, lie, split_step, strang_finish, strang_prefix


class Objective:
    """Mean relative error of one teacher-forced step over the transitions of a window.

    Arguments:
        dictionary: the operators.
        window: observed frames `(time, channel, *space)`.
        grid: their space.
        dt: time between frames.
        scheme: how operators are composed.
        refinement: substeps per frame.
        memory_mb: candidates are scored in chunks that stay below this.
    """

    def __init__(
        self,
        dictionary: OperatorDictionary,
        window: Tensor,
        grid: Grid,
        dt: float,
        scheme: Scheme = "strang",
        refinement: int = 1,
        memory_mb: float = 256.0,
    ) -> None:
        if len(window) < 2:
            raise OpsplitError(f"A search needs at least 2 observed frames, got {len(window)}.")
        if len(dictionary) == 0:
            raise OpsplitError("The dictionary is empty: there is nothing to compose.")
        self.dictionary, self.window, self.grid, self.dt = dictionary, window, grid, dt
        self.scheme, self.refinement = scheme, refinement
        self.operators = dictionary.prepare(grid, window)
        self.states, self.targets = window[:-1], window[1:]
        size = self.targets.flatten(1).norm(dim=1)
        # An all-zero frame has no relative error; measure against the window's size instead.
        self.sizes = torch.where(size > 0, size, window.norm().clamp_min(1e-30))
        per_candidate = max(
            part.family.workspace(grid, len(self.states)) for part in dictionary.parts
        )
        self.chunk = max(1, int(memory_mb * 2**20 / (window.element_size() * per_candidate)))
        self.flows = 0
        self.began = time.perf_counter()

    @property
    def transitions(self) -> int:
        return len(self.states)

    @torch.no_grad()
    def score(self, sets: Tensor, strengths: Tensor | None = None) -> Tensor:
        """Fitting errors `(n,)` of `n` compositions of one length, `(n, m)` positions each."""
        return self.errors(sets, strengths).mean(1)

    @torch.no_grad()
    def errors(self, sets: Tensor, strengths: Tensor | None = None) -> Tensor:
        """Errors `(n, transitions)` of whole compositions, without any reuse."""
        out = []
        for begin in range(0, len(sets), self.chunk):
            part = sets[begin : begin + self.chunk]
            u = self.states.expand(len(part), *self.states.shape)
            weight = None if strengths is None else strengths[begin : begin + self.chunk]
            flows = [self._flow(part[:, i], weight, i) for i in range(part.shape[1])]
            u = split_step(flows, u, self.dt, self.scheme, self.refinement)
            out.append(self._relative(u, self.targets, self.sizes))
        return torch.cat(out)

    def _flow(self, index: Tensor, strengths: Tensor | None, position: int):  # type: ignore[no-untyped-def]
        def flow(u: Tensor, duration: float | Tensor) -> Tensor:
            self.flows += u.shape[0] * u.shape[1]
            if strengths is not None:
                duration = strengths[:, position] * duration
            return self.operators.flow(index, u, duration)

        return flow

    @torch.no_grad()
    def prefix(self, kept: Tensor) -> Tensor:
        """States `(beam, transitions, ...)` before the last operator of an extension acts."""
        u = self.states.expand(len(kept), *self.states.shape)
        leading = [self._flow(kept[:, i], None, i) for i in range(kept.shape[1])]
        h = self.dt / self.refinement
        return strang_prefix(leading, u, h) if self.scheme == "strang" else lie(leading, u, h)

    @property
    def can_reuse(self) -> bool:
        """Whether extensions of one list share their leading flows."""
        return self.scheme in ("lie", "strang")

    @torch.no_grad()
    def extension_errors(
        self, kept: Tensor, prefix: Tensor | None, row: Tensor, new: Tensor, frames: Tensor
    ) -> Tensor:
        """Errors `(n, frames)` of list `kept[row]` with operator `new` appended, on some frames.

        With the `prefix` of the kept lists the leading flows are not computed again.
        """
        out = []
        for begin in range(0, len(row), self.chunk):
            r, j = row[begin : begin + self.chunk], new[begin : begin + self.chunk]
            flows = [self._flow(kept[r, i], None, i) for i in range(kept.shape[1])]
            flows.append(self._flow(j, None, kept.shape[1]))
            if prefix is None:
                u = self.states[frames].expand(len(r), len(frames), *self.states.shape[1:])
                u = split_step(flows, u, self.dt, self.scheme, self.refinement)
            else:
                h = self.dt / self.refinement
                u = prefix[r][:, frames]
                u = strang_finish(flows, u, h) if self.scheme == "strang" else flows[-1](u, h)
                if self.refinement > 1:
                    rest = self.dt - h
                    u = split_step(flows, u, rest, self.scheme, self.refinement - 1)
            out.append(self._relative(u, self.targets[frames], self.sizes[frames]))
        return torch.cat(out) if out else self.states.new_zeros(0, len(frames))

    @staticmethod
    def _relative(u: Tensor, targets: Tensor, sizes: Tensor) -> Tensor:
        """Relative errors; a state that is not finite is infinitely bad."""
        error = (u - targets).flatten(2).norm(dim=2) / sizes
        return torch.where(torch.isfinite(error), error, torch.inf)

    def composition(self, operators: tuple[int, ...], fit_error: float) -> Composition:
        return Composition.of(self.dictionary, operators, fit_error)

    def result(
        self,
        strategy: str,
        pick: tuple[tuple[int, ...], float],
        tried: dict[tuple[int, ...], float],
        status: str,
        keep: int = 100,
    ) -> SearchResult:
        """Wrap what a strategy found."""
        if not math.isfinite(pick[1]):
            status += "; no operator of the dictionary gave a finite prediction"
        finite = [item for item in tried.items() if math.isfinite(item[1])]
        best = sorted(finite, key=lambda item: item[1])[:keep]
        lengths: dict[int, tuple[tuple[int, ...], float]] = {}
        for operators, error in tried.items():
            if error < lengths.get(len(operators), ((), math.inf))[1]:
                lengths[len(operators)] = (operators, error)
        ranked = {ops: e for ops, e in [*best, *lengths.values(), pick]}
        ordered = sorted(ranked.items(), key=lambda item: item[1])
        evaluations = self.flows * self.operators.evaluations(self.dt / self.refinement)
        return SearchResult(
            strategy,
            self.composition(*pick),
            tuple(self.composition(*item) for item in ordered),
            status,
            Cost(self.flows, evaluations, time.perf_counter() - self.began),
        )
