"""The hypernetwork's writer: from a code to the parameters of an operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from opsplit.operators import Initialisation

UNITS = ("scale", "bound", "variation")
"""Tensors that a decoder takes from its family where a file does not hold them."""


class Decoder(nn.Module):
    """Codes `(n, code)` to bounded operator parameters `(n, P)`.

    `bound * tanh((start + scale * raw) / bound)`: at the beginning every code means an operator
    of the family's own initialisation, and no code can push a weight beyond its bound.

    Arguments:
        head_width: features in front of the last, largest layer; it sets the size on disk.
        bias: whether there is a part that all codes share, in the family's own scale.
    """

    scale: Tensor
    bound: Tensor
    variation: Tensor | None

    def __init__(
        self,
        code: int,
        initialisation: Initialisation,
        width: int = 128,
        head_width: int = 128,
        bias: bool = False,
    ) -> None:
        super().__init__()
        size = initialisation.start.numel()
        self.features = nn.Sequential(
            nn.Linear(code, width), nn.GELU(), nn.Linear(width, head_width), nn.GELU()
        )
        self.head = nn.Linear(head_width, size, bias=False)
        self.shared = nn.Parameter(torch.zeros(size)) if bias else None
        if bias:
            # Powers of the wavenumber make noise of what a random layer would emit.
            nn.init.zeros_(self.head.weight)
        self.start = nn.Parameter(initialisation.start.clone())
        self.register_buffer("scale", initialisation.scale.clone())
        self.register_buffer("bound", initialisation.bound.clone())
        self.register_buffer("variation", initialisation.variation)

    def sizes(self) -> dict[str, Any]:
        """The constructor's arguments besides the initialisation."""
        first, second = self.features[0], self.features[2]
        assert isinstance(first, nn.Linear) and isinstance(second, nn.Linear)
        return {
            "code": first.in_features,
            "width": first.out_features,
            "head_width": second.out_features,
            "bias": self.shared is not None,
        }

    def forward(self, codes: Tensor) -> Tensor:
        raw = self.head(self.features(codes))
        if self.variation is not None:
            raw = self.variation * raw
        if self.shared is not None:
            raw = raw + self.shared
        bounded: Tensor = self.bound * torch.tanh((self.start + self.scale * raw) / self.bound)
        return bounded
