"""The protocol everything above the operators hangs on: prepare once, then flow."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, spectrum_of
from opsplit.grid import Grid
from opsplit.operators.flops import fft_flops
from opsplit.registry import Registry
from opsplit.settings import Between, Settings

Channels = Annotated[int, Between(1, 64)]
Axes = Annotated[int, Between(1, 3)]
MOST_STEPS = 100_000
"""Steps of the integrator in one flow of one operator."""
Step = Annotated[float, Between(1e-30, 1e30)]

Propagator = Callable[[Tensor], Tensor]
"""States `(E, K, channel, *space)` some time later."""


class OfModes:
    """A flow that acts on the modes of a field.

    Arguments:
        move: modes `(E, K, channel, *modes)` some time later.
        shape: points of the grid.
    """

    def __init__(self, move: Propagator, shape: tuple[int, ...]) -> None:
        self.move, self.shape = move, shape

    def __call__(self, u: Tensor) -> Tensor:
        return field_of(self.move(spectrum_of(u, len(self.shape))), self.shape)


class Multiplier(OfModes):
    """A linear flow that multiplies every mode by a number.

    Such flows commute, and several of them need one pair of transforms.

    Arguments:
        factor: `(E, 1, channel, *modes)`, or one that broadcasts to it.
        shape: points of the grid.
    """

    def __init__(self, factor: Tensor, shape: tuple[int, ...]) -> None:
        super().__init__(lambda modes: factor * modes, shape)
        self.factor = factor


SLACK = 1.001
"""The longest step is this much longer than a training frame: stored times are rounded."""


@dataclass(frozen=True)
class Prepared:
    """`E` operators of one family, ready to act on fields of one grid: tensors `(E, ...)`."""

    tensors: Mapping[str, Tensor]
    grid: Grid

    def __len__(self) -> int:
        return int(next(iter(self.tensors.values())).shape[0])

    @property
    def device(self) -> torch.device:
        return next(iter(self.tensors.values())).device

    def take(self, index: Tensor) -> Prepared:
        """The operators at these positions, repeated where an index is."""
        return Prepared({name: t[index] for name, t in self.tensors.items()}, self.grid)


@dataclass(frozen=True)
class Initialisation:
    """How generated parameters start and how far they may go, one number per parameter.

    A decoder emits `bound * tanh((start + scale * (shared + variation * raw)) / bound)`, where
    `raw` depends on the code and `shared` does not.
    """

    start: Tensor
    scale: Tensor
    bound: Tensor
    variation: Tensor | None = None
    """How much a parameter may differ from operator to operator (not given: one)."""

    def __len__(self) -> int:
        return len(self.start)

    def join(self, other: Initialisation) -> Initialisation:
        """The parameters of both, one after the other."""
        variation = None
        if self.variation is not None or other.variation is not None:
            both = [torch.ones_like(x.start) if x.variation is None else x.variation
                    for x in (self, other)]  # fmt: skip
            variation = torch.cat(both)
        return Initialisation(
            torch.cat([self.start, other.start]),
            torch.cat([self.scale, other.scale]),
            torch.cat([self.bound, other.bound]),
            variation,
        )


@dataclass(frozen=True)
class Examples:
    """Some training data: what operators take their sizes and units from."""

    states: Tensor
    """`(n, channel, *space)`, in the units that operators act in."""
    rates: Tensor
    """Change per time of some states, `(n, channel, *space)`."""
    grid: Grid
    dt: float
    """Time between frames."""

    @property
    def channels(self) -> int:
        return self.states.shape[1]


class OperatorFamily(Settings, ABC):
    """Operators `du/dt = f_theta(u)` that share one architecture.

    A family is a frozen dataclass of its settings. `E` operators act on `K` states each in one
    call, without a loop over either. A new family is one file with one subclass, listed in
    `operators/__init__.py`.

    Examples:
        >>> import opsplit
        >>> opsplit.load_model("advection-diffusion").dictionary.parts[0].family.innermost.kind
        'spectral'
    """

    channels: int
    """Physical channels of the field."""
    ndim: int
    """Space axes."""
    max_step: float | None = None
    """Longest step of the integrator, in physical time (None: flows of any length are exact)."""

    @property
    def grid_bound(self) -> bool:
        """Whether operators mean something only at the spacing they were trained at."""
        return False

    @property
    def points_multiple(self) -> int:
        """Every axis must hold a multiple of so many points."""
        return 1

    @property
    def flows_follow_rates(self) -> bool:
        """Whether a flow solves `du/dt = rate(u)`, up to the error of the integrator."""
        return True

    @property
    def innermost(self) -> OperatorFamily:
        """The family itself, or the one inside all wrappers."""
        return self

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Numbers that a parameter vector holds."""

    @abstractmethod
    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        """Turn parameter vectors `(E, n_parameters)` into what `flow` needs on this grid."""

    @abstractmethod
    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        """States `(E, K, channel, *space)` after `duration`, one number or one per operator."""

    def propagator(self, prepared: Prepared, duration: float | Tensor) -> Propagator:
        """The flow over one duration, to be used again and again.

        A family may do here what depends on the operators and the duration alone.
        """
        return lambda u: self.flow(prepared, u, duration)

    @abstractmethod
    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        """The right-hand side `f(u)` itself, on states `(E, K, channel, *space)`."""

    @abstractmethod
    def initialisation(self, generator: torch.Generator) -> Initialisation:
        """Start, scale and bound of every generated parameter."""

    def pruned(self, parameters: Tensor, threshold: float) -> tuple[OperatorFamily, Tensor]:
        """Operators whose small weights are exactly zero, where the family has such weights."""
        return self, parameters

    def directed(self, parameters: Tensor) -> Tensor:
        """Which operators `(E,)` single out a direction, or are not known to be free of one."""
        return torch.ones(len(parameters), dtype=torch.bool, device=parameters.device)

    def right_up_to(self, parameters: Tensor) -> float:
        """Modes beyond this wavenumber do not evolve as the operators say; infinite if all do."""
        return math.inf

    def isotropic(self, parameters: Tensor, ndim: int) -> tuple[OperatorFamily, Tensor]:
        """Operators without a direction as operators on fields with more axes."""
        raise OpsplitError(f"Nothing says how {self.kind} operators act on {ndim}-D fields.")

    def fitted(self, examples: Examples) -> Self:
        """The same family with channels, axes, step and units taken from training data."""
        return self

    @property
    def rate_evaluations(self) -> int:
        """Evaluations of the network in one `rate`."""
        return 1

    def evaluations(self, duration: float) -> int:
        """Right-hand-side evaluations of one flow of that duration."""
        return 1

    def steps(self, duration: float) -> int:
        """Equal integration steps of one flow of that duration."""
        return 1

    def flops(self, grid: Grid) -> int:
        """Floating-point operations of one evaluation of `f` on one state, about."""
        return fft_flops(grid.shape, 2 * self.channels)

    def workspace(self, grid: Grid, states: int) -> int:
        """Numbers held in memory, about, while one operator acts on so many states."""
        return 8 * states * self.channels * math.prod(grid.shape)

    def check_grid(self, grid: Grid) -> None:
        """Raise with the reason if the family cannot act on this grid."""
        if grid.ndim != self.ndim:
            raise OpsplitError(
                f"These {self.kind} operators act on {self.ndim}-D fields, "
                f"the data are {grid.ndim}-D with shape {grid.shape}."
            )


