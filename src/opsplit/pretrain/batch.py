"""One training batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """`E` dynamics with one context each and `K` pairs of states, `duration` apart."""

    context: Tensor
    """`(E, time, channel, *space)`"""
    state: Tensor
    """`(E, K, channel, *space)`"""
    target: Tensor
    """`(E, K, channel, *space)`"""
    duration: float
    environment: Tensor
    """Row in the codebook of each dynamics, or -1."""
    coefficients: dict[str, Tensor]
    """Physical coefficients of each dynamics."""
    shares: tuple[float, ...] = (1.0,)
    """The duration as a chain of flows: the share of each of them."""

    def to(self, device: torch.device) -> Batch:
        context, state, target, environment = (
            x.to(device) for x in (self.context, self.state, self.target, self.environment)
        )
        return replace(self, context=context, state=state, target=target, environment=environment)

    def mechanisms(self) -> list[str]:
        """The active coefficients of each dynamics, such as `c` or `c+D`."""
        active = {name: v != 0 for name, v in self.coefficients.items()}
        return [
            "+".join(name for name, on in active.items() if on[i]) or "none"
            for i in range(len(self.context))
        ]
