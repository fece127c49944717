"""The protocol everything above the operators hangs on: prepare once, then flow."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid


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


class OperatorFamily(ABC):
    """Operators `du/dt = f_theta(u)` that share one architecture.

    `E` operators act on `K` states each in one call, without a loop over either.
    """

    name: ClassVar[str]
    n_parameters: int
    channels: int
    ndim: int
    grid_bound: bool = False
    """Whether operators mean something only at the spacing they were trained at."""
    points_multiple: int = 1
    """Every axis must hold a multiple of so many points."""
    max_strength: float = 4.0
    """Largest strength a search gives if not told; learned flows are trained on short ones."""

    @abstractmethod
    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        """Turn parameter vectors `(E, n_parameters)` into what `flow` needs on this grid."""

    @abstractmethod
    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        """States `(E, K, channel, *space)` after `duration`, one number or one per operator."""

    @abstractmethod
    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        """The right-hand side `f(u)` itself, on states `(E, K, channel, *space)`."""

    @abstractmethod
    def initialisation(self, generator: torch.Generator) -> Initialisation:
        """Start, scale and bound of every generated parameter."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The constructor's arguments, for `config.json`."""

    @property
    def rate_evaluations(self) -> int:
        """Evaluations of the network in one `rate`."""
        return 1

    def evaluations(self, duration: float) -> int:
        """Right-hand-side evaluations of one flow of that duration."""
        return 1

    def workspace(self, grid: Grid, states: int) -> int:
        """Numbers held in memory, about, while one operator acts on so many states."""
        return 8 * states * self.channels * math.prod(grid.shape)

    def check_grid(self, grid: Grid) -> None:
        """Raise with the reason if the family cannot act on this grid."""
        if grid.ndim != self.ndim:
            raise OpsplitError(
                f"These {self.name} operators act on {self.ndim}-D fields, "
                f"the data are {grid.ndim}-D with shape {grid.shape}."
            )


def per_operator(duration: float | Tensor, u: Tensor) -> Tensor:
    """The duration as a tensor that broadcasts over states `(E, K, channel, *space)`."""
    h = torch.as_tensor(duration, dtype=u.dtype, device=u.device)
    return h.reshape(-1, *[1] * (u.ndim - 1)) if h.ndim else h


def count_flops(family: OperatorFamily, prepared: Prepared) -> int:
    """Floating-point operations of one evaluation of `f` on one state, by torch's counter.

    Matrix products and convolutions as torch counts them, and `2.5 n log2 n` per real FFT.
    """
    from torch.utils.flop_counter import FlopCounterMode

    def fft(shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
        n = max(math.prod(shape), math.prod(out_shape))
        return int(2.5 * n * math.log2(max(2, math.prod(prepared.grid.shape))))

    ffts = {torch.ops.aten._fft_r2c: fft, torch.ops.aten._fft_c2r: fft}
    one = prepared.take(torch.zeros(1, dtype=torch.long, device=prepared.device))
    kind = next(iter(prepared.tensors.values())).dtype.to_real()
    state = torch.zeros(
        1, 1, family.channels, *prepared.grid.shape, device=prepared.device, dtype=kind
    )
    with FlopCounterMode(display=False, custom_mapping=ffts) as counter, torch.no_grad():
        family.rate(one, state)
    return counter.get_total_flops() // family.rate_evaluations


def longest(duration: float | Tensor) -> float:
    return float(torch.as_tensor(duration).abs().max())
