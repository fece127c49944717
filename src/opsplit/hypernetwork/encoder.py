"""The hypernetwork's reader: a space-time transformer from 16 frames to a short code."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from opsplit.errors import OpsplitError

CONVOLUTION = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class RelativeBias(nn.Module):
    """A learned attention bias per head and bucketed distance (T5, both directions)."""

    def __init__(self, heads: int, buckets: int = 32, max_distance: int = 32) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(buckets, heads))
        self.buckets, self.max_distance = buckets, max_distance

    def forward(self, length: int) -> Tensor:
        position = torch.arange(length, device=self.table.device)
        return self.of(position[None, :] - position[:, None])

    def of(self, offset: Tensor) -> Tensor:
        """The bias `(head, query, key)` of keys that are so far from their queries."""
        half = self.buckets // 2
        exact = half // 2
        distance = offset.abs()
        # Near distances have a bucket each, far ones share logarithmic buckets.
        ratio = distance.clamp_min(1).float().div(exact).log() / math.log(self.max_distance / exact)
        far = (exact + ratio * (half - exact)).long().clamp_max(half - 1)
        bucket = torch.where(distance < exact, distance, far) + half * (offset > 0)
        return self.table[bucket].permute(2, 0, 1)


class Attention(nn.Module):
    """Self-attention along the last-but-one axis of `(..., length, width)`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.norm_q = nn.LayerNorm(width // heads)
        self.norm_k = nn.LayerNorm(width // heads)
        self.bias = RelativeBias(heads)

    def forward(self, x: Tensor) -> Tensor:
        lead, (length, width) = x.shape[:-2], x.shape[-2:]
        qkv = self.project(x).reshape(-1, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(
            self.norm_q(q), self.norm_k(k), v, attn_mask=self.bias(length)[None].to(q.dtype)
        )
        return mixed.transpose(1, 2).reshape(*lead, length, width)


class Block(nn.Module):
    """Attention over time, then over each space axis (averaged), then an MLP; all residual."""

    def __init__(self, width: int, heads: int, ndim: int, layer_scale: float) -> None:
        super().__init__()
        self.time = Attention(width, heads)
        self.space = nn.ModuleList(Attention(width, heads) for _ in range(ndim))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.out_time = nn.Linear(width, width)
        self.out_space = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.scales = nn.ParameterList(
            nn.Parameter(torch.full((width,), layer_scale)) for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Tokens `(batch, time, *space, width)`."""
        over_time = self.time(self.norms[0](x).movedim(1, -2)).movedim(-2, 1)
        x = x + self.scales[0] * self.out_time(self.norms[1](over_time))
        y = self.norms[2](x)
        over_space = torch.stack(
            [
                attend(y.movedim(2 + axis, -2)).movedim(-2, 2 + axis)
                for axis, attend in enumerate(self.space)
            ]
        ).mean(0)
        x = x + self.scales[1] * self.out_space(self.norms[3](over_space))
        return x + self.scales[2] * self.norms[4](self.mlp(x))


class Encoder(nn.Module):
    """Frames `(batch, time, channel, *space)` to codes `(batch, code)`.

    The context is standardised per sample and channel over time and space, cut into patches by
    three strided convolutions frame by frame, mixed by the blocks and averaged over all tokens.
    With `moments` every token is told the mean and the deviation. An axis that patches do not
    divide is continued periodically up to the next multiple of the patch.
    """

    def __init__(
        self,
        channels: int,
        ndim: int,
        code: int,
        width: int = 128,
        blocks: int = 4,
        heads: int = 4,
        patch: int = 8,
        layer_scale: float = 1e-6,
        moments: bool = False,
    ) -> None:
        super().__init__()
        if patch < 4 or patch % 4:
            raise OpsplitError(f"The patch must be a multiple of 4, got {patch}.")
        self.patch, self.ndim = patch, ndim
        conv, stem = CONVOLUTION[ndim], max(8, width // 4)
        self.adapter = nn.Linear(channels, stem)
        strides, widths = (patch // 4, 2, 2), (stem, stem, width)
        self.stem = nn.ModuleList()
        for i, (stride, out) in enumerate(zip(strides, widths, strict=True)):
            self.stem.append(conv(stem, out, stride, stride, bias=False))
            self.stem.append(nn.GroupNorm(1, out))
            if i < 2:
                self.stem.append(nn.GELU())
        self.blocks = nn.ModuleList(Block(width, heads, ndim, layer_scale) for _ in range(blocks))
        self.head = nn.Linear(width, code)
        self.moments = nn.Linear(2 * channels, width) if moments else None
        if self.moments is not None:
            # At first nothing, so that an encoder that was never told can go on from where it is.
            nn.init.zeros_(self.moments.weight)
            nn.init.zeros_(self.moments.bias)

    def forward(self, frames: Tensor) -> Tensor:
        dims = (1, *range(3, frames.ndim))
        deviation, mean = torch.std_mean(frames, dims, keepdim=True)
        x = (frames - mean) / (deviation + 1e-7)
        x = self._whole_patches(x)
        batch, time = x.shape[:2]
        x = self.adapter(x.movedim(2, -1)).movedim(-1, 2).flatten(0, 1)
        for layer in self.stem:
            x = layer(x)
        x = x.unflatten(0, (batch, time)).movedim(2, -1)
        if self.moments is not None:
            size = deviation.clamp_min(1e-7)
            told = torch.cat([size.log(), (mean / size).asinh()], 2).flatten(1)
            x = x + self.moments(told).unflatten(0, (batch, *[1] * (x.ndim - 2)))
        for block in self.blocks:
            x = block(x)
        code: Tensor = self.head(x.flatten(1, -2).mean(1))
        return code

    def _whole_patches(self, x: Tensor) -> Tensor:
        """Every space axis continued periodically to a multiple of the patch."""
        for axis in range(3, x.ndim):
            points = x.shape[axis]
            missing = -points % self.patch
            if missing:
                wrapped = torch.arange(points + missing, device=x.device) % points
                x = x.index_select(axis, wrapped)
        return x
