"""A decoder for parameters that are linear in the code."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LinearDecoder(nn.Module):
    """Codes `(n, code)` to parameters `(n, P)` by one matrix, without bias.

    Parameters that are zero in a row of the matrix stay exactly zero.
    """

    shared: None = None
    """There is no part that all codes share (see `Decoder`)."""

    def __init__(self, code: int, parameters: int) -> None:
        super().__init__()
        self.directions = nn.Parameter(torch.zeros(code, parameters))

    def forward(self, codes: Tensor) -> Tensor:
        return codes @ self.directions
