"""MPP: the axial vision transformer of McCabe et al., attention over time and every space axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from opsplit.baselines.next_frame import NextFrame
from opsplit.baselines.protocol import Baseline, Fitting
from opsplit.errors import OpsplitError
from opsplit.hypernetwork.encoder import CONVOLUTION, RelativeBias
from opsplit.pretrain.config import Budget
from opsplit.pretrain.sources import Facts
from opsplit.settings import Between, Share

FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


@dataclass(frozen=True)
class MPP(Baseline):
    """Settings of the axial vision transformer."""

    kind = "mpp"

    width: Annotated[int, Between(4, 16384)] = 384
    """Width of the tokens; a multiple of 4 and of `heads`."""
    blocks: Annotated[int, Between(1, 256)] = 6
    """Blocks of time attention, axial space attention and a network."""
    heads: Annotated[int, Between(1, 256)] = 8
    """Attention heads."""
    patch: Annotated[int, Between(4, 4096)] = 16
    """Points of a token per axis; a multiple of 4 that divides every axis."""
    layer_scale: Annotated[float, Between(0.0, 10.0)] = 1e-6
    """Strength of every residual branch at the start. Short trainings need about 0.1."""
    drop_path: Share = 0.2
    """Probability of leaving out a branch of the last block; it grows linearly over the blocks."""
    increment: bool = False
    """Predict the change of the last frame instead of the next frame: for short trainings."""

    def check(self) -> None:
        if self.width % self.heads or self.width % 4 or self.patch % 4:
            raise OpsplitError(
                f"MPP: width must be a multiple of heads and of 4, and patch of 4, got width "
                f"{self.width}, heads {self.heads}, patch {self.patch}."
            )

    @classmethod
    def preset(cls, name: Literal["paper", "cpu", "tiny"], ndim: int) -> tuple[Self, Fitting]:
        if name == "paper":
            # The text gives the width of planes; that of lines is the authors' configuration.
            return cls(width=512 if ndim == 1 else 384), Fitting()
        small = {"layer_scale": 0.1, "drop_path": 0.0, "increment": True}
        if name == "tiny":
            return cls(32, 1, 4, patch=4, **small), Fitting(  # type: ignore[arg-type]
                Budget(steps=150, validate_every=50), batch=8, learning_rate=3e-3, clip=1.0
            )
        budget = Budget(steps=100_000, minutes=30, validate_every=100)
        return cls(48, 3, 4, **small), Fitting(  # type: ignore[arg-type]
            budget, batch=16 if ndim == 1 else 4, learning_rate=2e-3, clip=1.0
        )

    def build(self, facts: Facts) -> AxialTransformer:
        if any(n % self.patch for n in facts.grid.shape):
            raise OpsplitError(
                f"MPP cuts axes into patches of {self.patch} points, which do not divide "
                f"{facts.grid.shape}; choose another --model.patch."
            )
        return AxialTransformer(self, len(facts.channels), facts.grid.ndim)


class AxialTransformer(NextFrame):
    """Standardise, cut into tokens, attend along every axis, put together again."""

    def __init__(self, settings: MPP, channels: int, ndim: int) -> None:
        super().__init__()
        width, thin, strides = settings.width, settings.width // 4, (settings.patch // 4, 2, 2)
        self.increment = settings.increment
        conv, transposed = CONVOLUTION[ndim], TRANSPOSED[ndim]
        self.embed = conv(channels, thin, 1)
        stem: list[nn.Module] = []
        for stride, out in zip(strides, (thin, thin, width), strict=True):
            stem += [conv(thin, out, stride, stride, bias=False), SpatialScale(out), nn.GELU()]
        self.stem = nn.Sequential(*stem[:-1])
        last = max(1, settings.blocks - 1)
        self.blocks = nn.ModuleList(
            AxialBlock(settings, ndim, settings.drop_path * i / last)
            for i in range(settings.blocks)
        )
        self.back = nn.Sequential(
            transposed(width, thin, 2, 2, bias=False), SpatialScale(thin), nn.GELU(),
            transposed(thin, thin, 2, 2, bias=False), SpatialScale(thin), nn.GELU(),
            transposed(thin, channels, strides[0], strides[0]),
        )  # fmt: skip
        if settings.increment:
            # A training begins where nothing changes, not with noise that it must unlearn.
            for weights in self.back[-1].parameters():
                nn.init.zeros_(weights)

    def forward(self, window: Tensor) -> Tensor:
        dims = (1, *range(3, window.ndim))
        deviation, mean = (x.detach() for x in torch.std_mean(window, dims, keepdim=True))
        deviation = deviation + 1e-7
        frames = (window - mean) / deviation
        x = self.tokens(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        for block in self.blocks:
            x = block(x)
        # Frames do not mix any more: only the last one is decoded.
        out = self.back(x[:, -1])
        out = out + frames[:, -1] if self.increment else out
        return out * deviation[:, 0] + mean[:, 0]

    def tokens(self, frames: Tensor) -> Tensor:
        """Tokens `(n, width, *space)` of frames `(n, channel, *space)`.

        The embedding of every point and the first convolution are one linear map: together they
        need no field of many channels at full resolution.
        """
        first = self.stem[0]
        assert isinstance(first, nn.Conv1d | nn.Conv2d | nn.Conv3d)
        assert self.embed.bias is not None
        weight = torch.einsum("ot...,tc->oc...", first.weight, self.embed.weight.flatten(1))
        bias = first.weight.flatten(2).sum(2) @ self.embed.bias
        patches = FUNCTIONS[frames.ndim - 2](frames, weight, bias, first.stride)
        return self.stem[1:](patches)


class SpatialScale(nn.Module):
    """Divide `(n, channel, *space)` by its standard deviation over space; the mean stays."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        axes = tuple(range(2, x.ndim))
        gain = self.gain.reshape(-1, *[1] * len(axes))
        # By hand, three times as fast as `var` on a processor.
        variance = (x - x.mean(axes, keepdim=True)).square().mean(axes, keepdim=True)
        return gain * x / (variance + 1e-7).sqrt()


