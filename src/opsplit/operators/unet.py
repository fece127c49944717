"""The paper's family: a small U-Net with generated weights, integrated by Kutta's 3/8 rule.

All convolutions are bias-free and grouped by operator, so that `E` weight sets act on `K`
states each in one call; the layout inside is `(K, E * channel, *space)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from opsplit.boundary import normal
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.integrators import rk38
from opsplit.operators.family import (
    SLACK,
    Axes,
    Channels,
    Examples,
    Initialisation,
    OperatorFamily,
    Prepared,
    Step,
    longest,
    per_operator,
    steps_of,
    unpack,
)
from opsplit.operators.flops import convolution_flops
from opsplit.settings import AtMost, Between

CONVOLUTION: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
PADDING = {
    "periodic": "circular",
    "neumann": "reflect",
    "dirichlet": "constant",
    "open": "constant",
}
LEVELS = 4
NORM_GROUPS = 4


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


@dataclass(frozen=True)
class UNet(OperatorFamily):
    """DISCO's operator: four levels down and up, group norm, GELU, linear adapters.

    Arguments:
        channels: physical channels of the field.
        ndim: space axes.
        max_step: longest step of the integrator, in physical time (None: a training frame).
        boundary: per axis (None: periodic); a wall adds a mask channel that marks it.
        width: channels at full resolution.
        normalise_from: the first level that has group norms. The paper's network normalises from
            level 0, the full resolution; a norm hides how large a value is.
    """

    kind = "unet"

    channels: Channels = 1
    ndim: Axes = 1
    max_step: Step | None = None
    boundary: Annotated[tuple[str, ...], AtMost(3)] | None = None
    width: Annotated[int, Between(4, 512)] = 8
    normalise_from: Annotated[int, Between(0, LEVELS)] = 0

    def check(self) -> None:
        if self.width % NORM_GROUPS:
            raise OpsplitError(
                f"UNet: width must be a multiple of {NORM_GROUPS}, got {self.width}."
            )
        if self.boundary is None:
            return
        object.__setattr__(self, "boundary", tuple(map(normal, self.boundary)))
        for word in self.walls:
            if word not in PADDING:
                raise OpsplitError(
                    f"UNet: boundary must be one of {', '.join(PADDING)}, got {word!r:.60}."
                )
        if len(self.boundary) != self.ndim:
            raise OpsplitError(
                f"UNet: {self.ndim} axes need as many boundaries, got {self.boundary}."
            )

    @property
    def walls(self) -> tuple[str, ...]:
        """The boundary of every axis."""
        return self.boundary or ("periodic",) * self.ndim

    @property
    def walled(self) -> bool:
        return any(word != "periodic" for word in self.walls)

    @property
    def grid_bound(self) -> bool:
        return True

    @property
    def points_multiple(self) -> int:
        return 2**LEVELS

    @property
    def n_parameters(self) -> int:
        return sum(math.prod(shape) for shape, _ in self.layers().values())

    def layers(self) -> dict[str, tuple[tuple[int, ...], int]]:
        """Shape and fan-in of every parameter tensor; a norm's affine part has fan-in 0."""
        s, d, c_in = self.width, self.ndim, self.channels + self.walled
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
        return layers

    def initialisation(self, generator: torch.Generator) -> Initialisation:
        """PyTorch's default start for each layer; weights stay within four times its bound."""
        start, scale, bound = [], [], []
        for name, (shape, fan_in) in self.layers().items():
            n = math.prod(shape)
            size = 1 / math.sqrt(fan_in) if fan_in else 1.0
            if fan_in:
                begin = size * (2 * torch.rand(n, generator=generator) - 1)
            else:
                begin = torch.full((n,), float(name.endswith("gain")))
            start.append(begin)
            scale.append(torch.full((n,), size if fan_in else 0.3))
            bound.append(torch.full((n,), 4 * size))
        return Initialisation(torch.cat(start), torch.cat(scale), torch.cat(bound))

    def fitted(self, examples: Examples) -> Self:
        grid = examples.grid
        return replace(
            self, channels=examples.channels, ndim=grid.ndim, boundary=tuple(grid.boundary),
            max_step=SLACK * examples.dt if self.max_step is None else self.max_step,
        )  # fmt: skip

    def check_grid(self, grid: Grid) -> None:
        super().check_grid(grid)
        if any(n % 2**LEVELS for n in grid.shape):
            raise OpsplitError(
                f"A unet operator halves the grid {LEVELS} times: every axis needs a multiple of "
                f"{2**LEVELS} points, got {grid.shape}."
            )
        if grid.boundary != self.walls:
            raise OpsplitError(
                f"These unet operators were made for boundaries {self.walls}, "
                f"the data have {grid.boundary}."
            )

    def prepare(self, parameters: Tensor, grid: Grid) -> Prepared:
        self.check_grid(grid)
        shapes = {name: shape for name, (shape, _) in self.layers().items()}
        return Prepared(unpack(parameters, shapes), grid)

    def steps(self, duration: float) -> int:
        return steps_of(duration, self.max_step)

    def evaluations(self, duration: float) -> int:
        return 4 * self.steps(duration)

    def workspace(self, grid: Grid, states: int) -> int:
        fields = states * math.prod(grid.shape) * (self.width * 8 + self.channels * 8)
        return 2 * self.n_parameters + fields

    def flops(self, grid: Grid) -> int:
        """Operations of the convolutions; norms and activations are small beside them."""
        points = math.prod(grid.shape)
        total = 0
        for name, (shape, fan_in) in self.layers().items():
            if not fan_in or name.endswith("bias"):
                continue
            stage, _, rest = name.partition(".")
            depth = LEVELS if stage.startswith("middle") else 0
            if stage.startswith(("down", "up")):
                # The merging convolution acts after the points have doubled along every axis.
                depth = int(stage[-1]) + (rest != "merge")
            total += convolution_flops(shape, points // 2 ** (self.ndim * depth))
        return total

    def flow(self, prepared: Prepared, u: Tensor, duration: float | Tensor) -> Tensor:
        steps = self.steps(longest(duration))
        return rk38(lambda x: self.rate(prepared, x), u, per_operator(duration, u), steps)

    def rate(self, prepared: Prepared, u: Tensor) -> Tensor:
        # Weights with the operator folded into the output channel, as grouped convolutions want.
        w = {name: prepared.tensors[name].flatten(0, 1) for name in self.layers()}
        return self._field(w, u.transpose(0, 1), u.shape[0], prepared.grid).transpose(0, 1)

    def _wall_mask(self, grid: Grid, u: Tensor) -> Tensor:
        """One on cells beside a wall, zero elsewhere."""
        mask = torch.zeros(grid.shape, dtype=u.dtype, device=u.device)
        for axis, word in enumerate(self.walls):
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

        def norm_gelu(x: Tensor, name: str) -> Tensor:
            gain, shift = w[f"{name}.gain"], w[f"{name}.shift"]
            if space[0] // x.shape[2] >= 2**self.normalise_from:
                return F.gelu(F.group_norm(x, NORM_GROUPS * e, gain, shift))
            gain, shift = (t.reshape(-1, *[1] * self.ndim) for t in (gain, shift))
            return F.gelu(torch.addcmul(shift, x, gain))

        if self.walled:
            x = torch.cat([x, self._wall_mask(grid, x).expand(k, e, 1, *space)], 2)
        x = conv(x.flatten(1, 2), "adapter_in")
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
        return conv(x, "adapter_out").unflatten(1, (e, self.channels))

    def _pad(self, x: Tensor) -> Tensor:
        """One cell on both ends of every axis, by the boundary of that axis."""
        d = self.ndim
        if not self.walled:
            wrapped: Tensor = _Wrap.apply(x, d)  # type: ignore[no-untyped-call]
            return wrapped
        for word in dict.fromkeys(self.walls):
            # Pads of torch count from the last axis backwards, two numbers per axis.
            pads = [int(self.walls[d - 1 - i // 2] == word) for i in range(2 * d)]
            # A single cell has no neighbour to reflect; it repeats itself.
            lonely = word == "neumann" and min(x.shape[-d:]) == 1
            x = F.pad(x, pads, mode="replicate" if lonely else PADDING[word])
        return x

    def _depth_to_space(self, x: Tensor) -> Tensor:
        d = self.ndim
        space = x.shape[2:]
        x = x.unflatten(1, (-1, *(2,) * d))
        order = [0, 1, *(2 + axis + part for axis in range(d) for part in (d, 0))]
        return x.permute(order).reshape(x.shape[0], x.shape[1], *(2 * n for n in space))
