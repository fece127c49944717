"""The settings that rebuild a hypernetwork, as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.operators import OperatorFamily
from opsplit.settings import AtMost, Between, Names, Printable, Settings, Size

Recipe = Literal["in-context", "codebook", "plain"]
Preset = Literal["paper", "cpu", "tiny"]

TRAINED_POINTS = 2**24
"""Points of a training grid: 256 per axis in three dimensions."""
STEPS_PER_FRAME = 10_000
"""Integration steps from one training frame to the next that no operator needs."""


@dataclass(frozen=True)
class EncoderConfig(Settings):
    """Sizes of the hypernetwork."""

    code: Annotated[int, Between(1, 4096)] = 2
    """Numbers in a code."""
    width: Annotated[int, Between(1, 16384)] = 128
    """Width of the transformer; a multiple of `heads`."""
    blocks: Annotated[int, Between(0, 256)] = 4
    """Space-time blocks of the transformer."""
    heads: Annotated[int, Between(1, 256)] = 4
    """Attention heads."""
    patch: Annotated[int, Between(4, 4096)] = 8
    """Points per patch and axis; a multiple of 4. An axis that it does not divide is continued
    periodically up to the next multiple."""
    layer_scale: Annotated[float, Between(-1e6, 1e6)] = 1e-6
    """Strength of every residual branch at the start. Short trainings need about 0.3."""
    decoder: Literal["network", "linear"] = "network"
    """From codes to parameters: a small network, or one matrix for parameters that are linear in
    the code (structures that were fitted by least squares)."""
    decoder_width: Annotated[int, Between(1, 65536)] = 128
    """Width of the decoder."""
    head_width: Annotated[int, Between(1, 65536)] = 128
    """Features in front of the decoder's last layer; it sets the size on disk."""
    head_bias: bool = False
    """Whether that layer has a bias, which all operators share."""
    moments: bool = False
    """Whether the encoder sees the mean and the standard deviation of a context besides the
    standardised fields. The strength of a nonlinear term follows from the rate of change only if
    the size of the field is known."""

    def check(self) -> None:
        if self.width % self.heads:
            raise OpsplitError(
                f"EncoderConfig: width must be a multiple of heads, got {self.width} and "
                f"{self.heads}."
            )
        if self.patch % 4:
            raise OpsplitError(f"EncoderConfig: patch must be a multiple of 4, got {self.patch}.")


@dataclass(frozen=True)
class ModelConfig(Settings):
    """The settings that rebuild a model."""

    physics: Annotated[str, Printable()]
    """Name of the equation or of the data."""
    operator: OperatorFamily
    """The operators that codes are decoded into."""
    grid: Grid
    """The training grid."""
    dt: Size
    """Time between the frames of a context."""
    channels: Annotated[Names, AtMost(64)] = ("u",)
    coefficients: Names = ()
    """Names of the coefficients that the training data state."""
    recipe: Recipe = "in-context"
    """The way of training."""
    preset: Preset = "cpu"
    """The preset that the settings started from."""
    environments: Annotated[int, Between(0, 10_000_000)] = 0
    """Rows of the codebook (0: no codebook)."""
    scale: Size = 1.0
    """Fields are divided by this number before operators act."""
    rescale: bool = False
    """Divide by the size of the observed window as well (homogeneous physics only)."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    prune: Annotated[float, Between(0.0, 1e30)] = 0.0
    """Weights of products below this number are zero in an operator that is read from a window, as
    they are in the dictionary."""

    @property
    def ndim(self) -> int:
        return self.grid.ndim

    @property
    def family(self) -> str:
        """The kind of the innermost operator family."""
        return self.operator.innermost.kind

    def check(self) -> None:
        mine = (len(self.channels), self.grid.ndim)
        if mine != (self.operator.channels, self.operator.ndim):
            raise OpsplitError(
                f"ModelConfig: {mine[0]} channel(s) on {mine[1]} axes need operators of that "
                f"size, got {self.operator.channels} and {self.operator.ndim}."
            )
        if math.prod(self.grid.shape) > TRAINED_POINTS:
            raise OpsplitError(
                f"ModelConfig: a training grid of {self.grid.shape} has more than "
                f"{TRAINED_POINTS} points."
            )
        steps = self.operator.steps(self.dt)
        if steps > STEPS_PER_FRAME:
            raise OpsplitError(f"ModelConfig: operators take {steps} steps from frame to frame.")

    def numbers(self) -> int:
        """About how many numbers the hypernetwork holds, to refuse absurd sizes before building."""
        e, d, parameters = self.encoder, self.ndim, self.operator.n_parameters
        blocks = e.blocks * e.width**2 * (3 * (1 + d) + 10)
        narrow = max(8, e.width // 4)
        stem = narrow**2 * ((e.patch // 4) ** d + 2**d) + narrow * e.width * 2**d
        head = e.head_width * parameters + e.decoder_width * (e.code + e.head_width)
        return blocks + stem + head + 4 * parameters + self.environments * e.code
