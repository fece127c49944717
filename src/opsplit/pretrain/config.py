"""Settings of pretraining, as plain values (nothing here imports torch)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from opsplit.hypernetwork.config import EncoderConfig, Recipe


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
    """Lengths of a training flow, in frames; one is drawn per step. Stored frames have nothing in
    between: there, a share such as 0.5 is a frame divided at random into two flows."""
    warm_up_states: float = 0.0
    """Share of states that have gone through other dynamics before (see Physics.splits)."""
    split: str = "train"
    """Coefficients to train on."""
    encoder_from: str | None = None
    """Start with the encoder of this model (a bundled name or a directory)."""
    start_from: str | None = None
    """Start with all weights of this model (a bundled name or a directory)."""
    encoder_only: bool = False
    """Leave the operators of `start_from` as they are; the encoder learns to tell their codes."""
    learning_rate: float = 3e-4
    weight_decay: float = 1e-4
    warm_up: int = 1000
    """Steps of linear warm-up."""
    encoder_rate: float = 1.0
    """The encoder's learning rate, relative to the others'."""
    shared_rate: float = 1.0
    """The learning rate of what all operators share, relative to the others'."""
    clip: float = 1.0
    """Largest gradient norm."""
    ema: float = 0.999
    """Decay of the averaged weights that are shipped."""
    codebook_share: float = 0.5
    """Probability of using an environment's code instead of the encoder's."""
    codebook_momentum: float = 0.99
    commitment: float = 0.5
    """Weight of the pull of codes towards their environment's code."""
    polish: float = 0.0
    """Share of the budget, at its end, in which the codebook is trained by gradient."""
    polish_reads: float = 0.25
    """Share of those steps in which the encoder learns to tell the codes."""
    per_channel: bool = False
    """Weigh every channel by its own size in the loss."""
    resolved: float | None = None
    """Leave out frames with more than this share of their energy in the upper half of the modes."""
    dictionary: int = 256
    """Operators extracted at the end (on-the-fly physics)."""
    validate_every: int = 500
    """Steps between validations."""
    checkpoint_seconds: float = 120.0
    """Seconds between checkpoints."""
    checkpoint_steps: int | None = None
    """Steps between checkpoints, besides the seconds."""
    seed: int = 0


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

STORED_CHANGES: dict[str, Any] = {"recipe": "codebook", "durations": (1.0,), "warm_up_states": 0.0}
"""Stored trajectories have environments, and frames that are whole steps apart."""

PHYSICS_CHANGES: dict[tuple[str, str], dict[str, Any]] = {
    ("combined", "spectral"): {
        "durations": (1.0, 1.0, 4.0),
        "states": 4,
        "learning_rate": 3e-3,
        "encoder_rate": 0.3,
        "shared_rate": 3.0,
        "polish": 1.0,
    },
    ("gray-scott", "spectral"): {
        "environments": 4,
        "states": 2,
        "durations": (1.0, 4.0),
        "learning_rate": 3e-3,
        "encoder_rate": 0.3,
        "shared_rate": 3.0,
        "polish": 1.0,
        "per_channel": True,
    },
    ("navier-stokes", "spectral"): {
        "environments": 2,
        "states": 1,
        "learning_rate": 3e-3,
        "encoder_rate": 0.3,
        "shared_rate": 3.0,
        "polish": 1.0,
        "resolved": 3e-3,
    },
    ("combined", "unet"): {"polish": 1.0},
    ("gray-scott", "unet"): {"environments": 4, "states": 2, "polish": 1.0, "per_channel": True},
    ("navier-stokes", "unet"): {"environments": 4, "states": 1, "polish": 1.0, "resolved": 3e-3},
}
"""Where an equation and a family want other numbers (not in the paper's preset)."""

CODES = {"combined": 3, "gray-scott": 4, "navier-stokes": 4}
"""Numbers in a code, where not two."""

OPERATORS: dict[tuple[str, str], dict[str, Any]] = {
    ("advection-diffusion", "spectral"): {"copies": 2},
    # Fronts: fluxes between neighbouring points; dispersion is of order one at kappa = 10.
    ("combined", "spectral"): {
        "copies": 0,
        "shifts": 6,
        "products": 16,
        "constants": False,
        "absolute": True,
        "dealias": 1.0,
        "wavenumber_scale": 0.4,
        "quiet": True,
        "output_scale": 0.1,
    },
    # A reaction is a polynomial in every point; gated layers learned none of it (docs/notes).
    ("gray-scott", "spectral"): {
        "degree": 3,
        "derivatives": False,
        "dealias": 1.0,
        "wavenumber_scale": 30.0,
        "output_scale": 0.1,
    },
    ("navier-stokes", "spectral"): {
        "degree": 2,
        "constants": False,
        "inverse": True,
        "wavenumber_scale": 10.0,
        "output_scale": 2.0,
        # Two thirds would take more than aliasing does (docs/notes).
        "dealias": 1.0,
        "cut": 100.0,
        "prune": 0.01,
        "steps": 8,
    },
    # A network drifts where the equation conserves. What comes out of it is bounded: without a
    # unit of their own, large rates are out of its reach (docs/notes).
    ("advection-diffusion", "unet"): {
        "conserve": True,
        "pace": [4.0],
        "power": 1.0,
        "calm": 0.125,
        # Four steps of c = 0.65 err less than three of c = 0.86 (docs/notes).
        "max_strength": 8.0,
    },
    # Fronts and eddies live in the upper modes too.
    ("combined", "unet"): {
        "band": 1.0,
        "conserve": True,
        "standardise": True,
        "power": "learned",
    },
    ("navier-stokes", "unet"): {
        "band": 1.0,
        "conserve": True,
        "standardise": True,
        "power": "learned",
        "stream": 4.0,
    },
    # One species is a tenth of the other, and a frame changes both by a hundredth. Half of what
    # the reaction changes is in the upper half of the modes.
    ("gray-scott", "unet"): {"band": 1.0, "standardise": True, "normalise": "coarse"},
}
"""Arguments of an operator family where an equation wants other than the default."""


def preset_configs(
    preset: str, family: str, physics: str = "", stored: bool = False
) -> tuple[EncoderConfig, TrainConfig]:
    """The settings of a preset for a family and an equation."""
    encoder, train = PRESETS[preset]
    changes = FAMILY_CHANGES.get((preset, family), {}) | (STORED_CHANGES if stored else {})
    if stored and preset == "cpu":
        changes |= PHYSICS_CHANGES.get((physics, family), {})
    if stored and preset != "paper":
        encoder = replace(encoder, moments=True)
    if physics in CODES:
        encoder = replace(encoder, code=CODES[physics], head_bias=True)
    return encoder, replace(train, **changes)
