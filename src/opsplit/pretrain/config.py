"""Settings of pretraining, in groups, and the presets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from opsplit.errors import OpsplitError
from opsplit.hypernetwork.config import EncoderConfig, Preset, Recipe
from opsplit.physics import PHYSICS
from opsplit.settings import AtMost, Between, Printable, Settings, Share, Size

Count = Annotated[int, Between(1, 10_000_000)]
Word = Annotated[str, Printable()]
Rate = Annotated[float, Between(0.0, 1e6)]
Measure = Literal["field", "channel", "change"]
Positive = Annotated[float, Between(1e-12, 1e12)]


@dataclass(frozen=True)
class Budget(Settings):
    """When training ends, and how often it looks at itself."""

    steps: Count = 300_000
    """Step budget."""
    minutes: Positive | None = None
    """Time budget in minutes; the schedule ends with the budget that ends first. The clock then
    decides on the schedule, and no two runs are the same; steps alone repeat exactly."""
    validate_every: Count = 500
    """Steps between validations."""
    checkpoint_seconds: Positive = 120.0
    """Seconds between checkpoints."""
    checkpoint_steps: Count | None = None
    """Steps between checkpoints, besides the seconds."""


@dataclass(frozen=True)
class Batches(Settings):
    """The content of one training batch."""

    environments: Count = 32
    """Dynamics per step and process, with one context each."""
    states: Count = 15
    """States per dynamics and step."""
    context: Annotated[int, Between(2, 100_000)] = 16
    """Frames of a context."""
    durations: Annotated[tuple[float, ...], AtMost(1000)] = (1.0,)
    """Lengths of a training flow, in frames; one is drawn per step. Stored data have no fields
    between frames: there, a share such as 0.5 divides a frame at random into two flows."""
    warm_up_states: Share = 0.0
    """Share of states that another dynamics has changed before (simulated data only)."""
    resolved: Share | None = None
    """Leave out frames with more than this share of their energy in the upper half of the modes
    (stored data only)."""
    split: Word = "train"
    """Coefficients to train on (simulated data only)."""

    def check(self) -> None:
        if not self.durations or not all(0 < d <= 1e6 for d in self.durations):
            raise OpsplitError(f"Batches: durations must be positive, got {self.durations}.")


@dataclass(frozen=True)
class Optimiser(Settings):
    """AdamW with a linear warm-up and a cosine decay."""

    learning_rate: Positive = 3e-4
    """Largest learning rate."""
    weight_decay: Rate = 1e-4
    """Decay of weight matrices."""
    warm_up: Annotated[int, Between(0, 10_000_000)] = 1000
    """Steps of linear warm-up."""
    encoder_rate: Rate = 1.0
    """The encoder's learning rate, relative to the others'."""
    shared_rate: Rate = 1.0
    """The learning rate of the part that all operators share, relative to the others'."""
    clip: Positive = 1.0
    """Largest gradient norm."""
    ema: Share = 0.999
    """Decay of the averaged weights, which become the model."""


@dataclass(frozen=True)
class Codebook(Settings):
    """One code per environment (recipe `codebook`)."""

    share: Share = 0.5
    """Probability of using an environment's code instead of the encoder's."""
    momentum: Share = 0.99
    """Decay of the moving average by which a code follows the encoder."""
    commitment: Rate = 0.5
    """Weight of the distance between the encoder's code and the environment's code."""
    by_gradient: Share = 0.0
    """Share of the budget, at its end, in which the codes are trained by gradient."""
    reading: Share = 0.25
    """Share of those steps in which the encoder learns to recognise the codes."""
    start: Literal["random", "coefficients"] = "random"
    """Initial codes: random numbers, or the true coefficients of the environments."""


@dataclass(frozen=True)
class Start(Settings):
    """Trained weights to start with; a model is a bundled name or a directory."""

    encoder_from: Word | None = None
    """Start with the encoder of this model."""
    start_from: Word | None = None
    """Start with all weights of this model."""
    encoder_only: bool = False
    """Keep the operators of `start_from`; only the encoder learns, to recognise their codes."""


