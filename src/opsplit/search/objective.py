"""The fitting error of compositions on observed windows, for many candidates at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, PreparedDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.search.budget import Meter
from opsplit.search.classes import Classes
from opsplit.search.estimate import Mechanisms
from opsplit.search.result import Cost
from opsplit.search.window import Windows
from opsplit.splitting import Flow, Scheme, split_step


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
        named: per window the same operators with coefficients in the units of its data (not
            given: those of the dictionary).
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
        named: Sequence[OperatorDictionary] | None = None,
    ) -> None:
        self.observed = Windows.of(window, grid, dt)
        if len(dictionary) == 0:
            raise OpsplitError("The dictionary is empty: there is nothing to compose.")
        self.dictionary, self.grid = dictionary, grid
        self.scheme, self.refinement, self.memory_mb = scheme, refinement, memory_mb
        self.named = tuple(named or [dictionary] * len(self.observed))
        self._mechanisms: dict[int, Mechanisms] = {}
        self._classes: dict[bool, Classes] = {}
        self.operators = dictionary.prepare(grid, self.windows)
        self.meter = Meter()
        # Where transitions last differently long, each is an entry of its own.
        entries = 1 if self.observed.even else self.transitions
        self.chunk = self._fitting(memory_mb, self.transitions, entries)

    def _fitting(self, memory_mb: float, states: int, entries: int = 1) -> int:
        """How many operators may act on so many states at once within this memory."""
        numbers = max(p.family.workspace(self.grid, states) for p in self.dictionary.parts)
        return max(1, int(memory_mb * 2**20 / (self.windows.element_size() * numbers * entries)))

    def least_mb(self) -> float:
        """Megabytes of one composition on all transitions, less than which no memory limit can
        be kept."""
        numbers = max(
            p.family.workspace(self.grid, self.transitions) for p in self.dictionary.parts
        )
        return float(numbers * self.windows.element_size() / 2**20)

    def refined(self, refinement: int) -> Objective:
        """The same windows and operators, with other substeps per frame."""
        other = copy(self)
        other.refinement, other.meter = refinement, Meter()
        return other

    def only(self, windows: Sequence[int]) -> Objective:
        """The same operators on some of the windows."""
        other = copy(self)
        other.observed, other.meter = self.observed.only(windows), Meter()
        other.named = tuple(self.named[i] for i in windows)
        other.dictionary = other.named[0]
        return other

    @classmethod
    def together(cls, objectives: Sequence[Objective]) -> Objective:
        """The windows of objectives that share their operators, steps and settings."""
        joint = copy(objectives[0])
        joint.observed = Windows.together([one.observed for one in objectives])
        joint.named = tuple(named for one in objectives for named in one.named)
        joint._mechanisms = {}
        return joint

    def over(self, dictionary: OperatorDictionary) -> Objective:
        """The same windows, with other operators."""
        other = copy(self)
        other.dictionary, other.meter = dictionary, Meter()
        other.named = (dictionary,) * len(self)
        other._mechanisms, other._classes = {}, {}
        other.operators = dictionary.prepare(self.grid, self.windows)
        return other

    @property
    def windows(self) -> Tensor:
        """The observed frames `(window, time, channel, *space)`."""
        return self.observed.frames

    @property
    def dt(self) -> float:
        """The usual time between frames."""
        return self.observed.dt

    @property
    def transitions(self) -> int:
        """Number of scored transitions in a window."""
        return self.observed.transitions

    @property
    def device(self) -> torch.device:
        return self.observed.device

    def __len__(self) -> int:
        """Number of windows."""
        return len(self.observed)

    def mechanisms(self, window: int) -> Mechanisms:
        """Which coefficients the operators have, in the units of a window."""
        named = self.named[window]
        if id(named) not in self._mechanisms:
            self._mechanisms[id(named)] = Mechanisms.of(named.coefficients, len(named))
        return self._mechanisms[id(named)]

    def classes(self, free: bool) -> Classes:
        """Operators that differ in nothing but their strength; the same in all units.

        Arguments:
            free: whether strengths are free; else every operator is a class of its own.
        """
        if free not in self._classes:
            multiples = self.operators.multiples
            self._classes[free] = Classes.of(multiples, self.mechanisms(0), free)
        return self._classes[free]

    def cost(self) -> Cost:
        """What was spent since the search began."""
        meter = self.meter
        return Cost(meter.flows, meter.evaluations, meter.seconds, self.operators.flops())

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
        transitions: Tensor | None = None,
    ) -> Tensor:
        """Errors `(n, transition)` of compositions on all transitions, or on some."""
        home = self.home(sets, which)
        at = self.observed.every() if transitions is None else transitions
        lasting = self.observed.lasting(at)
        out = [self.windows.new_zeros(0, len(at))]
        for part in self.chunks(len(sets)):
            weight = None if strengths is None else strengths[part]
            u = self.observed.states[home[part][:, None], at]
            u = self.step(sets[part], u, weight, duration=lasting)
            out.append(self.observed.errors(u, home[part], at))
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
        lasting = self.observed.lasting() if duration is None else duration
        flows = self.flows(sets, strengths, operators)
        return split_step(flows, u, lasting, self.scheme, self.refinement)

    def flows(
        self,
        sets: Tensor,
        strengths: Tensor | None = None,
        operators: PreparedDictionary | None = None,
    ) -> list[Flow]:
        """The flows of compositions `(n, m)`, one for every position."""
        return [self.flow(sets[:, i], strengths, i, operators) for i in range(sets.shape[1])]

    @torch.no_grad()
    def free_run(
        self, sets: Tensor, strengths: Tensor | None = None, which: Tensor | None = None
    ) -> Tensor:
        """Relative errors `(n, transition)` of a rollout from the first frame alone."""
        home = self.home(sets, which)
        u, flows = self.windows[home, :1], self.flows(sets, strengths)
        frames = []
        for i, (count, h) in enumerate(self.observed.substeps()):
            if count == 0:
                u = self.windows[home, i + 1 : i + 2]
            for _ in range(count):
                self.meter.check()
                u = split_step(flows, u, h, self.scheme, self.refinement)
            frames.append(u)
        return self.observed.errors(torch.cat(frames, 1)[:, self.observed.scored], home)

    def rates(self, windows: Tensor, frames: int) -> Tensor:
        """`f(u)` of operators that are no multiples of others (`PreparedDictionary.multiples`) on
        the last frames: `(operator, window, frame, ...)`."""
        u = self.windows[windows, -frames:]
        each = u.flatten(0, 1)
        count = max(p.family.rate_evaluations for p in self.dictionary.parts)
        out: list[Tensor] = []
        many = self._fitting(self.memory_mb / 4, len(each))
        for index in self.operators.multiples.basis.split(many):
            if out:
                self.meter.check()
            with torch.no_grad():
                out.append(self.operators.rates(index, each))
            self.meter.evaluations += len(index) * len(each) * count
        return torch.cat(out).unflatten(1, u.shape[:2])

    def home(self, sets: Tensor, which: Tensor | None) -> Tensor:
        """The window of every candidate; the first if it is not given."""
        return sets.new_zeros(len(sets)) if which is None else which

    def chunks(self, n: int) -> Iterator[slice]:
        """Slices of `n` candidates; the budget is checked before each but the very first."""
        for begin in range(0, n, self.chunk):
            if self.meter.evaluations:
                self.meter.check()
            yield slice(begin, begin + self.chunk)

    def flow(
        self,
        index: Tensor,
        strengths: Tensor | None = None,
        position: int = 0,
        operators: PreparedDictionary | None = None,
    ) -> Flow:
        """The flow of operator `index[e]` on the states of candidate `e`, metered.

        Arguments:
            index: `(n,)` positions in the dictionary.
            strengths: `(n, m)` factors of the operators of every candidate (not given: one).
            position: which column of `strengths` is that of `index`.
            operators: other operators than the dictionary's.
        """
        used = operators or self.operators
        if strengths is not None:
            return MeteredFlow(self.meter, used, index, strengths[:, position])

        def flow(u: Tensor, duration: float | Tensor) -> Tensor:
            if isinstance(duration, Tensor) and duration.ndim:
                return unequal_flow(self.meter, used, index, None, u, duration)
            self.meter.count(u.shape[0] * u.shape[1], used.evaluations(duration))
            return used.flow(index, u, duration)

        return flow


class MeteredFlow:
    """The flow of operator `index[e]` with strength `strengths[e]` on the states of candidate `e`,
    counted by a meter."""

    def __init__(
        self, meter: Meter, operators: PreparedDictionary, index: Tensor, strengths: Tensor
    ) -> None:
        self.meter, self.operators = meter, operators
        self.index, self.strengths = index, strengths
        self.acting = operators.acting(index, strengths)

    def __call__(self, u: Tensor, duration: float | Tensor) -> Tensor:
        if isinstance(duration, Tensor) and duration.ndim:
            return unequal_flow(self.meter, self.operators, self.index, self.strengths, u, duration)
        h = float(duration)
        self.meter.count(u.shape[0] * u.shape[1], self.acting.evaluations(h))
        return self.acting(u, h)

    def multiplier(self, u: Tensor, duration: float | Tensor) -> Tensor | None:
        """The factor of every mode, where that is all the flow does."""
        if isinstance(duration, Tensor) and duration.ndim:
            return None
        h = float(duration)
        found = self.acting.multiplier(u, h)
        if found is not None:
            self.meter.count(u.shape[0] * u.shape[1], self.acting.evaluations(h))
        return found


def unequal_flow(
    meter: Meter,
    operators: PreparedDictionary,
    index: Tensor,
    strengths: Tensor | None,
    u: Tensor,
    durations: Tensor,
) -> Tensor:
    """Transitions that last differently long become entries of their own."""
    weight = 1.0 if strengths is None else strengths[:, None].to(u.dtype)
    entries = index.repeat_interleave(u.shape[1])
    each = (weight * durations).expand(u.shape[:2]).flatten()
    meter.count(u.shape[0] * u.shape[1], operators.evaluations(each))
    return operators.flow(entries, u.flatten(0, 1)[:, None], each).reshape(u.shape)
