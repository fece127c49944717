"""The paper's family: a small U-Net with generated weights, integrated by RK4.

All convolutions are bias-free and grouped by operator, so that `E` weight sets act on `K`
states each in one call; the layout inside is `(K, E * channel, *space)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import mode_shares, wavenumbers
from opsplit.grid import Grid
from opsplit.integrators import RK38_WEIGHTS, rk38
from opsplit.operators.family import (
    Initialisation,
    OperatorFamily,
    Prepared,
    longest,
    per_operator,
)

CONVOLUTION: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
PADDING = {"periodic": "circular", "reflect": "reflect", "zero": "constant"}
LEVELS = 4
NORM_GROUPS = 4
STAGE_SHIFTS = (0, 5, 10, 15)
"""Weighted as the stages are, patterns of period 2, 4, 8 and 16 cancel but for 0, .35, .06, .17."""


class _Wrap(torch.autograd.Function):
    """Circular padding by one cell; torch's own gradient of it copies the field many times."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ndim: int) -> Tensor:
        ctx.ndim = ndim
        return F.pad(x, (1, 1) * ndim, mode="circular")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        g = gradients[0]
        for dim in range(-ctx.ndim, 0):
            low, high = g.narrow(dim, 0, 1), g.narrow(dim, -1, 1)
            g = g.narrow(dim, 1, g.shape[dim] - 2)
            g = g.clone() if dim == -ctx.ndim else g
            g.narrow(dim, 0, 1).add_(high)
            g.narrow(dim, -1, 1).add_(low)
        return g, None


