"""Where training batches come from: fresh from an exact solver, or from stored trajectories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Protocol

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import mode_shares
from opsplit.grid import Grid
from opsplit.physics import Physics
from opsplit.pretrain.batch import Batch
from opsplit.pretrain.config import TrainConfig
from opsplit.settings import Between, Names, Printable, Settings, Size
from opsplit.trajectories import Trajectories

CHANCE = 5.0
"""The energy of noise in a frame rarely exceeds the usual one by so many deviations."""


class Source(Protocol):
    """Anything that can draw a training batch."""

    def draw(self, config: TrainConfig, generator: torch.Generator) -> Batch: ...


@dataclass(frozen=True)
class Facts(Settings):
    """The facts of training data that a model keeps.

    Arguments:
        name: of the equation or of the data.
        coefficients: names of the known coefficients.
        environments: number of different dynamics (0: drawn anew in every batch).
        scale: fields are divided by this number before operators act.
        rescale: whether observed windows may be scaled to unit size as well.
    """

    name: Annotated[str, Printable()]
    grid: Grid
    dt: Size
    channels: Names
    coefficients: Names
    environments: Annotated[int, Between(0, 10_000_000)]
    scale: Size
    rescale: bool


def _choose(durations: tuple[float, ...], generator: torch.Generator) -> float:
    return durations[int(torch.randint(len(durations), (1,), generator=generator))]


class FreshSource:
    """New coefficients and new fields in every batch; for physics with an exact solution."""

    def __init__(self, physics: Physics) -> None:
        self.physics = physics

    def facts(self, name: str = "") -> Facts:
        physics = self.physics
        names = tuple(physics.sample_coefficients("train", 1, torch.Generator()))
        return Facts(
            name or physics.name, physics.grid, physics.dt, tuple(physics.channels), names,
            environments=0, scale=1.0, rescale=physics.homogeneous,
        )  # fmt: skip

    def draw(self, config: TrainConfig, generator: torch.Generator) -> Batch:
        physics, batches, dt = self.physics, config.batches, self.physics.dt
        e, k, split, length = batches.environments, batches.states, batches.split, batches.context

        span = length + (k + 1 if config.recipe == "plain" else 0)
        if span > physics.frames:
            raise OpsplitError(
                f"A context of {length} frames and {k} states do not fit into the "
                f"{physics.frames} frames of {physics.name}."
            )

        def frame(last: int, n: int) -> Tensor:
            """Random frame numbers from 0 to `last`."""
            return torch.randint(last + 1, (n, 1), generator=generator).double()

        coefficients = physics.sample_coefficients(split, e, generator)
        fields = physics.initial_fields(e, generator, split)
        window = torch.arange(length, dtype=torch.float64)
        duration = _choose(batches.durations, generator)
        if config.recipe == "plain":
            # States follow their own context: the paper's ablation.
            begin = frame(physics.frames - length - k - 1, e)
            ahead = begin + length - 1 + torch.arange(k, dtype=torch.float64)
            times = torch.cat([begin + window, ahead, ahead + duration], 1) * dt
            solution = physics.solve(fields, coefficients, times)
            context, state, target = solution.split([length, k, k], 1)
        else:
            begin = frame(physics.frames - length, e)
            context = physics.solve(fields, coefficients, (begin + window) * dt)
            others = physics.initial_fields(e * k, generator, split)
            others = self._warm_up(others, batches.warm_up_states, generator)
            now = frame(physics.frames - 2, e * k)
            repeated = {name: v.repeat_interleave(k) for name, v in coefficients.items()}
            pair = physics.solve(others, repeated, torch.cat([now, now + duration], 1) * dt)
            state, target = (pair[:, i].unflatten(0, (e, k)) for i in (0, 1))
        none = torch.full((e,), -1)
        return Batch(
            context.float(), state.float(), target.float(), duration * dt, none, coefficients
        )

    def _warm_up(self, fields: Tensor, share: float, generator: torch.Generator) -> Tensor:
        """Let some fields live through other dynamics first, as parts of a composition must."""
        if share == 0:
            return fields
        n = len(fields)
        coefficients = self.physics.sample_coefficients("warm-up", n, generator)
        span = (self.physics.frames - 1) * self.physics.dt
        draws = torch.rand(3, n, 1, generator=generator, dtype=torch.float64)
        fields = self.physics.solve(fields, coefficients, (draws[0] < share) * draws[1] * span)[
            :, 0
        ]
        fields = _uneven(fields, share, self.physics.grid, generator)
        if self.physics.homogeneous:
            # Compositions also change amplitudes: a window is scaled to one, forecasts decay.
            dims = tuple(range(1, fields.ndim))
            deviation = fields.std(dims, correction=0, keepdim=True).clamp_min(1e-12)
            fields = fields / deviation * (0.05 * 22 ** draws[2]).reshape(deviation.shape)
        return fields


def _uneven(fields: Tensor, share: float, grid: Grid, generator: torch.Generator) -> Tensor:
    """Some fields with their largest scales weakened at random.

    In fields that were only left to themselves the largest scale is always the strongest.
    """
    axes = tuple(range(-grid.ndim, 0))
    spectrum = torch.fft.rfftn(fields, dim=axes)
    modes = (mode_shares(grid) * max(grid.shape) / 2).round()
    drawn = torch.rand(len(fields), 10, generator=generator, dtype=torch.float64)
    factors = torch.where(drawn[:, :1] < share, drawn[:, 1:] ** 2, 1.0)
    # The mean and all beyond the eighth mode stay as they are.
    factors[:, 0] = 1.0
    weights = torch.cat([factors, torch.ones(len(fields), 1)], 1)[:, modes.long().clamp(max=9)]
    return torch.fft.irfftn(spectrum * weights[:, None], s=grid.shape, dim=axes)


class StoredSource:
    """Windows of stored trajectories; equal coefficients make one environment."""

    def __init__(self, trajectories: Trajectories, resolved: float | None = None) -> None:
        bad = int((~torch.isfinite(trajectories.data)).flatten(1).any(1).sum())
        if bad:
            raise OpsplitError(
                f"{bad} of {len(trajectories)} trajectories hold NaN or infinite values; "
                "leave them out before training."
            )
        for name, values in trajectories.coefficients.items():
            if not bool(torch.isfinite(values).all()):
                raise OpsplitError(
                    f"The coefficient {name} is not a finite number in every trajectory; write 0 "
                    "where its mechanism does not act."
                )
        self.data = trajectories
        self.environment, self.first = trajectories.environments()
        self.environments = len(self.first)
        self.members = [(self.environment == i).nonzero()[:, 0] for i in range(self.environments)]
        # Every mechanism is drawn as often as every other, however many values it has.
        active = {k: v != 0 for k, v in self.coefficients().items()}
        words = ["+".join(k for k in active if active[k][i]) for i in range(self.environments)]
        self.mechanisms = [
            torch.tensor([i for i, w in enumerate(words) if w == word])
            for word in dict.fromkeys(words)
        ]
        frames = len(trajectories.times)
        self.frames = torch.full((len(trajectories),), frames)
        if resolved is not None:
            self.frames = resolved_frames(trajectories, resolved)

    def facts(self, name: str) -> Facts:
        data = self.data
        return Facts(
            name, data.grid, data.dt, data.channels, tuple(data.coefficients),
            self.environments, scale=_deviation(data.data) or 1.0, rescale=False,
        )  # fmt: skip

    def coefficients(self) -> dict[str, Tensor]:
        """Coefficients of every environment."""
        return {name: v[self.first] for name, v in self.data.coefficients.items()}

    def draw(self, config: TrainConfig, generator: torch.Generator) -> Batch:
        batches = config.batches
        e, k, length = batches.environments, batches.states, batches.context
        if any(d <= 0 or (d > 1 and abs(d - round(d)) > 1e-9) for d in batches.durations):
            raise OpsplitError(
                f"Stored frames are whole steps apart: durations {batches.durations} must be "
                "whole numbers of frames, or shares of one, such as 0.5 1."
            )
        duration = _choose(batches.durations, generator)
        stride = max(1, round(duration))
        shares = _divide(max(1, round(1 / duration)), generator)
        frames = len(self.data.times)
        span = max(length, stride) + (stride if config.recipe == "plain" else 0)
        if frames < span + 1:
            raise OpsplitError(
                f"Training needs more than {span} frames per trajectory, the data have {frames}."
            )

        def below(n: int | Tensor, size: tuple[int, ...]) -> Tensor:
            """Random whole numbers below `n`."""
            draws = torch.rand(size, generator=generator, dtype=torch.float64)
            return (draws * n).long()

        if config.recipe == "plain":
            environment = self.environment[below(len(self.data), (e,))]
        else:
            kind = below(len(self.mechanisms), (e,)).tolist()
            environment = torch.cat(
                [self.mechanisms[i][below(len(self.mechanisms[i]), (1,))] for i in kind]
            )
        contexts, states, targets = [], [], []
        for row in environment.tolist():
            members = self.members[row]
            own = members[below(len(members), (1,))].expand(k)
            last = int(self.frames[own[0]].clamp_min(span + 1))
            if config.recipe == "plain":
                begin = below(last - length - stride + 1, (1,))
                now = begin + length - 1 + below(last - length - stride - int(begin) + 1, (k,))
                others = own
            else:
                begin = below(last - length + 1, (1,))
                others = members[below(len(members), (k,))]
                now = below(self.frames[others].clamp_min(stride + 1) - stride, (k,))
            contexts.append(self.data.data[own[0], int(begin) : int(begin) + length])
            states.append(self.data.data[others, now])
            targets.append(self.data.data[others, now + stride])
        coefficients = {name: v[environment] for name, v in self.coefficients().items()}
        context, state, target = (torch.stack(x).float() for x in (contexts, states, targets))
        return Batch(
            context, state, target, stride * self.data.dt, environment, coefficients, shares
        )


def _deviation(data: Tensor) -> float:
    """Standard deviation of fields of any size: squares of large numbers would overflow."""
    size = float(data.abs().max())
    return size * float((data / size).std()) if size else 0.0


def _divide(parts: int, generator: torch.Generator) -> tuple[float, ...]:
    """One frame divided at random: splitting asks for flows of any length, data have frames."""
    cuts = torch.rand(parts - 1, generator=generator, dtype=torch.float64).sort().values
    edges = torch.cat([cuts.new_zeros(1), cuts, cuts.new_ones(1)])
    return tuple(edges.diff().tolist())


def resolved_frames(trajectories: Trajectories, share: float) -> Tensor:
    """How many leading frames of each trajectory the grid can hold.

    A trajectory that begins with a frame that is lost can only get smoother and is taken whole.
    """
    lost = lost_frames(trajectories, share)
    first = lost.int().argmax(1)
    return torch.where(first > 0, first, lost.shape[1])


def lost_frames(trajectories: Trajectories, share: float, noise: Tensor | None = None) -> Tensor:
    """Frames `(n, time)` with more than `share` of their energy in the upper half of the modes.

    Arguments:
        noise: deviation of white noise in every trajectory, `(n, channel)`, which does not count.
    """
    grid = trajectories.grid
    axes = tuple(range(-grid.ndim, 0))
    high = mode_shares(grid) > 0.5
    lost = []
    for i, one in enumerate(trajectories.data):
        # Half a spectrum counts every mode but the first and last twice: no matter for a share.
        size = one.abs().max().clamp_min(1e-300)
        energy = torch.fft.rfftn((one / size).float(), dim=axes).abs().square()
        most = share * energy.flatten(1).sum(1)
        if noise is not None:
            power = (noise[i] / size).square().sum() * math.prod(grid.shape)
            count = int(high.sum())
            most = most + power * (count + CHANCE * count**0.5)
        lost.append((energy * high).flatten(1).sum(1) > most)
    return torch.stack(lost)
