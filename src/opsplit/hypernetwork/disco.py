"""The hypernetwork: encoder, decoder and an operator family, with a codebook if trained with one.

How it is trained is written in `opsplit.pretrain.losses`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opsplit.grid import Grid
from opsplit.hypernetwork.config import ModelConfig
from opsplit.hypernetwork.decoder import Decoder
from opsplit.hypernetwork.encoder import Encoder
from opsplit.hypernetwork.linear_decoder import LinearDecoder
from opsplit.operators import Prepared


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
            self.decoder: Decoder | LinearDecoder = (
                LinearDecoder(sizes.code, self.family.n_parameters)
                if sizes.decoder == "linear"
                else Decoder(
                    sizes.code,
                    self.family.initialisation(generator),
                    sizes.decoder_width,
                    sizes.head_width,
                    sizes.head_bias,
                )
            )
            self.codebook = nn.Parameter(0.02 * torch.randn(config.environments, sizes.code))

    def encode(self, frames: Tensor) -> Tensor:
        """Codes `(n, code)` of contexts `(n, time, channel, *space)` in physical units."""
        codes: Tensor = self.encoder(frames)
        return codes

    def operators(self, codes: Tensor, grid: Grid | None = None) -> Prepared:
        """The operators of these codes, prepared for a grid."""
        return self.family.prepare(self.decoder(codes), grid or self.grid)