class UNet(OperatorFamily):
    """DISCO's operator: four levels down and up, group norm, GELU, linear adapters.

    Arguments:
        channels: physical channels of the field.
        ndim: space axes.
        boundary: per axis; a wall ("reflect" or "zero") adds a mask channel that marks it.
        width: channels at full resolution.
        steps: RK4 steps for one `max_step`.
        max_step: longest duration covered by `steps` RK4 steps, in physical time; a longer
            flow is split into equal parts no longer than this.
        band: share of the modes of every periodic axis that a flow changes; the rest stay as
            they are. Scales that training fields do not hold would otherwise grow unnoticed.
        calm: share of the modes beyond which a flow may turn and damp a mode, never raise it, as no
            linear transport, diffusion or dispersion does; needs periodic axes. 1: no limit.
        conserve: whether a flow keeps the mean of every channel exactly.
        centre: the usual mean of every channel, taken off before the network (not given: 0).
        spread: the usual deviation of every channel, divided by before the network (not given: 1).
        pace: how fast every channel usually changes, the unit of what comes out (not given: 1).
        power: twice the state changes `2**power` times as fast, exactly; "learned" gives every
            operator a power of its own. The network then only sees states of size one: its
            normalisations hide how large they were. Not given: the network must find out.
        shifted: whether the four stages of an RK4 step see the field on shifted grids. A network
            that halves its grid errs in a pattern tied to it, which adds up from step to step;
            over the four shifts the pattern all but cancels.
        stream: also show the network the gradient of the stream function of every channel (its
            inverse Laplacian; the velocity of a vorticity), times this usual wavenumber; needs
            periodic axes. 0: do not.
        normalise: "all" for group norms at all resolutions, or "coarse" for all but the full one:
            they hide how large a value is, which a reaction must know.
        max_strength: largest strength a search gives if not told. A long flow is a chain of steps
            as they were trained; where slow operators are the better ones, more is better.
    """

    name = "unet"
    grid_bound = True
    points_multiple = 2**LEVELS

    def __init__(
        self,
        channels: int,
        ndim: int,
        max_step: float,
        boundary: tuple[str, ...] | None = None,
        width: int = 8,
        steps: int = 1,
        band: float = 1.0,
        conserve: bool = False,
        centre: Sequence[float] = (),
        spread: Sequence[float] = (),
        pace: Sequence[float] = (),
        power: float | Literal["learned"] | None = None,
        shifted: bool = False,
        calm: float = 1.0,
        stream: float = 0.0,
        normalise: Literal["all", "coarse"] = "all",
        max_strength: float = 4.0,
    ) -> None:
        self.channels, self.ndim, self.width = channels, ndim, width
        self.max_step, self.steps, self.band, self.conserve = max_step, steps, band, conserve
        self.centre, self.spread, self.pace = list(centre), list(spread), list(pace)
        self.power, self.shifted, self.calm = power, shifted, calm
        self.stream, self.normalise, self.max_strength = stream, normalise, max_strength
        for name in ("centre", "spread", "pace"):
            if len(getattr(self, name)) not in (0, channels):
                raise OpsplitError(f"{name} needs one number for each of {channels} channels.")
        if not 0 < band <= 1:
            raise OpsplitError(f"band is a share of the modes, above 0 and at most 1, got {band}.")
        if isinstance(power, str) and power != "learned":
            raise OpsplitError(f"power is a number, or 'learned', got {power!r}.")
        self.boundary = tuple(boundary or ("periodic",) * ndim)
        self.periodic = [i - ndim for i, word in enumerate(self.boundary) if word == "periodic"]
        self.walls = any(word != "periodic" for word in self.boundary)
        if not 0 <= calm <= 1 or (calm < 1 and self.walls):
            raise OpsplitError(
                f"calm is a share of the modes of periodic axes, from 0 to 1, got {calm} "
                f"with boundaries {self.boundary}."
            )
        if stream < 0 or (stream > 0 and self.walls):
            raise OpsplitError(
                f"stream is a wavenumber on periodic axes, or 0, got {stream} "
                f"with boundaries {self.boundary}."
            )
        if normalise not in ("all", "coarse"):
            raise OpsplitError(f"normalise is 'all' or 'coarse', got {normalise!r}.")
        self.layers = self._layers()
        self.n_parameters = sum(math.prod(shape) for shape, _ in self.layers.values())

    def config(self) -> dict[str, Any]:
        return {
            "channels": self.channels,
            "ndim": self.ndim,
            "max_step": self.max_step,
            "boundary": list(self.boundary),
            "width": self.width,
            "steps": self.steps,
            "band": self.band,
            "conserve": self.conserve,
            "centre": self.centre,
            "spread": self.spread,
            "pace": self.pace,
            "power": self.power,
            "shifted": self.shifted,
            "calm": self.calm,
            "stream": self.stream,
            "normalise": self.normalise,
            "max_strength": self.max_strength,
        }

    def _layers(self) -> dict[str, tuple[tuple[int, ...], int]]:
        """Shape and fan-in of every parameter tensor; fan-in 0 marks a norm's affine part."""
        s, d, c_in = self.width, self.ndim, self.channels + self.walls
        one, two, three = (1,) * d, (2,) * d, (3,) * d
        layers: dict[str, tuple[tuple[int, ...], int]] = {}

        def conv(name: str, out: int, into: int, kernel: tuple[int, ...]) -> None:
            layers[name] = ((out, into, *kernel), into * math.prod(kernel))

        def norm(name: str, channels: int) -> None:
            layers[f"{name}.gain"] = ((channels,), 0)
            layers[f"{name}.shift"] = ((channels,), 0)

        conv("adapter_in", s, c_in, one)
        layers["adapter_in.bias"] = ((s,), c_in)
        conv("in1", s, s, three)
        conv("in2", s, s, three)
        for level in range(LEVELS):
            c = s * 2 ** (level + 1)
            conv(f"down{level}", c, c // 2, two)
            norm(f"down{level}.norm1", c)
            conv(f"down{level}.depthwise", c, 1, three)
            norm(f"down{level}.norm2", c)
        c = s * 2**LEVELS
        conv("middle1", 2 * c, c, one)
        norm("middle.norm", 2 * c)
        conv("middle2", c, 2 * c, one)
        for level in reversed(range(LEVELS)):
            c = s * 2 ** (level + 1)
            # A transposed convolution with kernel = stride = 2 is a 1x1 convolution to
            # 2^d times the channels, then depth to space; far faster in groups on a CPU.
            layers[f"up{level}"] = ((c // 2 * 2**d, c, *one), c)
            conv(f"up{level}.merge", c // 2, 2, three)
            norm(f"up{level}.norm", c // 2)
        conv("out1", s, s, three)
        norm("out.norm", s)
        conv("out2", s, s, three)
        conv("adapter_out", self.channels, s, one)
        layers["adapter_out.bias"] = ((self.channels,), s)
        if self.power == "learned":
            layers["power"] = ((1,), 0)
        if self.stream:
            conv("adapter_stream", s, self.channels * d, one)
        return layers

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        """PyTorch's default start for each layer; weights stay within four times its bound."""
        start, scale, bound = [], [], []
        for name, (shape, fan_in) in self.layers.items():
            n = math.prod(shape)
            size = 1 / math.sqrt(fan_in) if fan_in else 1.0
            if fan_in:
                begin = size * (2 * torch.rand(n, generator=generator) - 1)
            else:
                begin = torch.full((n,), float(name.endswith(("gain", "power"))))
            start.append(begin)
            scale.append(torch.full((n,), size if fan_in else 0.3))
            bound.append(torch.full((n,), 4 * size))
        return Initialisation(torch.cat(start), torch.cat(scale), torch.cat(bound))

    def check_grid(self, grid: Grid) -> None:
        super().check_grid(grid)
        if any(n % 2**LEVELS for n in grid.shape):
            raise OpsplitError(
                f"A unet operator halves the grid {LEVELS} times: every axis needs a multiple of "
                f"{2**LEVELS} points, got {grid.shape}."
            )
        if grid.boundary != self.boundary:
            raise OpsplitError(
                f"These unet operators were made for boundaries {self.boundary}, "
                f"the data have {grid.boundary}."
            )

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        sizes = [math.prod(shape) for shape, _ in self.layers.values()]
        pieces = parameters.split(sizes, dim=1)
        return Prepared(
            {
                name: piece.reshape(-1, *shape)
                for (name, (shape, _)), piece in zip(self.layers.items(), pieces, strict=True)
            },
            grid,
        )

    def evaluations(self, duration: float) -> int:
        return 4 * self._rk_steps(duration)

    def workspace(self, grid: Grid, states: int) -> int:
        fields = states * math.prod(grid.shape) * (self.width * 8 + self.channels * 8)
        return 2 * self.n_parameters + fields

    def _rk_steps(self, duration: float) -> int:
        return self.steps * max(1, math.ceil(duration / self.max_step - 1e-6))

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        # Weights with the operator folded into the output channel, as grouped convolutions want.
        w = {name: t.flatten(0, 1) for name, t in prepared.tensors.items()}
        n_operators = u.shape[0]
        h = per_operator(duration, u)
        states = u.transpose(0, 1)
        h = h.transpose(0, 1) if h.ndim else h
        shifts = cycle(STAGE_SHIFTS if self.shifted else (0,))
        out = rk38(
            lambda x: self._shifted_field(w, x, n_operators, prepared.grid, next(shifts)),
            states,
            h,
            self._rk_steps(longest(duration)),
        )
        out = self._within_band(u, out.transpose(0, 1))
        return self._calmed(u, out, prepared.grid) if self.calm < 1 else out

    def _calmed(self, before: Tensor, after: Tensor, grid: Grid) -> Tensor:
        """The state after a flow, its upper modes no larger than before."""
        axes = tuple(range(-self.ndim, 0))
        was, now = (torch.fft.rfftn(x, dim=axes) for x in (before, after))
        kept = (was.abs() / now.abs().clamp_min(1e-30)).clamp(max=1)
        upper = mode_shares(grid, before.device) > self.calm
        return torch.fft.irfftn(now * torch.where(upper, kept, 1.0), s=grid.shape, dim=axes)

    def _within_band(self, before: Tensor, after: Tensor) -> Tensor:
        """The change from one state to the next, in the band only."""
        change = after - before
        for axis, word in enumerate(self.boundary):
            if self.band < 1 and word == "periodic":
                dim = axis - self.ndim
                spectrum = torch.fft.rfft(change, dim=dim)
                last = int(self.band * (change.shape[dim] // 2))
                outside = [slice(None)] * change.ndim
                outside[dim] = slice(last + 1, None)
                spectrum[tuple(outside)] = 0
                change = torch.fft.irfft(spectrum, n=change.shape[dim], dim=dim)
        return before + change if self.band < 1 else after

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        w = {name: t.flatten(0, 1) for name, t in prepared.tensors.items()}
        x, e, grid = u.transpose(0, 1), u.shape[0], prepared.grid
        if self.shifted:
            # What a short flow sees: a single grid shows the pattern that the stages cancel.
            rate = torch.zeros_like(x)
            for shift, weight in zip(STAGE_SHIFTS, RK38_WEIGHTS, strict=True):
                rate += weight * self._shifted_field(w, x, e, grid, shift)
        else:
            rate = self._field(w, x, e, grid)
        rate = rate.transpose(0, 1)
        return self._within_band(torch.zeros_like(rate), rate)

    @property
    def rate_evaluations(self) -> int:
        return len(STAGE_SHIFTS) if self.shifted else 1

    def _shifted_field(
        self, w: dict[str, Tensor], x: Tensor, e: int, grid: Grid, shift: int
    ) -> Tensor:
        """`f_theta` as seen from a grid that is `shift` points further along periodic axes."""
        if shift == 0:
            return self._field(w, x, e, grid)
        by, axes = [shift] * len(self.periodic), self.periodic
        rate = self._field(w, x.roll(by, axes), e, grid)
        return rate.roll([-shift] * len(axes), axes)

    def _wall_mask(self, grid: Grid, u: Tensor) -> Tensor:
        """One on cells beside a wall, zero elsewhere."""
        mask = torch.zeros(grid.shape, dtype=u.dtype, device=u.device)
        for axis, word in enumerate(self.boundary):
            if word != "periodic":
                mask.select(axis, 0).fill_(1)
                mask.select(axis, -1).fill_(1)
        return mask

    def _field(self, w: dict[str, Tensor], x: Tensor, e: int, grid: Grid) -> Tensor:
        """`f_theta` on states `(K, E, channel, *space)`."""
        if self.ndim > 1 and e > 1 and x.device.type == "cpu":
            # The fields of one operator fill the cache: one after the other is a quarter faster.
            each = [{name: t.unflatten(0, (e, -1))[i] for name, t in w.items()} for i in range(e)]
            rates = [self._field(own, x[:, i : i + 1], 1, grid) for i, own in enumerate(each)]
            return torch.cat(rates, 1)
        convolve = CONVOLUTION[self.ndim]
        k, space = x.shape[0], x.shape[3:]

        def conv(x: Tensor, name: str, **options: Any) -> Tensor:
            return convolve(x, w[name], w.get(f"{name}.bias"), groups=e, **options)

        def conv3(x: Tensor, name: str) -> Tensor:
            return conv(self._pad(x), name)

        def depthwise(x: Tensor, weight: Tensor) -> Tensor:
            return convolve(self._pad(x), weight, groups=weight.shape[0])

        def of(values: Sequence[float] | Tensor) -> Tensor:
            return torch.as_tensor(values, dtype=x.dtype, device=x.device).reshape(
                -1, *[1] * self.ndim
            )

        def norm_gelu(x: Tensor, name: str) -> Tensor:
            gain, shift = w[f"{name}.gain"], w[f"{name}.shift"]
            if self.normalise == "all" or x.shape[2:] != space:
                return F.gelu(F.group_norm(x, NORM_GROUPS * e, gain, shift))
            return F.gelu(torch.addcmul(of(shift), x, of(gain)))

        size = None
        if self.power is not None:
            size = x.square().mean(tuple(range(2, x.ndim)), keepdim=True).clamp_min(1e-24).sqrt()
            x = x / size
        velocity = self._stream_gradient(x, grid) if self.stream else None
        if self.centre:
            x = x - of(self.centre)
        if self.spread:
            x = x / of(self.spread)
        if self.walls:
            x = torch.cat([x, self._wall_mask(grid, x).expand(k, e, 1, *space)], 2)
        x = conv(x.flatten(1, 2), "adapter_in")
        if velocity is not None:
            x = x + conv(velocity.flatten(1, 2), "adapter_stream")
        x = conv3(conv3(x, "in1"), "in2")
        skips = [x]
        for level in range(LEVELS):
            x = norm_gelu(conv(x, f"down{level}", stride=2), f"down{level}.norm1")
            x = norm_gelu(depthwise(x, w[f"down{level}.depthwise"]), f"down{level}.norm2")
            skips.append(x)
        skips.pop()
        x = x + conv(norm_gelu(conv(x, "middle1"), "middle.norm"), "middle2")
        for level in reversed(range(LEVELS)):
            x = self._depth_to_space(conv(x, f"up{level}"))
            # Every output of the merging convolution sees two neighbouring channels of
            # [upsampled, skip], so the halves never meet here: convolve each, add in pairs.
            halves = w[f"up{level}.merge"].unflatten(0, (e, 2, -1)).transpose(0, 1).flatten(1, 3)
            merged = [
                depthwise(part, half.unsqueeze(1)).unflatten(1, (e, -1, 2)).sum(3)
                for part, half in zip((x, skips.pop()), halves, strict=True)
            ]
            x = norm_gelu(torch.cat(merged, 2).flatten(1, 2), f"up{level}.norm")
        x = conv3(norm_gelu(conv3(x, "out1"), "out.norm"), "out2")
        rate = conv(x, "adapter_out").unflatten(1, (e, self.channels))
        if self.conserve:
            rate = rate - rate.mean(tuple(range(3, rate.ndim)), keepdim=True)
        if self.pace:
            rate = rate * of(self.pace)
        if size is None:
            return rate
        power = w["power"] if "power" in w else size.new_full((1,), self.power)  # type: ignore[arg-type]
        return rate * size ** power.reshape(-1, *[1] * (rate.ndim - 2))

    def _stream_gradient(self, x: Tensor, grid: Grid) -> Tensor:
        """The gradient of the inverse Laplacian, an axis after the other as further channels."""
        axes = tuple(range(-self.ndim, 0))
        kappa = wavenumbers(grid, x.dtype, x.device)
        square = torch.stack(torch.broadcast_tensors(*kappa)).square().sum(0)
        potential = torch.fft.rfftn(x, dim=axes) * torch.where(square > 0, -1 / square, 0)
        slopes = [
            torch.fft.irfftn(1j * self.stream * k * potential, s=grid.shape, dim=axes)
            for k in kappa
        ]
        return torch.cat(slopes, 2)

    def _pad(self, x: Tensor) -> Tensor:
        """One cell on both ends of every axis, by the boundary of that axis."""
        d = self.ndim
        if not self.walls:
            wrapped: Tensor = _Wrap.apply(x, d)  # type: ignore[no-untyped-call]
            return wrapped
        for word in dict.fromkeys(self.boundary):
            # Pads of torch count from the last axis backwards, two numbers per axis.
            pads = [int(self.boundary[d - 1 - i // 2] == word) for i in range(2 * d)]
            # A single cell has no neighbour to reflect; it repeats itself.
            lonely = word == "reflect" and min(x.shape[-d:]) == 1
            x = F.pad(x, pads, mode="replicate" if lonely else PADDING[word])
        return x

    def _depth_to_space(self, x: Tensor) -> Tensor:
        d = self.ndim
        space = x.shape[2:]
        x = x.unflatten(1, (-1, *(2,) * d))
        order = [0, 1, *(2 + axis + part for axis in range(d) for part in (d, 0))]
        return x.permute(order).reshape(x.shape[0], x.shape[1], *(2 * n for n in space))