FAMILIES: Registry[type[OperatorFamily]] = Registry(
    "operator family",
    "opsplit.families",
    {
        "spectral": "opsplit.operators.spectral:Spectral",
        "unet": "opsplit.operators.unet:UNet",
        "linear": "opsplit.operators.linear:Linear",
        "standardised": "opsplit.operators.wrappers:Standardised",
        "homogeneous": "opsplit.operators.wrappers:Homogeneous",
        "conserving": "opsplit.operators.wrappers:Conserving",
        "potential-inputs": "opsplit.operators.wrappers:PotentialInputs",
        "shifted-stages": "opsplit.operators.wrappers:ShiftedStages",
        "band-limited": "opsplit.operators.wrappers:BandLimited",
        "non-amplifying": "opsplit.operators.wrappers:NonAmplifying",
        "along": "opsplit.operators.wrappers:Along",
        "on-channel": "opsplit.operators.wrappers:OnChannel",
        "mirrored": "opsplit.operators.wrappers:Mirrored",
        "negated": "opsplit.operators.wrappers:Negated",
    },
)
OperatorFamily.kinds = FAMILIES


def per_operator(duration: float | Tensor, u: Tensor) -> Tensor:
    """The duration as a tensor that broadcasts over states `(E, K, channel, *space)`."""
    h = torch.as_tensor(duration, dtype=u.dtype, device=u.device)
    return h.reshape(-1, *[1] * (u.ndim - 1)) if h.ndim else h


def longest(duration: float | Tensor) -> float:
    return float(torch.as_tensor(duration).abs().max())


def steps_of(duration: float, max_step: float | None) -> int:
    """Equal steps no longer than `max_step` (None: one step) that a duration needs."""
    if max_step is None:
        return 1
    wanted = duration / max_step
    if not wanted <= MOST_STEPS:
        raise OpsplitError(
            f"An operator whose longest step is {max_step:.3g} needs {wanted:.3g} steps for a "
            f"duration of {duration:.3g}; at most {MOST_STEPS} are made."
        )
    return max(1, math.ceil(wanted - 1e-6))


def unpack(parameters: Tensor, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Parameter vectors `(E, n)` as named tensors `(E, *shape)`."""
    pieces = parameters.split([math.prod(shape) for shape in shapes.values()], dim=1)
    both = zip(shapes.items(), pieces, strict=True)
    return {name: piece.reshape(len(parameters), *shape) for (name, shape), piece in both}
