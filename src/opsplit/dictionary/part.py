"""Operators of one family."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

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

    @cached_property
    def key(self) -> Hashable:
        """Equal for parts of the same operators."""
        codes = hashlib.sha256(self.codes.numpy(force=True).tobytes()).digest()
        return self.family, self.scale, id(self.decoder), codes

    @torch.no_grad()
    def parameters(self) -> Tensor:
        return self.codes if self.decoder is None else self.decoder(self.codes)