@dataclass(frozen=True)
class Extraction(Settings):
    """How the dictionary is made at the end."""

    operators: Count = 256
    """Operators to extract (simulated data without a codebook only)."""
    prune: Annotated[float, Between(0.0, 1e30)] = 0.0
    """Set weights of products below this number to zero; pruned operators cost less."""
    max_strength: Size = 4.0
    """The largest strength that a search may give an operator."""


@dataclass(frozen=True)
class TrainConfig(Settings):
    """Settings of pretraining.

    Examples:
        >>> import opsplit
        >>> from opsplit.pretrain import Budget
        >>> opsplit.TrainConfig(budget=Budget(minutes=5)).budget.minutes
        5.0
    """

    recipe: Recipe = "in-context"
    """The way of training: `in-context` (codes of the encoder, states of other trajectories),
    `codebook` (one code per environment), `plain` (states that follow their own context)."""
    budget: Budget = field(default_factory=Budget)
    batches: Batches = field(default_factory=Batches)
    optimiser: Optimiser = field(default_factory=Optimiser)
    codebook: Codebook = field(default_factory=Codebook)
    start: Start = field(default_factory=Start)
    measure: Measure = "field"
    """What the error of a step is divided by: the size of the `field` (as in the paper), the size
    of every `channel` by itself, or the `change` of the step, which a large mean does not hide."""
    dictionary: Extraction = field(default_factory=Extraction)
    seed: Annotated[int, Between(0, 2**31 - 1)] = 0
    """Seed of weights and batches."""


PRESETS: dict[Preset, tuple[EncoderConfig, TrainConfig]] = {
    # The paper's weights are those of the last step.
    "paper": (EncoderConfig(), TrainConfig(optimiser=Optimiser(ema=0.0))),
    "cpu": (
        EncoderConfig(width=64, blocks=2, patch=16, layer_scale=0.3, head_width=32),
        TrainConfig(
            budget=Budget(steps=100_000, minutes=25),
            batches=Batches(environments=16, states=32, durations=(0.5, 1.0), warm_up_states=0.5),
            optimiser=Optimiser(learning_rate=1e-3, warm_up=200),
        ),
    ),
    "tiny": (
        EncoderConfig(
            width=16, blocks=1, heads=2, layer_scale=0.3, decoder_width=32, head_width=16
        ),
        TrainConfig(
            budget=Budget(steps=200, validate_every=50),
            batches=Batches(environments=4, states=8),
            optimiser=Optimiser(learning_rate=3e-3, warm_up=20, ema=0.95),
            dictionary=Extraction(operators=16),
        ),
    ),
}
"""Sizes and budgets: `paper` for a GPU, `cpu` for two cores, `tiny` for tests."""


def preset_operator(preset: str) -> str:
    """The operators of a preset by name; those of the paper are plain U-Nets."""
    return "unet" if preset == "paper" else "auto"


def preset_settings(
    preset: str, stored: bool = False, name: str = ""
) -> tuple[EncoderConfig, TrainConfig]:
    """Encoder and training settings of a preset, for simulated or for stored data.

    The paper sets the size of a code and the number of steps for each of its equations, by `name`.

    Stored trajectories have environments, hence a codebook, and no fields between frames. Their
    equations are often nonlinear, hence the encoder sees the size of the fields.
    """
    if preset not in PRESETS:
        raise OpsplitError(f"Unknown preset {preset!r}; choose from {', '.join(PRESETS)}.")
    encoder, training = PRESETS[preset]
    if preset == "paper" and name in PHYSICS:
        set_by_paper = PHYSICS[name].trained
        encoder = replace(encoder, code=set_by_paper["code"])
        training = replace(training, budget=Budget(steps=set_by_paper["steps"]))
    if not stored:
        return encoder, training
    if preset != "paper":
        encoder = replace(encoder, moments=True)
        training = replace(training, measure="change")
    if preset == "cpu":
        # Codes trained by gradient fit their environments more closely than the encoder's means.
        encoder = replace(encoder, code=4, head_bias=True)
        training = replace(training, codebook=Codebook(by_gradient=1.0))
    batches = replace(training.batches, durations=(1.0,), warm_up_states=0.0)
    return encoder, replace(training, recipe="codebook", batches=batches)


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings with names such as `training.budget.steps`."""
    out: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            out |= flat(value, f"{prefix}{key}.")
        else:
            out[prefix + key] = value
    return out
