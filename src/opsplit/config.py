"""Every setting of a model and of its training, as plain values (nothing here imports torch)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
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


@dataclass(frozen=True)
class TrainConfig:
    """Settings of pretraining."""

    recipe: Recipe = "in-context"
    """Where codes and states come from."""
    steps: int = 300_000
    """Step budget."""
    minutes: float | None = None
    """Time budget; the schedule ends with whichever budget ends first."""
    environments: int = 32
    """Dynamics per step and process, one context each."""
    states: int = 15
    """States per dynamics and step."""
    context: int = 16
    """Frames of a context."""
    durations: tuple[float, ...] = (1.0,)
    """Lengths of a training flow, in frames; one is drawn per step."""
    warm_up_states: float = 0.0
    """Share of states that have gone through other dynamics before (see Physics.splits)."""
    split: str = "train"
    """Coefficients to train on."""
    encoder_from: str | None = None
    """Start with the encoder of this model (a bundled name or a directory)."""
    learning_rate: float = 3e-4
    weight_decay: float = 1e-4
    warm_up: int = 1000
    """Steps of linear warm-up."""
    clip: float = 1.0
    """Largest gradient norm."""
    ema: float = 0.999
    """Decay of the averaged weights that are shipped."""
    codebook_share: float = 0.5
    """Probability of using an environment's code instead of the encoder's."""
    codebook_momentum: float = 0.99
    commitment: float = 0.5
    """Weight of the pull of codes towards their environment's code."""
    dictionary: int = 256
    """Operators extracted at the end (on-the-fly physics)."""
    validate_every: int = 500
    """Steps between validations."""
    checkpoint_seconds: float = 120.0
    """Seconds between checkpoints."""
    checkpoint_steps: int | None = None
    """Steps between checkpoints, besides the seconds."""
    seed: int = 0


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


PRESETS: dict[str, tuple[EncoderConfig, TrainConfig]] = {
    "paper": (
        EncoderConfig(),
        TrainConfig(),
    ),
    "cpu": (
        EncoderConfig(width=64, blocks=2, patch=16, layer_scale=0.3, head_width=32),
        TrainConfig(
            steps=100_000,
            minutes=25,
            environments=16,
            states=32,
            durations=(0.5, 1.0),
            warm_up_states=0.5,
            learning_rate=1e-3,
            warm_up=200,
            ema=0.999,
        ),
    ),
    "tiny": (
        EncoderConfig(
            width=16, blocks=1, heads=2, layer_scale=0.3, decoder_width=32, head_width=16
        ),
        TrainConfig(
            steps=200,
            environments=4,
            states=8,
            learning_rate=3e-3,
            warm_up=20,
            ema=0.95,
            dictionary=16,
            validate_every=50,
        ),
    ),
}
"""Sizes and budgets: `paper` for a GPU, `cpu` what we train and ship, `tiny` for tests."""

FAMILY_CHANGES: dict[tuple[str, str], dict[str, Any]] = {
    # Long flows cost a spectral operator little and show the weak effects that one frame hides.
    ("cpu", "spectral"): {"durations": (0.5, 1.0, 4.0)},
    ("cpu", "unet"): {"minutes": 90, "environments": 8, "states": 16},
}
"""Where a family wants other numbers than its preset."""


def preset_configs(preset: str, family: str) -> tuple[EncoderConfig, TrainConfig]:
    """The settings of a preset for a family."""
    encoder, train = PRESETS[preset]
    return encoder, replace(train, **FAMILY_CHANGES.get((preset, family), {}))
