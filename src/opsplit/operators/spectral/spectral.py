"""Our family for periodic grids: a Fourier symbol and products of filtered fields.

    f(u) = F^-1[ L(k) F u ]  +  N(u)

The linear part is integrated exactly by its exponential, the nonlinear part by an
integrating-factor Runge-Kutta scheme. A linear operator is a symbol and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Annotated, Self

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, mode_shares, spectrum_of
from opsplit.grid import Grid
from opsplit.integrators import integrating_factor_rk4
from opsplit.operators.family import (
    SLACK,
    Axes,
    Channels,
    Examples,
    Initialisation,
    Multiplier,
    OfModes,
    OperatorFamily,
    Prepared,
    Propagator,
    Step,
    longest,
    steps_of,
    unpack,
)
from opsplit.operators.flops import fft_flops
from opsplit.operators.spectral.linear_part import LinearPart
from opsplit.operators.spectral.nonlinearity import Nonlinearity
from opsplit.operators.spectral.symbol import Symbol
from opsplit.settings import Between, Size

FILTER_ORDER = 36
"""Power of the exponential filter (Hou and Li, 2007)."""
PIECE = 2**16
"""Numbers that act point by point at once, where states have more."""
BOUND = 20.0
"""No generated parameter goes beyond this many of its scales."""


@dataclass(frozen=True)
class Spectral(OperatorFamily):
    """Operators given by smooth symbols and pointwise products, at any resolution and box size.

    Arguments:
        channels: physical channels of the field; `L` acts on each by itself.
        ndim: space axes.
        max_step: longest Runge-Kutta step, in physical time (None: a training frame).
        linear: the symbol.
        nonlinearity: the products (None: a linear operator).
        wavenumber_unit: unit of the wavenumber, about that of the fields.
        filter_rate: how fast flows with products damp the grid's finest mode, which the products
            would fill up; an exponential filter that leaves the lower four fifths alone.
    """

    kind = "spectral"

    channels: Channels = 1
    ndim: Axes = 1
    max_step: Step | None = None
    linear: LinearPart = field(default_factory=Symbol)
    nonlinearity: Nonlinearity | None = None
    wavenumber_unit: Size = 1.0
    filter_rate: Annotated[float, Between(0.0, 1e30)] = 0.0

    def check(self) -> None:
        self.shapes()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The generated parameters, by name."""
        made = self.linear.shapes(self.channels, self.ndim)
        if self.nonlinearity is not None:
            made |= self.nonlinearity.shapes(self.channels, self.ndim)
        return made

    @property
    def n_parameters(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes().values())

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        """Start near the identity flow: weak decay, no rotation, products switched off."""
        start, scale, variation = [], [], []
        linear = self.linear.shapes(self.channels, self.ndim)
        for name, shape in self.shapes().items():
            differs = 1.0
            if name in linear:
                begin, size = self.linear.start(name, shape)
            else:
                assert self.nonlinearity is not None
                begin, size, differs = self.nonlinearity.start(name, shape, generator)
            start.append(begin.flatten())
            scale.append(size.flatten())
            variation.append(torch.full((begin.numel(),), differs))
        begin = torch.cat(start)
        bound = torch.full_like(begin, BOUND)
        return Initialisation(begin, torch.cat(scale), bound, torch.cat(variation))

    def pruned(self, parameters: Tensor, threshold: float) -> tuple[OperatorFamily, Tensor]:
        if self.nonlinearity is None:
            return self, parameters
        weights = unpack(parameters, self.shapes())
        own = {
            name: weights.pop(name) for name in self.nonlinearity.shapes(self.channels, self.ndim)
        }
        nonlinearity, own = self.nonlinearity.pruned(own, threshold)
        if nonlinearity is self.nonlinearity:
            return self, parameters
        pieces = [t.flatten(1) for t in (*weights.values(), *own.values())]
        return replace(self, nonlinearity=nonlinearity), torch.cat(pieces, 1)

    def directed(self, parameters: Tensor) -> Tensor:
        weights = unpack(parameters, self.shapes())
        found = self.linear.directed(weights, self.ndim, self.wavenumber_unit)
        if self.nonlinearity is not None:
            found = found | self.nonlinearity.directed(weights, self.ndim)
        return found

    def right_up_to(self, parameters: Tensor) -> float:
        weights = unpack(parameters, self.shapes())
        return self.linear.right_up_to(weights, self.ndim, self.wavenumber_unit)

    def isotropic(self, parameters: Tensor, ndim: int) -> tuple[OperatorFamily, Tensor]:
        weights = unpack(parameters, self.shapes())
        linear, kept = self.linear.isotropic(weights, self.ndim, ndim)
        nonlinearity = None
        if self.nonlinearity is not None:
            nonlinearity, more = self.nonlinearity.isotropic(weights, self.ndim, ndim)
            kept |= more
        made = replace(self, ndim=ndim, linear=linear, nonlinearity=nonlinearity)
        return made, torch.cat([kept[name].flatten(1) for name in made.shapes()], 1)

    def fitted(self, examples: Examples) -> Self:
        grid, nonlinearity = examples.grid, self.nonlinearity
        if nonlinearity is not None:
            nonlinearity = nonlinearity.fitted(examples, self.wavenumber_unit)
        return replace(
            self, channels=examples.channels, ndim=grid.ndim,
            linear=self.linear.fitted(examples),
            nonlinearity=nonlinearity,
            max_step=SLACK * examples.dt if self.max_step is None else self.max_step,
        )  # fmt: skip

    def check_grid(self, grid: Grid) -> None:
        super().check_grid(grid)
        if not grid.periodic:
            raise OpsplitError(
                f"Spectral operators need periodic axes, the data have {grid.boundary}; a fit "
                "continues fields beyond walls by symmetry."
            )

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        weights = unpack(parameters, self.shapes())
        tensors = {"symbol": self.linear.values(weights, grid, self.wavenumber_unit)}
        if self.nonlinearity is not None:
            tensors |= self.nonlinearity.prepare(weights, grid, self.wavenumber_unit)
            if self.filter_rate:
                shares = mode_shares(grid, parameters.device).to(parameters.dtype)
                damping = self.filter_rate * shares**FILTER_ORDER
                tensors["damping"] = damping.expand(len(parameters), 1, *damping.shape)
        return Prepared(tensors, grid)

    def steps(self, duration: float) -> int:
        return 1 if self.nonlinearity is None else steps_of(duration, self.max_step)

    def evaluations(self, duration: float) -> int:
        return 1 if self.nonlinearity is None else 4 * self.steps(duration)

    def flops(self, grid: Grid) -> int:
        linear = fft_flops(grid.shape, 2 * self.channels)
        if self.nonlinearity is None:
            return linear
        return linear + self.nonlinearity.flops(self.channels, self.ndim, grid)

    def workspace(self, grid: Grid, states: int) -> int:
        fields = 8
        if self.nonlinearity is not None:
            fields += 4 * self.nonlinearity.fields(self.channels, self.ndim)
        return states * math.prod(grid.shape) * (12 * self.channels + fields)

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        return self.propagator(prepared, duration)(u)

    def propagator(self, prepared: Prepared, duration: float | Tensor) -> Propagator:
        local = self._local(prepared)
        if local is None:
            return self._flow(prepared, duration)
        if bool(local.all()):
            return self._react(prepared, duration)
        parts = []
        for mine, flow in ((local, self._react), (~local, self._flow)):
            alike = not isinstance(duration, Tensor) or not duration.ndim
            own = duration if alike else duration[mine]  # type: ignore[index]
            parts.append((mine, flow(prepared.take(mine), own)))

        def each(u: Tensor) -> Tensor:
            out = torch.empty_like(u)
            for mine, move in parts:
                out[mine] = move(u[mine])
            return out

        return each

    def _local(self, prepared: Prepared) -> Tensor | None:
        """Which operators act in every point by itself, and need no transforms (None: none)."""
        if self.nonlinearity is None or self.filter_rate:
            return None
        found = self.nonlinearity.local(prepared.tensors)
        if found is None or not bool(found.any()):
            return None
        symbol = prepared.tensors["symbol"].flatten(2)
        found = found & symbol.eq(symbol[:, :, :1].real).flatten(1).all(1)
        return found if bool(found.any()) else None

    def _growth(self, prepared: Prepared) -> Tensor:
        """The symbol of operators without derivatives: one number per channel."""
        symbol = prepared.tensors["symbol"].flatten(2)[..., 0].real
        return symbol.reshape(len(symbol), 1, -1, *[1] * self.ndim)

    def _lasting(self, prepared: Prepared, duration: float | Tensor) -> Tensor:
        """The duration, to broadcast over states `(E, K, channel, *space)`."""
        symbol = prepared.tensors["symbol"]
        h = torch.as_tensor(duration, dtype=symbol.real.dtype, device=symbol.device)
        return h.reshape(-1, *[1] * (2 + self.ndim)) if h.ndim else h

    def _react(self, prepared: Prepared, duration: float | Tensor) -> Propagator:
        """The same steps as `_march`, point by point."""
        steps = self.steps(longest(duration))
        whole = self._reaction(prepared, duration, steps)

        def react(u: Tensor) -> Tensor:
            if u.numel() <= PIECE or torch.is_grad_enabled():
                return whole(u)
            return self._in_pieces(prepared, duration, steps, u)

        return react

    def _reaction(self, prepared: Prepared, duration: float | Tensor, steps: int) -> Propagator:
        assert self.nonlinearity is not None
        reaction = self.nonlinearity.reaction(prepared.tensors)
        h = self._lasting(prepared, duration) / steps
        half = torch.exp(self._growth(prepared) * (h / 2))
        factors = {0.5: half, 1.0: half * half}
        return lambda u: integrating_factor_rk4(
            lambda v, share: factors[share] * v, reaction, u, h, steps
        )

    def _in_pieces(
        self, prepared: Prepared, duration: float | Tensor, steps: int, u: Tensor
    ) -> Tensor:
        """A few points of one state at a time go all the way: the cache holds them."""
        flat = u.flatten(3)
        out = torch.empty_like(flat)
        width = max(1, PIECE // flat.shape[2])
        each = isinstance(duration, Tensor) and duration.ndim > 0
        for e, states in enumerate(flat):
            own = prepared.take(torch.tensor([e], device=u.device))
            lasting = duration[e : e + 1] if each else duration  # type: ignore[index]
            move = self._reaction(own, lasting, steps)
            for k, state in enumerate(states):
                for begin in range(0, flat.shape[3], width):
                    some = state[None, None, :, begin : begin + width]
                    moved = move(some.reshape(*some.shape, *[1] * (self.ndim - 1)))
                    out[e, k, :, begin : begin + width] = moved.reshape(some.shape)[0, 0]
        return out.reshape(u.shape)

    def _flow(self, prepared: Prepared, duration: float | Tensor) -> Propagator:
        shape = prepared.grid.shape
        h = self._lasting(prepared, duration)
        active = self._active(prepared)
        if active is None:
            return OfModes(self._march(prepared, h, duration), shape)
        factor = torch.exp(prepared.tensors["symbol"][:, None] * h)
        if not len(active):
            return Multiplier(factor, shape)
        own = h if h.ndim == 0 else h[active]
        march = self._march(prepared.take(active), own, duration)

        def both(spectrum: Tensor) -> Tensor:
            moved = factor * spectrum
            moved[active] = march(spectrum[active])
            return moved

        return OfModes(both, shape)

    def _active(self, prepared: Prepared) -> Tensor | None:
        """Positions of the operators that have products (None: all of them)."""
        if self.nonlinearity is None:
            return torch.zeros(0, dtype=torch.long, device=prepared.device)
        return self.nonlinearity.active(prepared.tensors)

    def _march(self, prepared: Prepared, h: Tensor, duration: float | Tensor) -> Propagator:
        """Integrating-factor steps of symbol and products, from spectrum to spectrum."""
        symbol = prepared.tensors["symbol"].unsqueeze(1)
        if self.filter_rate:
            symbol = symbol - prepared.tensors["damping"].unsqueeze(1)
        steps = self.steps(longest(duration))
        h = h / steps
        half = torch.exp(symbol * (h / 2))
        factors = {0.5: half, 1.0: half * half}
        assert self.nonlinearity is not None
        products = self.nonlinearity.bound(prepared.tensors, prepared.grid)
        return lambda spectrum: integrating_factor_rk4(
            lambda v, share: factors[share] * v, products, spectrum, h, steps
        )

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        local = self._local(prepared)
        if local is not None and bool(local.all()):
            assert self.nonlinearity is not None
            return self._growth(prepared) * u + self.nonlinearity.react(prepared.tensors, u)
        if local is not None:
            out = torch.empty_like(u)
            for mine in (local, ~local):
                out[mine] = self.rate(prepared.take(mine), u[mine])
            return out
        spectrum = spectrum_of(u, self.ndim)
        total = prepared.tensors["symbol"].unsqueeze(1) * spectrum
        active = self._active(prepared)
        if active is None:
            total = total + self._products(prepared, spectrum)
        elif len(active):
            total[active] += self._products(prepared.take(active), spectrum[active])
        return field_of(total, prepared.grid.shape)

    def _products(self, prepared: Prepared, spectrum: Tensor) -> Tensor:
        assert self.nonlinearity is not None
        return self.nonlinearity.products(prepared.tensors, spectrum, prepared.grid)
