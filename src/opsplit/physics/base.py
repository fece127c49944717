"""What every equation offers to the rest of the package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import torch
from torch import Tensor

from opsplit._tensors import public, usual_defaults
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.settings import Between, argument
from opsplit.terms import Term
from opsplit.trajectories import Trajectories

Coefficients = Mapping[str, Tensor]
EPSILON = torch.finfo(torch.float32).eps


class Physics(ABC):
    """An equation `du/dt = sum_k mu_k F_k(u)` with samplers for fields and coefficients.

    A new equation is one file with one subclass, listed in `physics/__init__.py`.

    Examples:
        >>> import opsplit
        >>> physics = opsplit.get_physics("advection-diffusion")
        >>> physics.generate("A+D", 2, seed=0, frames=3).data.shape
        torch.Size([2, 3, 1, 256])
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """The name in running text."""
    remark: ClassVar[str] = ""
    """How trajectories of the preset `cpu` differ from the paper's, to follow the title."""
    channels: ClassVar[tuple[str, ...]]
    terms: ClassVar[Mapping[str, Term]]
    """The right-hand-side term of every coefficient: `{"D": Term("u_xx", order=2, degree=1)}`."""
    splits: ClassVar[Mapping[str, str]]
    """Name and meaning of every coefficient sampler."""
    model: ClassVar[str] = ""
    """The bundled model that knows its mechanisms (empty: the one of the same name)."""
    homogeneous: ClassVar[bool] = False
    """Whether `f(a u) = a f(u)`, so that observed windows may be scaled to unit size."""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}, "cpu": {}}
    """Constructor arguments of the paper's sizes and of those that two cores can afford."""
    trained: ClassVar[Mapping[str, int]] = {"code": 2, "steps": 300_000}
    """What the paper sets for a training: numbers in a code, and steps."""
    tolerance: ClassVar[float] = 1e-3
    """Share of the change in one frame by which two simulations with other steps may differ."""

    grid: Grid
    frames: int
    """Frames of a full trajectory, the first at time 0."""
    dt: float
    """Time between frames."""
    per_environment: int = 0
    """Trajectories of every training dynamics (0: coefficients without a list, drawn anew)."""

    def coarse(self) -> Self:
        """The same equation with a cheaper, less accurate simulation, for demonstrations."""
        return self

    def environments(self) -> dict[str, Tensor]:
        """Coefficients of every training dynamics, for physics that have a list of them."""
        raise OpsplitError(f"{self.name} draws its training coefficients at random.")

    def trajectories_of(self, environment: int) -> int:
        """Training trajectories of one dynamics of the list."""
        return self.per_environment

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

    @usual_defaults()
    def retrace(
        self, frames: Tensor, coefficients: Coefficients, dt: float
    ) -> tuple[Tensor, Tensor]:
        """How far every frame is from a simulation of one `dt` from the frame before it.

        Of `frames` `(time, channel, *space)`, stored in single precision; the coefficients have
        one value. The error and what it may be, as shares of the change between the two frames.
        """
        return self._misses(frames, self._one_frame_on(frames, coefficients, dt))

    def _one_frame_on(self, frames: Tensor, coefficients: Coefficients, dt: float) -> Tensor:
        same = {name: value.expand(len(frames) - 1) for name, value in coefficients.items()}
        return self.solve(frames[:-1], same, torch.tensor([dt], dtype=frames.dtype))[:, 0]

    def _misses(self, frames: Tensor, simulated: Tensor) -> tuple[Tensor, Tensor]:
        size, change, error = (
            x.flatten(1).norm(dim=1)
            for x in (frames[1:], frames.diff(dim=0), simulated - frames[1:])
        )
        change = change.clamp_min(1e-30)
        return error / change, self.tolerance + 5 * EPSILON * size / change

    @usual_defaults()
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

    @usual_defaults()
    def dictionary_trajectories(
        self, split: str, n: int, seed: int, fields: int = 8
    ) -> Trajectories:
        """`n` training dynamics to extract operators from, `fields` test-like trajectories each."""
        generator = torch.Generator().manual_seed(seed)
        drawn = self.sample_coefficients(split, n, generator)
        coefficients = {name: v.repeat_interleave(fields) for name, v in drawn.items()}
        initial = self.initial_fields(n * fields, generator, "dictionary")
        return self._trajectories(initial, coefficients, self.frames)

    @public
    def generate(
        self,
        split: str,
        n: int = 1,
        seed: int = 0,
        frames: int | None = None,
        given: Mapping[str, float] | None = None,
    ) -> Trajectories:
        """Simulate `n` whole trajectories of a split; `given` coefficients replace drawn ones."""
        self.check_split(split)
        n = argument(Annotated[int, Between(1, 10**9)], n, "n")
        seed = argument(int, seed, "seed")
        generator = torch.Generator().manual_seed(seed)
        coefficients = self.sample_coefficients(split, n, generator)
        for name, value in (given or {}).items():
            if name not in coefficients:
                raise OpsplitError(
                    f"{self.name} has no coefficient {name!r} in the split {split!r}; choose from "
                    f"{', '.join(coefficients)}."
                )
            coefficients[name] = torch.full((n,), value, dtype=torch.float64)
        initial = self.initial_fields(n, generator, split)
        return self._trajectories(initial, coefficients, frames or self.frames)

    @usual_defaults()
    def generate_environment(self, number: int, n: int, seed: int) -> Trajectories:
        """Simulate `n` training trajectories of one dynamics of the list."""
        generator = torch.Generator().manual_seed(seed)
        coefficients = {k: v[number].expand(n).clone() for k, v in self.environments().items()}
        initial = self.training_fields(coefficients, generator)
        return self._trajectories(initial, coefficients, self.frames)

    def training_fields(self, coefficients: Coefficients, generator: torch.Generator) -> Tensor:
        """Where training trajectories begin; some physics let them live through others first."""
        n = len(next(iter(coefficients.values())))
        return self.initial_fields(n, generator, "train")

    def _trajectories(
        self, initial: Tensor, coefficients: Coefficients, frames: int
    ) -> Trajectories:
        times = torch.arange(frames, dtype=torch.float64) * self.dt
        data = self.solve(initial, coefficients, times).to(torch.float32)
        return Trajectories(data, times, self.grid, self.channels, coefficients)

    def check_split(self, split: str) -> None:
        """Refuse a split that this equation does not have.

        Raises:
            OpsplitError: it names the splits that there are.
        """
        if split not in self.splits:
            raise OpsplitError(
                f"Unknown split {split!r} of {self.name}; choose from {list(self.splits)}."
            )
