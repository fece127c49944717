"""What it takes to build a hypernetwork again, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal

from opsplit.errors import OpsplitError

Family = Literal["spectral", "unet"]
Recipe = Literal["in-context", "codebook", "plain"]
Preset = Literal["paper", "cpu", "tiny"]


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes of the hypernetwork."""

    code: int = 2
    """Numbers in a code."""
    width: int = 128
    """Width of the transformer."""
    blocks: int = 4
    """Space-time blocks."""
    heads: int = 4
    """Attention heads."""
    patch: int = 8
    """Points per patch and axis (a multiple of 4)."""
    layer_scale: float = 1e-6
    """Strength of every residual branch at the start; short trainings want it large."""
    decoder_width: int = 128
    """Width of the decoder."""
    head_width: int = 128
    """Features in front of the decoder's last layer; it sets the size on disk."""
    head_bias: bool = False
    """Whether that layer has a bias, which all operators share."""
    moments: bool = False
    """Tell the encoder the mean and the size of a context, which it takes off: how fast a field
    changes says how strong a nonlinear term is only to those who know how large the field is."""


@dataclass(frozen=True)
class ModelConfig:
    """What it takes to build a model again."""

    physics: str
    family: Family
    recipe: Recipe
    preset: Preset
    channels: tuple[str, ...]
    ndim: int
    dt: float
    """Time between the frames of a context."""
    grid: dict[str, Any]
    """The grid it was trained on."""
    coefficients: tuple[str, ...]
    environments: int = 0
    """Rows of the codebook (0: none)."""
    scale: float = 1.0
    """Fields are divided by this before operators act."""
    rescale: bool = False
    """Divide by the size of the observed window as well (homogeneous physics only)."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    operator: dict[str, Any] = field(default_factory=dict)
    """Arguments of the operator family."""

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ModelConfig:
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in data.items() if k in known}
        try:
            values["channels"] = tuple(values["channels"])
            values["coefficients"] = tuple(values["coefficients"])
            values["encoder"] = EncoderConfig(**values["encoder"])
            return cls(**values)
        except (KeyError, TypeError) as reason:
            raise OpsplitError(f"config.json does not describe a model: {reason}") from None
