"""What every equation offers to the rest of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.trajectories import Trajectories

Coefficients = Mapping[str, Tensor]


class Physics(ABC):
    """An equation `du/dt = sum_k mu_k F_k(u)` with samplers for fields and coefficients.

    A new equation is one file with one subclass, listed in `physics/__init__.py`.
    """

    name: ClassVar[str]
    channels: ClassVar[tuple[str, ...]]
    terms: ClassVar[Mapping[str, str]]
    """The right-hand-side term of every coefficient, as it is printed: `{"D": "u_xx"}`."""
    splits: ClassVar[Mapping[str, str]]
    """Name and meaning of every coefficient sampler."""
    homogeneous: ClassVar[bool] = False
    """Whether `f(a u) = a f(u)`, so that observed windows may be scaled to unit size."""

    grid: Grid
    frames: int
    """Frames of a full trajectory, the first at time 0."""
    dt: float
    """Time between frames."""

    @abstractmethod
    def sample_coefficients(
        self, split: str, n: int, generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Draw `n` coefficient vectors of the split, float64, one tensor per coefficient."""

    @abstractmethod
    def initial_fields(self, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        """Draw `n` initial fields `(n, channel, *space)`, float64."""

    @abstractmethod
    def solve(self, initial: Tensor, coefficients: Coefficients, times: Tensor) -> Tensor:
        """Solution `(n, time, channel, *space)` at `times`, `(time,)` or `(n, time)`."""

    @abstractmethod
    def term_fields(self, u: Tensor) -> dict[str, Tensor]:
        """`F_k(u)` of every known term on states `(n, channel, *space)`, for least squares."""

    def least_squares(self, window: Tensor, dt: float) -> dict[str, float]:
        """Coefficients that best explain frames `(time, channel, *space)`, the terms given.

        The trapezoidal rule `(u' - u) / dt = sum_k mu_k (F_k(u') + F_k(u)) / 2`, second order.
        """
        frames = window.double()
        terms = {k: (f[1:] + f[:-1]) / 2 for k, f in self.term_fields(frames).items()}
        matrix = torch.stack([f.flatten() for f in terms.values()], 1)
        rate = (frames.diff(dim=0) / dt).flatten()[:, None]
        solution = torch.linalg.lstsq(matrix, rate, driver="gelsd").solution[:, 0]
        return dict(zip(terms, solution.tolist(), strict=True))

    def dictionary_trajectories(
        self, split: str, n: int, seed: int, fields: int = 8
    ) -> Trajectories:
        """`n` training dynamics to extract operators from, `fields` test-like trajectories each."""
        generator = torch.Generator().manual_seed(seed)
        drawn = self.sample_coefficients(split, n, generator)
        coefficients = {name: v.repeat_interleave(fields) for name, v in drawn.items()}
        initial = self.initial_fields(n * fields, generator, "dictionary")
        return self._trajectories(initial, coefficients, self.frames)

    def generate(self, split: str, n: int, seed: int, frames: int | None = None) -> Trajectories:
        """Simulate `n` whole trajectories of a split."""
        self.check_split(split)
        generator = torch.Generator().manual_seed(seed)
        coefficients = self.sample_coefficients(split, n, generator)
        initial = self.initial_fields(n, generator, split)
        return self._trajectories(initial, coefficients, frames or self.frames)

    def _trajectories(
        self, initial: Tensor, coefficients: Coefficients, frames: int
    ) -> Trajectories:
        times = torch.arange(frames, dtype=torch.float64) * self.dt
        data = self.solve(initial, coefficients, times).to(torch.float32)
        return Trajectories(data, times, self.grid, self.channels, coefficients)

    def check_split(self, split: str) -> None:
        if split not in self.splits:
            raise OpsplitError(
                f"Unknown split {split!r} of {self.name}; choose from {list(self.splits)}."
            )
