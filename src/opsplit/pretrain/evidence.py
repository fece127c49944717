"""Training and unseen trajectories, as structures are judged by them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from opsplit.fourier import spectrum_of, squared_wavenumber
from opsplit.grid import Grid
from opsplit.pretrain.denoised import denoised
from opsplit.pretrain.refine import Pairs
from opsplit.pretrain.regression import Units, mode_counts
from opsplit.pretrain.sources import lost_frames
from opsplit.trajectories import Trajectories

LARGE = 10.0
"""A mean of so many deviations is taken off before products are formed."""
UNRESOLVED = 1e-4
"""Share of the energy in the upper half of the modes of a frame that the grid no longer holds."""
PIECE = 6
"""Frames of a piece with fronts."""
WHITE = 1.3
"""Noise that is white in time is equally large, up to this factor, in all differences."""
FEWEST = 4
"""Frames that the quadrature between two of them needs."""
STATES, POINTS, TOTAL = 16, 8192, 512
"""Pairs of states per environment that weights are refined on: so many, or, on fine grids, as few
as hold so many numbers, and so many of all environments (never fewer than three each)."""


class Evidence:
    """Training and unseen trajectories of every environment, in operator units, without most of
    the white noise in them."""

    def __init__(self, data: Trajectories, scale: float, seed: int = 0) -> None:
        self.grid, self.dt, self.scale = data.grid, data.dt, scale
        group, first = data.environments()
        noise = data.data.new_zeros(len(data.data), data.data.shape[2]).double()
        for i in range(len(first)):
            # Later frames may hold fronts, which are no noise.
            noise[group == i] = white_noise(data.data[group == i, :PIECE].double(), self.grid)
        lost = lost_frames(data, UNRESOLVED, noise)
        counts = torch.where(lost.any(1), lost.int().argmax(1), lost.shape[1])
        self.fit: list[Tensor] = []
        self.unseen: list[Tensor] = []
        self.fronts: list[Tensor] = []
        self.noise: list[Tensor] = []
        """Deviation of white noise in the frames as they were given, `(C,)` each."""
        self.left: list[Tensor] = []
        """A sample of the errors that noise makes in the unseen frames."""
        for i in range(len(first)):
            members = (group == i).nonzero()[:, 0]
            self.fronts.append(_late(data.data, members, counts) / scale)
            members, frames = _most_frames(members, counts[members], data.data.shape[1])
            given = data.data[members, :frames].double() / scale
            seen, _ = _split(given)
            self.noise.append(white_noise(seen, self.grid))
            clean, left = denoised(given, self.noise[-1], self.grid)
            for held, part in zip((self.fit, self.unseen), _split(clean), strict=True):
                held.append(part)
            self.left.append(_split(left)[1])
        self.units = Units(_usual_wavenumber(self.fit, self.grid), _centre(self.fit))

    @property
    def measures(self) -> tuple[Grid, float, Units]:
        """The grid, the time between frames, and the units of operators."""
        return self.grid, self.dt, self.units

    def pairs(self, environments: Sequence[int], unseen: bool, seed: int) -> list[Pairs]:
        """Pairs of states one and four frames apart (one, if there are few frames)."""
        return self._draw(self.unseen if unseen else self.fit, environments, seed)

    def whole_pairs(self, environments: Sequence[int]) -> list[Pairs]:
        """The first and the last frame of unseen trajectories."""
        return self._whole(self.unseen, environments)

    def _whole(self, source: Sequence[Tensor], environments: Sequence[int]) -> list[Pairs]:
        some = [source[i] for i in environments]
        count, frames = (min(u.shape[axis] for u in some) for axis in (0, 1))
        first, last = (torch.stack([u[:count, t] for u in some]) for t in (0, frames - 1))
        return [Pairs(first, last, (frames - 1) * self.dt)]

    def noise_of(self, environments: Sequence[int], seed: int) -> list[Pairs]:
        """The noise that is left in unseen pairs of this seed."""
        return self._draw(self.left, environments, seed)

    def noise_of_whole(self, environments: Sequence[int]) -> list[Pairs]:
        """The noise that is left in the first and the last frame of unseen trajectories."""
        return self._whole(self.left, environments)

    def front_pairs(self, environments: Sequence[int], seed: int) -> tuple[list[int], list[Pairs]]:
        """Pairs of states with fronts, and the places of the environments that have some."""
        places = [i for i, e in enumerate(environments) if len(self.fronts[e])]
        if not places:
            return [], []
        return places, self._draw(self.fronts, [environments[i] for i in places], seed)

    def _draw(
        self, source: Sequence[Tensor], environments: Sequence[int], seed: int
    ) -> list[Pairs]:
        draws = torch.Generator().manual_seed(seed)
        count = min(STATES, POINTS // math.prod(source[0].shape[2:]), TOTAL // len(environments))
        count = max(3, count)
        out = []
        for stride in (1, 4):
            if min(source[i].shape[1] for i in environments) <= stride:
                continue
            states, targets = [], []
            for i in environments:
                u = source[i]
                n = torch.randint(len(u), (count,), generator=draws)
                t = (torch.rand(count, generator=draws) * (u.shape[1] - stride)).long()
                states.append(u[n, t])
                targets.append(u[n, t + stride])
            out.append(Pairs(torch.stack(states), torch.stack(targets), stride * self.dt))
        return out


def _split(u: Tensor) -> tuple[Tensor, Tensor]:
    """Trajectories to fit and unseen ones."""
    if len(u) > 1:
        out = max(1, len(u) // 4)
        return u[:-out], u[-out:]
    # One trajectory: its last third is unseen.
    frames = u.shape[1]
    cut = max(4, 2 * frames // 3)
    return u[:, :cut], u[:, min(cut, frames - 4) :]


def white_noise(u: Tensor, grid: Grid) -> Tensor:
    """Deviation of white noise in frames `(trajectory, time, channel, *space)`, per channel.

    From the finest third of the modes. Noise is as large in first differences as in third ones, by
    the factors 2 and 20; a signal is not, and counts as no noise.
    """
    spectrum = spectrum_of(u, grid.ndim).flatten(3)
    k = squared_wavenumber(grid).flatten()
    fine = spectrum[..., k >= k.quantile(2 / 3)]
    if u.shape[1] < FEWEST:
        return u.new_zeros(u.shape[2])
    first, third = (fine.diff(n=n, dim=1).abs().square().mean((0, 1, 3)) for n in (1, 3))
    first, third = first / 2, third / 20
    white = (third > first / WHITE) & (third < first * WHITE)
    points = math.prod(grid.shape)
    return torch.where(white, torch.minimum(first, third) / points, 0.0).sqrt()


def _most_frames(members: Tensor, counts: Tensor, whole: int) -> tuple[Tensor, int]:
    """Trajectories and leading frames that the grid holds: as many transitions as possible.

    Where it holds none of them, all are taken: there is nothing better.
    """
    able = sorted({int(c) for c in counts if c >= FEWEST}, reverse=True)
    if not able:
        return members, max(FEWEST, int(counts.max())) if bool(counts.any()) else whole
    best = max(able, key=lambda n: int((counts >= n).sum()) * (n - 1))
    return members[counts >= best], best


def _late(data: Tensor, members: Tensor, counts: Tensor) -> Tensor:
    """Pieces of trajectories that begin where the grid no longer holds them, `(n, frames, ...)`."""
    late = [(int(m), int(counts[m])) for m in members if counts[m] + PIECE <= data.shape[1]]
    pieces = [data[m, t : t + PIECE].double() for m, begin in late for t in _begins(begin, data)]
    return torch.stack(pieces) if pieces else data.new_zeros(0, PIECE, *data.shape[2:]).double()


def _begins(first: int, data: Tensor) -> list[int]:
    """Up to four frames from the first to the last at which a piece may begin."""
    last = data.shape[1] - PIECE
    return sorted({first + (last - first) * i // 3 for i in range(4)})


def _centre(environments: Sequence[Tensor]) -> tuple[float, ...]:
    """Mean of every channel, if any is large against the deviations of its channel."""
    every = torch.cat([u[:, ::4].transpose(0, 2).flatten(1) for u in environments], 1)
    mean, deviation = every.mean(1), every.std(1)
    return tuple(mean.tolist()) if bool((mean.abs() > LARGE * deviation).any()) else ()


def _usual_wavenumber(environments: Sequence[Tensor], grid: Grid) -> float:
    """Root mean square wavenumber of the fields, means left out."""
    square, counts = squared_wavenumber(grid), mode_counts(grid)
    top = bottom = 0.0
    for u in environments:
        energy = spectrum_of(u[:, ::4], grid.ndim).abs().square().sum((0, 1, 2)) * counts
        energy.flatten()[0] = 0.0
        top, bottom = top + float((energy * square).sum()), bottom + float(energy.sum())
    return math.sqrt(top / bottom) if bottom > 0 and top > 0 else 1.0
