"""The model: encoder, decoder and an operator family, with a codebook if the recipe has one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from opsplit.config import ModelConfig
from opsplit.grid import Grid
from opsplit.operators import Prepared, make_family
from opsplit.pretrain.decoder import Decoder
from opsplit.pretrain.encoder import Encoder
from opsplit.pretrain.sources import Batch


class Disco(nn.Module):
    """Reads a short trajectory and writes the operator `du/dt = f_theta(u)` behind it."""

    codebook: Tensor

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.grid = Grid.from_dict(config.grid)
        channels = len(config.channels)
        self.family = make_family(
            config.family, channels=channels, ndim=config.ndim, **config.operator
        )
        sizes = config.encoder
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = Encoder(
                channels,
                config.ndim,
                sizes.code,
                sizes.width,
                sizes.blocks,
                sizes.heads,
                sizes.patch,
                sizes.layer_scale,
            )
            self.decoder = Decoder(
                sizes.code,
                self.family.initialisation(generator),
                sizes.decoder_width,
                sizes.head_width,
            )
            self.register_buffer("codebook", 0.02 * torch.randn(config.environments, sizes.code))
        self.reduce_sum: Callable[[Tensor], Tensor] = lambda x: x

    def encode(self, frames: Tensor) -> Tensor:
        """Codes `(n, code)` of contexts `(n, time, channel, *space)` in physical units."""
        codes: Tensor = self.encoder(frames)
        return codes

    def operators(self, codes: Tensor, grid: Grid | None = None) -> Prepared:
        """The operators of these codes, prepared for a grid."""
        return self.family.prepare(self.decoder(codes), grid or self.grid)

    def forward(
        self, batch: Batch, use_codebook: Tensor | None = None, momentum: float = 0.99
    ) -> dict[str, Tensor]:
        """Losses of a batch: the one-step error per dynamics and the codebook's commitment."""
        codes = self.encode(batch.context)
        used = codes
        commitment = codes.new_zeros(())
        if use_codebook is not None:
            self._update_codebook(codes.detach(), batch.environment, use_codebook, momentum)
            rows = self.codebook[batch.environment]
            pick = use_codebook[:, None]
            # Straight through: the value of the codebook, the gradient of the encoder.
            used = torch.where(pick, rows + codes - codes.detach(), codes)
            gap = (codes - rows).square() * pick
            commitment = gap.sum() / (pick.sum() * codes.shape[1]).clamp_min(1)
        scale = self.config.scale
        predicted = self.family.flow(self.operators(used), batch.state / scale, batch.duration)
        error = relative_error(predicted, batch.target / scale).mean(1)
        return {"error": error, "commitment": commitment}

    @torch.no_grad()
    def _update_codebook(
        self, codes: Tensor, environment: Tensor, use: Tensor, momentum: float
    ) -> None:
        """Move every row that is used towards the mean code of its environment."""
        held = torch.cat([codes, torch.ones_like(codes[:, :1])], 1) * use[:, None]
        totals = held.new_zeros(len(self.codebook), held.shape[1])
        totals.index_add_(0, environment, held)
        totals = self.reduce_sum(totals)
        seen = totals[:, -1] > 0
        means = totals[seen, :-1] / totals[seen, -1:]
        rows = self.codebook.clone()
        rows[seen] = momentum * rows[seen] + (1 - momentum) * means
        self.codebook = rows


def relative_error(predicted: Tensor, target: Tensor) -> Tensor:
    """`||p - t|| / ||t||` per state `(E, K)`, over channels and space."""
    gap = (predicted - target).flatten(2).norm(dim=2)
    return gap / target.flatten(2).norm(dim=2).clamp_min(1e-12)