class AxialAttention(nn.Module):
    """Attention along some axes of `(n, time, width, *space)` with the same queries and keys; the
    mean over the axes."""

    def __init__(self, width: int, heads: int, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.heads, self.axes = heads, axes
        self.project = nn.Linear(width, 3 * width)
        self.norms = nn.ModuleList(nn.LayerNorm(width // heads) for _ in range(2))
        self.bias = RelativeBias(heads)
        # As in the original; with zeros the frames would have no order at first.
        nn.init.normal_(self.bias.table)

    def forward(self, x: Tensor) -> Tensor:
        last = x.movedim(2, -1)
        q, k, v = self.project(last).unflatten(-1, (3, self.heads, -1)).unbind(-3)
        q, k = self.norms[0](q), self.norms[1](k)
        mixed = [self._along(axis, q, k, v) for axis in self.axes]
        return torch.stack(mixed).mean(0).flatten(-2).movedim(-1, 2)

    def _along(self, axis: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention along one axis of `(n, time, *space, head, width)`."""
        q, k, v = (y.movedim(axis, -2) for y in (q, k, v))
        length = q.shape[-2]
        position = torch.arange(length, device=q.device)
        offset = position[None, :] - position[:, None]
        if axis > 1:
            # Space is periodic: the shorter way round.
            offset = (offset + length // 2) % length - length // 2
        shape, bias = q.shape, self.bias.of(offset)[None]
        q, k, v = (y.flatten(0, -4) for y in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return out.reshape(shape).movedim(-2, axis)


class AxialBlock(nn.Module):
    """Attention over time, over every space axis, then a network; each added to its input."""

    def __init__(self, settings: MPP, ndim: int, drop: float) -> None:
        super().__init__()
        width, conv = settings.width, CONVOLUTION[ndim]
        self.drop = drop
        self.before_time = nn.GroupNorm(width, width)
        self.time = AxialAttention(width, settings.heads, (1,))
        self.after_time = nn.Sequential(nn.GroupNorm(width, width), conv(width, width, 1))
        self.before_space = SpatialScale(width)
        self.space = AxialAttention(width, settings.heads, tuple(range(2, 2 + ndim)))
        self.after_space = nn.Sequential(SpatialScale(width), conv(width, width, 1))
        self.mlp = nn.Sequential(
            conv(width, 4 * width, 1), nn.GELU(), conv(4 * width, width, 1), SpatialScale(width)
        )
        self.scales = nn.Parameter(torch.full((3, width), settings.layer_scale))

    def forward(self, x: Tensor) -> Tensor:
        """Tokens `(n, time, width, *space)`."""
        over_time = self.time(_framewise(self.before_time, x))
        x = self._add(x, _framewise(self.after_time, over_time), 0)
        over_space = self.space(_framewise(self.before_space, x))
        x = self._add(x, _framewise(self.after_space, over_space), 1)
        return self._add(x, _framewise(self.mlp, x), 2)

    def _add(self, x: Tensor, branch: Tensor, number: int) -> Tensor:
        scale = self.scales[number].reshape(-1, *[1] * (x.ndim - 3))
        if self.training and self.drop:
            kept = torch.rand(len(x), *[1] * (x.ndim - 1), device=x.device) >= self.drop
            branch = branch * kept / (1 - self.drop)
        return x + scale * branch


def _framewise(layer: nn.Module, x: Tensor) -> Tensor:
    """A layer for `(n, channel, *space)`, applied to every frame of `(n, time, channel, ...)`."""
    return layer(x.flatten(0, 1)).unflatten(0, x.shape[:2])
