"""`opsplit pretrain`: train a hypernetwork, extract its dictionary, store a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from opsplit.commands.common import Common, effective_settings, leave_record
from opsplit.hypernetwork.config import Preset, Recipe


@dataclass(frozen=True)
class Pretrain(Common):
    """Train a model; kill it any time and run the same command to go on.

    Example: opsplit pretrain advection-diffusion --family spectral --minutes 25 --out runs/ad

    Your own equation: opsplit pretrain my-equation --data mine/trajectories.npz --out runs/mine
    """

    physics: Annotated[str, tyro.conf.Positional] = "advection-diffusion"
    """The equation to simulate on the fly, or a name for your own data."""
    data: Path | None = None
    """Train on these trajectories (what `opsplit generate` wrote) instead of simulating."""
    family: Literal["spectral", "unet"] = "spectral"
    """Operator family."""
    recipe: Recipe | None = None
    """Where codes and states come from (default: in-context; codebook for your own data)."""
    preset: Preset = "cpu"
    """Sizes and budgets: paper (GPU), cpu, tiny (seconds)."""
    split: str = "train"
    """Coefficients to train on, such as train, mixed-0.5 or mixed-1.0."""
    steps: int | None = None
    """Step budget (default: the preset's)."""
    minutes: float | None = None
    """Time budget (default: the preset's)."""
    environments: int | None = None
    """Dynamics per step (default: the preset's)."""
    states: int | None = None
    """States per dynamics (default: the preset's)."""
    durations: tuple[float, ...] | None = None
    """Lengths of a training flow in frames, such as 0.5 1 4 (default: the preset's)."""
    learning_rate: float | None = None
    """Largest learning rate (default: the preset's)."""
    encoder_from: str | None = None
    """Start with the encoder of this model: a bundled name or a model directory."""
    start_from: str | None = None
    """Start with all weights of this model, to train it on: a bundled name or a model directory."""
    encoder_only: bool = False
    """Train only the encoder, to tell the operators of --start-from, which stay as they are."""
    operators: int | None = None
    """Operators to extract at the end (default: the preset's)."""
    checkpoint_steps: int | None = None
    """Steps between checkpoints (default: every two minutes)."""
    logger: Literal["tensorboard", "wandb"] | None = None
    """Send the curve there as well as to metrics.csv."""
    processes: int = 1
    """Data-parallel processes."""
    threads: int | None = None
    """Threads per process (default: all cores, shared out)."""
    out: Path | None = Path("runs/model")
    """The run, and in the end the model directory."""

    def run(self) -> None:
        self.check()
        from opsplit.pretrain.pretrain import pretrain

        assert self.out is not None
        chosen = {
            "steps": self.steps,
            "minutes": self.minutes,
            "environments": self.environments,
            "states": self.states,
            "learning_rate": self.learning_rate,
            "dictionary": self.operators,
            "recipe": self.recipe,
            "encoder_from": self.encoder_from,
            "start_from": self.start_from,
            "encoder_only": self.encoder_only or None,
            "durations": self.durations,
            "checkpoint_steps": self.checkpoint_steps,
        }
        result = pretrain(
            self.physics,
            self.family,
            self.preset,
            self.out,
            data=self.data,
            changes={k: v for k, v in chosen.items() if v is not None}
            | {"seed": self.seed, "split": self.split},
            device=self.device,
            processes=self.processes,
            threads=self.threads,
            logger=self.logger,
            quiet=self.json,
        )
        inputs = (self.data,) if self.data else ()
        leave_record(self, effective_settings(self, inputs), result)
        if self.json:
            print(json.dumps(result))
            return
        errors = ", ".join(f"{k} {v:.5f}" for k, v in result["validation"].items())
        print(
            f"{self.out}: {result['steps']} steps in {result['minutes']:.1f} minutes\n"
            f"one-step error of unseen batches: {errors}\n"
            f"half-step consistency: {result['semigroup']:.5f}\n"
            f"{result['operators']} operators in the dictionary"
        )
