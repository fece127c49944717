"""Operators of one family."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from opsplit.operators import OperatorFamily


@dataclass(frozen=True)
class Part:
    """Operators of one family: codes, and the decoder that turns them into parameters.

    Without a decoder the codes are the parameters themselves.
    """

    family: OperatorFamily
    codes: Tensor
    decoder: nn.Module | None = None
    scale: float = 1.0
    """The family acts on fields divided by this."""

    def __len__(self) -> int:
        return len(self.codes)

    @torch.no_grad()
    def parameters(self) -> Tensor:
        return self.codes if self.decoder is None else self.decoder(self.codes)
