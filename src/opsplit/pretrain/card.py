"""A model card: what a stored model is, how it was made and how good it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opsplit._files import write_text
from opsplit.hypernetwork.config import ModelConfig
from opsplit.pretrain.config import TrainConfig, flat
from opsplit.pretrain.verdict import quality_words


def write_card(
    folder: Path,
    model: ModelConfig,
    config: TrainConfig,
    result: dict[str, Any],
) -> None:
    """Write `README.md` into a model directory, from the run's own records."""
    settings = "\n".join(f"- {k}: {v}" for k, v in flat(config.to_json()).items())
    earlier = "".join(
        f"\n\nBefore that, `{one['command']}` at commit {one.get('commit', 'unknown')}:\n"
        f"{one.get('steps', 'unknown')} steps in {one['minutes']:.1f} minutes.\n\n"
        f"{_table(one.get('curve', []))}"
        for one in reversed(result["before"])
    )
    write_text(
        folder / "README.md",
        f"""# {model.physics}, {model.family} family

A hypernetwork ({model.recipe} recipe, preset {model.preset}) and {result["operators"]} operators
for fields with the channels {", ".join(model.channels)} on a grid of
{" x ".join(map(str, model.grid.shape))} points, extent {list(model.grid.extent)},
boundary {list(model.grid.boundary)}, frames {model.dt:.6g} apart.
Known coefficients: {", ".join(model.coefficients) or "none"}.

Made by `{result["command"]}` at commit {result["commit"]} on {result["hardware"]}:
{result["steps"]} steps in {result["minutes"]:.1f} minutes.

{_structure(result)}## Error against training time

Error of one step on unseen fields (training distribution), relative to the {config.measure}, with
averaged weights; `read`, if there, with the operators that the encoder reads instead of those of
the dictionary.

{_table(result["curve"])}{earlier}

Two half steps differ from a whole step by {result["semigroup"]:.5f} (relative, mean).

## Settings

{settings}
""",
    )


def _structure(result: dict[str, Any]) -> str:
    """What evidence chose, if it did."""
    if "structure" not in result:
        return ""
    lines = [
        "## Structure",
        "",
        "Chosen by the error of a step relative to its change, on fields that were not fitted.",
        "",
        "| mechanism | terms | error | rivals |",
        "|---|---|---|---|",
    ]
    for row in result["structure"]["mechanisms"]:
        rivals = ", ".join(f"{r['structure']} {r['error']:.2g}" for r in row["rivals"])
        terms = ", ".join(f"`{t or 'identity'}`" for t in row["terms"])
        lines.append(f"| {row['mechanism']} | {terms} | {row['error']:.2g} | {rivals} |")
    lines += ["", "Every environment and its error:", ""]
    lines += [f"- {quality_words(row)}" for row in result["structure"]["mechanisms"]]
    return "\n".join([*lines, "", f"Verdict: {result['structure']['verdict']}.", "", ""])


def thinned(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    """About twelve rows of a curve, the last one among them."""
    keep = max(1, len(curve) // 12)
    return [*curve[:-1][::keep], curve[-1]]


def _table(curve: list[dict[str, float]]) -> str:
    if not curve:
        return ""
    names = [k for k in curve[-1] if k.startswith("validation")]
    lines = [
        f"| {row['seconds'] / 60:.1f} | {int(row['step'])} | "
        + " | ".join(f"{row.get(k, float('nan')):.5f}" for k in names)
        + " |"
        for row in curve
    ]
    header = "| minutes | step | " + " | ".join(names) + " |"
    return "\n".join([header, "|" + "---|" * (2 + len(names)), *lines])
