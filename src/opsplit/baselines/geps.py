"""GEPS: a convolutional neural ODE whose weights depend on a short code of the environment.

The codes of the training environments are learned with the weights. A forecast fits a new code to
the observed frames by gradient descent, all weights fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from opsplit.baselines.protocol import Baseline, Fitting, Network, relative
from opsplit.baselines.windows import Windows
from opsplit.integrators import rk38
from opsplit.pretrain.config import Budget, Count, Positive
from opsplit.pretrain.sources import Facts
from opsplit.settings import Between

FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@dataclass(frozen=True)
class GEPS(Baseline):
    """Settings of GEPS."""

    kind = "geps"

    hidden: Annotated[int, Between(1, 4096)] = 64
    """Channels of the hidden fields."""
    kernel: Annotated[int, Between(1, 63)] = 7
    """Points of a convolution per axis; odd."""
    code: Annotated[int, Between(1, 4096)] = 2
    """Numbers in the code of an environment."""
    gain: Positive = 5e-4
    """Factor of the rate of change per frame. Short trainings need about the change itself."""
    environments: Annotated[int, Between(1, 100_000)] = 200
    """Training environments of an equation that is simulated while training."""
    adaptation_steps: Annotated[int, Between(0, 1_000_000)] = 500
    """Steps of gradient descent on the code of an observed window."""
    adaptation_rate: Positive = 1e-3
    """Learning rate of these steps."""

    @property
    def window(self) -> int:
        return 2

    @property
    def listed(self) -> int:
        return self.environments

    @classmethod
    def preset(cls, name: Literal["paper", "cpu", "tiny"], ndim: int) -> tuple[Self, Fitting]:
        line = ndim == 1
        kernel = 7 if line else 3
        if name == "paper":
            training = Fitting(batch=128 if line else 32, learning_rate=1e-3, clip=1.0)
            return cls(kernel=kernel, code=3 if line else 2), training
        if name == "tiny":
            small = cls(8, kernel, gain=1.0, environments=8, adaptation_steps=50,
                        adaptation_rate=0.1)  # fmt: skip
            return small, Fitting(
                Budget(steps=150, validate_every=50), batch=8, learning_rate=1e-2, clip=1.0
            )
        made = cls(32 if line else 16, kernel, code=3 if line else 2, gain=0.1,
                   adaptation_steps=100, adaptation_rate=1e-2)  # fmt: skip
        budget = Budget(steps=100_000, minutes=30, validate_every=100)
        return made, Fitting(budget, batch=16 if line else 4, learning_rate=3e-3, clip=1.0)

    def build(self, facts: Facts) -> AdaptiveOde:
        return AdaptiveOde(self, len(facts.channels), facts.grid.ndim, facts.environments)


class AdaptiveOde(Network):
    """`du/dt = g(u; code)`, one step of the 3/8 rule per frame."""

    def __init__(self, settings: GEPS, channels: int, ndim: int, environments: Count) -> None:
        super().__init__()
        self.settings = settings
        widths = [channels, *[settings.hidden] * 3, channels]
        self.layers = nn.ModuleList(
            AdaptiveConvolution(i, o, settings.kernel, settings.code, ndim)
            for i, o in pairwise(widths)
        )
        self.slopes = nn.ModuleList(AdaptiveSwish(settings.code) for _ in widths[1:-1])
        self.codes = nn.Parameter(torch.zeros(environments, settings.code))

    def rate(self, u: Tensor, code: Tensor) -> Tensor:
        """The change per frame of `(n, channel, *space)` under codes `(n, code)`."""
        for layer, slope in zip(self.layers, self.slopes, strict=False):
            u = slope(layer(u, code), code)
        return self.settings.gain * self.layers[-1](u, code)

    def step(self, u: Tensor, code: Tensor) -> Tensor:
        """One frame on."""
        return rk38(lambda v: self.rate(v, code), u, 1.0, 1)

    def loss(self, windows: Windows, stage: str) -> Tensor:
        moved = self.step(windows.frames[:, 0], self.codes[windows.environment])
        return relative(moved, windows.frames[:, 1])

    def adapt(self, observed: Tensor) -> Tensor:
        """Codes `(n, code)` that explain observed windows, by gradient descent on them alone."""
        settings = self.settings
        # The same start for all, so that a forecast does not depend on its neighbours.
        start = 0.01 * torch.randn(1, settings.code, device=observed.device)
        code = start.repeat(len(observed), 1).requires_grad_()
        optimiser = torch.optim.Adam([code], settings.adaptation_rate)
        for number in range(settings.adaptation_steps):
            done = number / settings.adaptation_steps
            optimiser.param_groups[0]["lr"] = (
                settings.adaptation_rate * 0.5 * (1 + math.cos(math.pi * done))
            )
            i = int(torch.randint(observed.shape[1] - 1, ()))
            with torch.enable_grad():
                error = relative(self.step(observed[:, i], code), observed[:, i + 1]).sum()
            (code.grad,) = torch.autograd.grad(error, [code])
            # A step that overflows leaves its own code where it is.
            code.grad.nan_to_num_(0.0, 0.0, 0.0)
            optimiser.step()
        return code.detach()

    def forecast(self, observed: Tensor, horizon: int) -> Tensor:
        code, u, out = self.adapt(observed), observed[:, -1], []
        for _ in range(horizon):
            u = self.step(u, code)
            out.append(u)
        return torch.stack(out, 1)


class AdaptiveConvolution(nn.Module):
    """A periodic convolution with weights `W + B diag(code) A` in every tap of its kernel."""

    def __init__(self, inputs: int, outputs: int, kernel: int, code: int, ndim: int) -> None:
        super().__init__()
        self.kernel, self.ndim = kernel, ndim
        taps = kernel**ndim
        self.weight = nn.Parameter(torch.empty(outputs, inputs, taps))
        self.left = nn.Parameter(torch.empty(outputs, code, taps))
        self.right = nn.Parameter(torch.empty(inputs, code, taps))
        for matrix in (self.weight, self.left, self.right):
            nn.init.orthogonal_(matrix)
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.code_bias = nn.Parameter(torch.zeros(code, outputs))

    def forward(self, u: Tensor, code: Tensor) -> Tensor:
        n, edge = len(u), self.kernel // 2
        weight = self.weight + torch.einsum("ork,nr,irk->noik", self.left, code, self.right)
        bias = self.bias + code @ self.code_bias
        padded = F.pad(u, [edge] * (2 * self.ndim), mode="circular")
        # Every sample has its own weights: one group of channels each.
        shape = (n * weight.shape[1], weight.shape[2], *[self.kernel] * self.ndim)
        moved = FUNCTIONS[self.ndim](
            padded.flatten(0, 1)[None], weight.reshape(shape), bias.flatten(), groups=n
        )
        return moved[0].unflatten(0, (n, -1))


class AdaptiveSwish(nn.Module):
    """`x sigmoid(b x) / 1.1` with a slope `b` that depends on the code."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.5))
        self.code_slope = nn.Parameter(torch.zeros(code))

    def forward(self, x: Tensor, code: Tensor) -> Tensor:
        slope = F.softplus(self.slope + code @ self.code_slope)
        return x * torch.sigmoid(x * slope.reshape(-1, *[1] * (x.ndim - 1))) / 1.1
