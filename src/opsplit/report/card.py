"""A model card: what a stored model is, how it was made and how good it is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from opsplit._files import write_text
from opsplit.config import ModelConfig, TrainConfig


def write_card(
    folder: Path,
    model: ModelConfig,
    config: TrainConfig,
    result: dict[str, Any],
    curve: list[dict[str, float]],
) -> None:
    """Write `README.md` into a model directory, from the run's own records."""
    settings = "\n".join(f"- {k}: {v}" for k, v in asdict(config).items())
    keep = max(1, len(curve) // 12)
    shown = [*curve[:-1][::keep], curve[-1]]
    names = [k for k in shown[-1] if k.startswith("validation")]
    header = "| minutes | step | " + " | ".join(names) + " |"
    lines = [
        f"| {row['seconds'] / 60:.1f} | {int(row['step'])} | "
        + " | ".join(f"{row.get(k, float('nan')):.5f}" for k in names)
        + " |"
        for row in shown
    ]
    write_text(
        folder / "README.md",
        f"""# {model.physics}, {model.family} family

A hypernetwork ({model.recipe} recipe, preset {model.preset}) and {result["operators"]} operators
for fields with the channels {", ".join(model.channels)} on a grid of
{" x ".join(map(str, model.grid["shape"]))} points, extent {model.grid["extent"]},
boundary {model.grid["boundary"]}, frames {model.dt:.6g} apart.
Known coefficients: {", ".join(model.coefficients) or "none"}.

Made by `{result["command"]}` at commit {result["commit"]} on {result["hardware"]}:
{result["steps"]} steps in {result["minutes"]:.1f} minutes.

## Error against training time

Relative error of one step on unseen fields (training distribution), averaged weights.

{header}
|{"---|" * (2 + len(names))}
{chr(10).join(lines)}

Two half steps differ from a whole step by {result["semigroup"]:.5f} (relative, mean).

## Settings

{settings}
""",
    )
