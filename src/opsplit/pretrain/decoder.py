"""The hypernetwork's writer: from a code to the parameters of an operator."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from opsplit.operators import Initialisation


class Decoder(nn.Module):
    """Codes `(n, code)` to bounded operator parameters `(n, P)`.

    `bound * tanh((start + scale * raw) / bound)`: at the beginning every code means an operator
    of the family's own initialisation, and no code can push a weight beyond its bound.

    Arguments:
        head_width: features in front of the last, largest layer; it sets the size on disk.
    """

    scale: Tensor
    bound: Tensor

    def __init__(
        self, code: int, initialisation: Initialisation, width: int = 128, head_width: int = 128
    ) -> None:
        super().__init__()
        size = initialisation.start.numel()
        self.features = nn.Sequential(
            nn.Linear(code, width), nn.GELU(), nn.Linear(width, head_width), nn.GELU()
        )
        self.head = nn.Linear(head_width, size, bias=False)
        self.start = nn.Parameter(initialisation.start.clone())
        self.register_buffer("scale", initialisation.scale.clone(), persistent=False)
        self.register_buffer("bound", initialisation.bound.clone(), persistent=False)

    def sizes(self) -> dict[str, int]:
        """The constructor's arguments besides the initialisation."""
        first, second = self.features[0], self.features[2]
        assert isinstance(first, nn.Linear) and isinstance(second, nn.Linear)
        return {
            "code": first.in_features,
            "width": first.out_features,
            "head_width": second.out_features,
        }

    def forward(self, codes: Tensor) -> Tensor:
        raw = self.head(self.features(codes))
        bounded: Tensor = self.bound * torch.tanh((self.start + self.scale * raw) / self.bound)
        return bounded
