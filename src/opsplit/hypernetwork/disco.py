"""The model: encoder, decoder and an operator family, with a codebook if the recipe has one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from opsplit.grid import Grid
from opsplit.hypernetwork.config import ModelConfig
from opsplit.hypernetwork.decoder import Decoder
from opsplit.hypernetwork.encoder import Encoder
from opsplit.operators import Prepared
from opsplit.pretrain.sources import Batch


class Disco(nn.Module):
    """Reads a short trajectory and writes the operator `du/dt = f_theta(u)` behind it."""

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.grid = config.grid
        channels = len(config.channels)
        self.family = config.operator
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
                sizes.moments,
            )
            self.decoder = Decoder(
                sizes.code,
                self.family.initialisation(generator),
                sizes.decoder_width,
                sizes.head_width,
                sizes.head_bias,
            )
            self.codebook = nn.Parameter(0.02 * torch.randn(config.environments, sizes.code))
        self.reduce_sum: Callable[[Tensor], Tensor] = lambda x: x

    def encode(self, frames: Tensor) -> Tensor:
        """Codes `(n, code)` of contexts `(n, time, channel, *space)` in physical units."""
        codes: Tensor = self.encoder(frames)
        return codes

    def operators(self, codes: Tensor, grid: Grid | None = None) -> Prepared:
        """The operators of these codes, prepared for a grid."""
        return self.family.prepare(self.decoder(codes), grid or self.grid)

    def forward(
        self,
        batch: Batch,
        use_codebook: Tensor | None = None,
        momentum: float = 0.99,
        per_channel: bool = False,
        polish: bool | None = None,
        only_read: bool = False,
    ) -> dict[str, Tensor]:
        """Losses of a batch: the one-step error per dynamics and the codebook's commitment.

        Arguments:
            use_codebook: which dynamics take their code from the codebook.
            momentum: how slowly its rows follow the encoder.
            per_channel: weigh every channel by its own size in `loss`.
            polish: train the rows of the codebook themselves, and the encoder too if true.
            only_read: no flows; `error` is how far the encoder is from the codes.
        """
        if polish is not None:
            return self._polish(batch, polish, per_channel)
        if only_read:
            gap = (self.encode(batch.context) - self.codebook[batch.environment]).square()
            return {
                "loss": gap.new_zeros(()),
                "error": gap.mean(1).sqrt(),
                "commitment": gap.mean(),
            }
        codes = self.encode(batch.context)
        used = codes
        commitment = codes.new_zeros(())
        if use_codebook is not None:
            self._update_codebook(codes.detach(), batch.environment, use_codebook, momentum)
            rows = self.codebook[batch.environment].detach()
            pick = use_codebook[:, None]
            # Straight through: the value of the codebook, the gradient of the encoder.
            used = torch.where(pick, rows + codes - codes.detach(), codes)
            gap = (codes - rows).square() * pick
            commitment = gap.sum() / (pick.sum() * codes.shape[1]).clamp_min(1)
        return self._errors(used, batch, per_channel) | {"commitment": commitment}

    def _polish(self, batch: Batch, read: bool, per_channel: bool) -> dict[str, Tensor]:
        """Losses where the rows of the codebook themselves are trained.

        What the encoder misreads no longer matters to a row; if it is to `read` this batch, the
        encoder learns to tell the rows.
        """
        rows = self.codebook[batch.environment]
        commitment = rows.new_zeros(())
        if read:
            commitment = (self.encode(batch.context) - rows.detach()).square().mean()
        return self._errors(rows, batch, per_channel) | {"commitment": commitment}

    def _errors(self, codes: Tensor, batch: Batch, per_channel: bool) -> dict[str, Tensor]:
        scale = self.config.scale
        operators, predicted = self.operators(codes), batch.state / scale
        for share in batch.shares:
            predicted = self.family.flow(operators, predicted, share * batch.duration)
        target = batch.target / scale
        error = relative_error(predicted, target).mean(1)
        loss = channel_error(predicted, target).mean(1) if per_channel else error
        return {"loss": loss, "error": error}

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
        self.codebook[seen] = momentum * self.codebook[seen] + (1 - momentum) * means


def relative_error(predicted: Tensor, target: Tensor) -> Tensor:
    """`||p - t|| / ||t||` per state `(E, K)`, over channels and space."""
    gap = (predicted - target).flatten(2).norm(dim=2)
    return gap / target.flatten(2).norm(dim=2).clamp_min(1e-12)


def channel_error(predicted: Tensor, target: Tensor, floor: float = 0.03) -> Tensor:
    """The relative error of every channel by itself, then the mean; `(E, K)`.

    A channel that has all but vanished is measured against a share of the whole field.
    """
    gap = (predicted - target).flatten(3).norm(dim=3)
    size = target.flatten(3).norm(dim=3)
    whole = size.norm(dim=2, keepdim=True)
    return (gap / (size.square() + (floor * whole).square()).sqrt().clamp_min(1e-12)).mean(2)
