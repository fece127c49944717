"""The settings that rebuild a hypernetwork, as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.settings import AtMost, Between, Names, Printable, Settings, Size

Family = Literal["spectral", "unet"]
Recipe = Literal["in-context", "codebook", "plain"]
Preset = Literal["paper", "cpu", "tiny"]
Word = Annotated[str, Printable()]
POINTS = 2**30
"""Most points of a grid."""


@dataclass(frozen=True)
class EncoderConfig(Settings):
    """Sizes of the hypernetwork."""

    code: Annotated[int, Between(1, 4096)] = 2
    """Numbers in a code."""
    width: Annotated[int, Between(1, 16_384)] = 128
    """Width of the transformer; a multiple of `heads`."""
    blocks: Annotated[int, Between(0, 256)] = 4
    """Space-time blocks of the transformer."""
    heads: Annotated[int, Between(1, 256)] = 4
    """Attention heads."""
    patch: Annotated[int, Between(4, 4096)] = 8
    """Points per patch and axis; a multiple of 4. A grid that it does not divide is continued
    periodically up to the next multiple."""
    layer_scale: Annotated[float, Between(-1e6, 1e6)] = 1e-6
    """Strength of every residual branch at the start. Short trainings need about 0.3."""
    decoder_width: Annotated[int, Between(1, 65_536)] = 128
    """Width of the decoder."""
    head_width: Annotated[int, Between(1, 65_536)] = 128
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

    physics: Word
    """Name of the equation or of the data."""
    family: Word
    """Name of the operator family."""
    recipe: Recipe
    """The way of training."""
    preset: Word
    """The preset that the training settings started from."""
    channels: Annotated[Names, AtMost(64)]
    ndim: Annotated[int, Between(1, 3)]
    """Number of space axes."""
    dt: Size
    """Time between the frames of a context."""
    grid: Mapping[str, Any]
    """The training grid: `shape`, `extent` and `boundary`."""
    coefficients: Names
    """Names of the coefficients that the training data state."""
    environments: Annotated[int, Between(0, 10_000_000)] = 0
    """Rows of the codebook (0: no codebook)."""
    scale: Size = 1.0
    """Fields are divided by this number before operators act."""
    rescale: bool = False
    """Divide by the size of the observed window as well (homogeneous physics only)."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    operator: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the operator family."""

    def check(self) -> None:
        if not self.channels:
            raise OpsplitError("ModelConfig: at least one channel is needed.")
        check_grid(self.grid, self.ndim)


def check_grid(grid: Mapping[str, Any], ndim: int) -> None:
    """Refuse a grid whose description is incomplete, too large or of other dimensions."""
    for name in ("shape", "extent", "boundary"):
        entries = grid.get(name)
        if not isinstance(entries, list | tuple) or len(entries) != ndim:
            raise OpsplitError(f"the grid: {name} needs one entry for each of {ndim} axes.")
    if not all(type(n) is int for n in grid["shape"]):
        raise OpsplitError(f"the grid: shape counts points, got {grid['shape']!r:.60}.")
    if not all(type(x) in (int, float) for x in grid["extent"]):
        raise OpsplitError(f"the grid: extent needs numbers, got {grid['extent']!r:.60}.")
    if math.prod(grid["shape"]) > POINTS:
        raise OpsplitError(f"the grid has more than {POINTS} points.")
    Between(1e-30, 1e30).check(tuple(grid["extent"]), "the grid: extent")
    Grid.from_dict(dict(grid))
