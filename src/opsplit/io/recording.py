"""A file of fields over time whose frames are read only when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from opsplit._deadline import check_time, seconds_left
from opsplit._tensors import usual_defaults
from opsplit.errors import OpsplitError
from opsplit.grid import Grid

if TYPE_CHECKING:
    from torch import Tensor

    from opsplit.trajectories import Trajectories

LIMIT_MB = 2000.0
"""More than this is not read into memory at once."""
PIECE_MB = 64.0
"""So much is read between two looks at the clock."""
SAID = ("dt", "extent", "boundary")
"""What a file may say or not."""
IN_MEMORY = ("array", "trajectories", "xarray")


@dataclass(frozen=True)
class Changes:
    """How the axes of a recording differ from those of the data that were given.

    Arguments:
        repeated: space axes whose last point was the first again, and was left out.
        turned: space axes whose points fell, and were turned round.
    """

    repeated: tuple[int, ...] = ()
    turned: tuple[int, ...] = ()

    def undone(self, frames: Tensor, ndim: int) -> Tensor:
        """Fields `(..., *space)` on the points that were given."""
        import torch

        first = frames.ndim - ndim
        for axis in self.repeated:
            again = frames.narrow(first + axis, 0, 1)
            frames = torch.cat([frames, again], first + axis)
        return frames.flip([first + axis for axis in self.turned])


@dataclass(frozen=True)
class Recording:
    """Fields over time on one grid, still in their file.

    Arguments:
        source: the path as given, or `"array"`.
        format: the reader's name, such as `"npz"`; `"array"`, `"trajectories"` or `"xarray"` for
            what is in memory already.
        shape: `(trajectory, time, channel, *space)`.
        times: of every frame, strictly increasing, possibly irregular.
        coefficients: one value per trajectory.
        facts: what was read, in sentences.
        guessed: which of `"dt"`, `"extent"` and `"boundary"` were neither given nor stored, and
            what was taken instead, in a sentence.
        fetch: `(trajectory, frames)` to `(time, channel, *space)`, unchecked.
        origin: coordinate of the first point of every axis.
        terms: what the coefficients multiply, where the file says it.
        box: whether the extent is the length of the box as the caller gave it, not a number of
            spacings; between walls the two may differ.
        changes: how its axes differ from those of the file.
        layout: which of its layouts the format has here, for writing a forecast alike.

    Examples:
        >>> import numpy, opsplit
        >>> numpy.save("frames.npy", numpy.random.rand(8, 32))
        >>> opsplit.read("frames.npy", dt=0.1).shape
        (1, 8, 1, 32)
    """

    source: str
    format: str
    shape: tuple[int, ...]
    times: np.ndarray
    grid: Grid
    channels: tuple[str, ...]
    coefficients: Mapping[str, np.ndarray]
    facts: tuple[str, ...]
    guessed: Mapping[str, str]
    fetch: Callable[[int, slice], np.ndarray] = field(repr=False)
    origin: tuple[float, ...] = ()
    layout: str = ""
    terms: Mapping[str, str] = field(default_factory=dict)
    box: bool = False
    changes: Changes = field(default_factory=Changes)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def known(self) -> frozenset[str]:
        """Which of `"dt"`, `"extent"` and `"boundary"` were given or stored."""
        return frozenset(SAID) - self.guessed.keys()

    @property
    def understood(self) -> tuple[str, ...]:
        """What was read and what was guessed, in sentences."""
        return (*self.facts, *(self.guessed[what] for what in SAID if what in self.guessed))

    @property
    def in_memory(self) -> bool:
        """Whether all frames are in memory already."""
        return self.format in IN_MEMORY

    @property
    def dt(self) -> float:
        """The median step."""
        return float(np.median(np.diff(self.times)))

    @property
    def uniform(self) -> bool:
        """Whether all steps are alike, up to the rounding of stored times."""
        return bool(np.allclose(np.diff(self.times), self.dt, rtol=1e-3, atol=0))

    @property
    def frame_mb(self) -> float:
        """Megabytes of one frame in double precision."""
        return math.prod(self.shape[2:]) * 8 / 2**20

    @usual_defaults()
    def axes(self) -> tuple[np.ndarray, ...]:
        """Coordinates of the points along every axis, where the file has them."""
        begin = self.origin or (0.0,) * self.grid.ndim
        both = zip(self.grid.axes(), begin, strict=True)
        return tuple(axis.numpy() + start for axis, start in both)

    def frames(
        self, trajectory: int = 0, frames: slice = slice(None), limit_mb: float = LIMIT_MB,
        holes: bool = False,
    ) -> np.ndarray:  # fmt: skip
        """Frames `(time, channel, *space)`, of which some may be missing: all NaN.

        A frame of which only a part is NaN or infinite is refused.

        Arguments:
            holes: whether a part of a frame may be NaN.
        """
        chosen = self._chosen(trajectory, frames)
        self._check_size(len(chosen), limit_mb)
        found = self._fetched(trajectory, chosen)
        partly, bad = [], 0
        for i, frame in enumerate(found):
            missing, infinite = np.isnan(frame), np.isinf(frame)
            wrong = int(np.count_nonzero(infinite if holes else infinite | missing))
            if wrong and not missing.all():
                partly.append(i)
                bad += wrong
        if partly:
            raise OpsplitError(
                f"{self.source}: {bad} values are NaN or infinite, the first "
                f"in frame {chosen[int(partly[0])]} of trajectory {trajectory}. Fill or cut "
                "them; only whole frames may be missing."
            )
        return found

    def _fetched(self, trajectory: int, chosen: range) -> np.ndarray:
        """Frames, read in pieces if there is a limit of time."""
        limited = math.isfinite(seconds_left()) and not self.in_memory
        most = max(1, int(PIECE_MB / self.frame_mb)) if limited else len(chosen)
        pieces = []
        for begin in range(0, len(chosen), most):
            if limited:
                check_time(self.source)
            piece = chosen[begin : begin + most]
            pieces.append(self.fetch(trajectory, slice(piece.start, piece.stop, piece.step)))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def part(
        self, trajectories: Sequence[int] | None = None, frames: slice = slice(None)
    ) -> Recording:
        """Some trajectories and frames, still unread."""
        wanted = list(range(len(self)) if trajectories is None else trajectories)
        if not wanted:
            raise OpsplitError(f"{self.source}: name at least one trajectory.")
        for number in wanted:
            chosen = self._chosen(number, frames)

        def fetch(trajectory: int, inner: slice) -> np.ndarray:
            inside = chosen[inner]
            return self.fetch(wanted[trajectory], slice(inside.start, inside.stop, inside.step))

        return replace(
            self,
            shape=(len(wanted), len(chosen), *self.shape[2:]),
            times=self.times[chosen.start : chosen.stop : chosen.step],
            coefficients={k: v[wanted] for k, v in self.coefficients.items()},
            fetch=fetch,
        )

    @usual_defaults()
    def load(
        self,
        trajectories: Sequence[int] | None = None,
        frames: slice = slice(None),
        limit_mb: float = LIMIT_MB,
        holes: bool = False,
    ) -> Trajectories:
        """Some or all trajectories in memory; `holes` as in `frames`."""
        import torch

        from opsplit.trajectories import Trajectories

        wanted = list(range(len(self)) if trajectories is None else trajectories)
        if not wanted:
            raise OpsplitError(f"{self.source}: name at least one trajectory to load.")
        chosen = self._chosen(wanted[0], frames)
        self._check_size(len(wanted) * len(chosen), limit_mb)
        each = (self.frames(number, frames, limit_mb, holes) for number in wanted)
        data = next(each)[None] if len(wanted) == 1 else np.stack(list(each))
        return Trajectories(
            torch.from_numpy(data),
            torch.from_numpy(self.times[chosen.start : chosen.stop : chosen.step].copy()),
            self.grid,
            self.channels,
            {k: torch.from_numpy(v[wanted]) for k, v in self.coefficients.items()},
            terms=self.terms,
        )

    def _chosen(self, trajectory: int, frames: slice) -> range:
        if not 0 <= trajectory < len(self):
            raise OpsplitError(
                f"{self.source} holds trajectories 0..{len(self) - 1}, not number {trajectory}."
            )
        chosen = range(self.shape[1])[frames]
        if not len(chosen) or chosen.step < 1:
            raise OpsplitError(
                f"{self.source} holds frames 0..{self.shape[1] - 1}; {frames} asks for none "
                "of them or backwards."
            )
        return range(chosen.start, min(chosen.stop, self.shape[1]), chosen.step)

    def _check_size(self, count: int, limit_mb: float) -> None:
        if count * self.frame_mb > limit_mb:
            raise OpsplitError(
                f"{self.source}: {count} frames are {count * self.frame_mb:.0f} MB, more than "
                f"{limit_mb:.0f} MB; ask for fewer, such as frames=slice(0, 16)."
            )
