"""What is said about learned mechanisms: a table, and a verdict in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

import torch
from torch import Tensor

from opsplit.pretrain.refine import beyond_noise
from opsplit.pretrain.structure import Learned, used_terms

GOOD = 0.05
"""Operators serve in compositions where they leave less than this share of the change on average,
and no environment leaves ten times as much: in a step, and in forecasts of whole trajectories."""
MOST_NOISE = 0.6
"""Where noise makes more than this share of the change, nothing is known about the rest."""
ALIKE = 0.02
"""Mechanisms whose weights add up to less than this, with factors of unit size, are alike."""


def report(
    learned: Sequence[Learned], parameters: Tensor, known: Mapping[str, Tensor], separated: bool
) -> dict[str, Any]:
    """Choices, rivals, errors and the verdict as plain values.

    Arguments:
        parameters: weights `(E, P)` of all environments.
        known: their coefficients, `(E,)` each.
        separated: whether mechanisms that act together could be told apart.
    """
    rows = [_row(one, known) for one in learned]
    weak = [one.mechanism for one in learned if is_weak(one)]
    mixed = [] if separated else [row["mechanism"] for row in rows if "+" in row["mechanism"]]
    verdict = "; ".join(_sentences(rows, weak, separated, alike(learned, parameters)))
    return {"verdict": verdict, "weak": weak, "mixed": mixed, "mechanisms": rows}


def _row(one: Learned, known: Mapping[str, Tensor]) -> dict[str, Any]:
    left = beyond_noise(one.error, one.noise)
    return {
        "mechanism": one.mechanism,
        "terms": sorted({t for kind in used_terms(one).values() for t in kind}),
        "error": float(one.error.mean()),
        "worst": float(one.error.max()),
        "noise": float(one.noise.mean()),
        "beyond_noise": float(left.mean()),
        "lasting": float(one.lasting.mean()),
        "environments": len(one.environments),
        "complete": one.complete,
        "quality": [
            {
                "coefficients": {k: float(v[i]) for k, v in known.items() if float(v[i])},
                "error": float(one.error[place]),
                "beyond_noise": float(left[place]),
                "lasting": float(one.lasting[place]),
            }
            for place, i in enumerate(one.environments)
        ],
        "rivals": [
            {"structure": r.name, "terms": list(r.terms), "error": r.error} for r in one.rivals
        ],
    }


def _sentences(
    rows: Sequence[dict[str, Any]], weak: Sequence[str], separated: bool, same: Sequence[str]
) -> list[str]:
    """The verdict, and what else a user must know."""
    out = ["good for compositions"]
    if weak:
        out = [
            f"weak: {', '.join(weak)} (more than {GOOD:.0%} of the change is left, in a step or "
            "at the end of a trajectory: noise, too few frames, or terms that no structure has)"
        ]
    noisy = [row for row in rows if row["noise"] > GOOD and row["mechanism"] not in weak]
    if noisy:
        out.append(
            f"the frames of {_names(noisy)} hold noise: what smoothing leaves of it makes up to "
            f"{max(row['noise'] for row in noisy):.0%} of the change of a step and was taken "
            "off before judging"
        )
    if hurried := [row for row in rows if not row["complete"]]:
        out.append(
            f"{_names(hurried)}: the time was over before all structures were tried; "
            "this is the best so far, and more minutes may improve it"
        )
    if mixed := [row for row in rows if "+" in row["mechanism"]]:
        apart = (
            "their values vary independently, and so they were told apart" if separated
            else "forecasts are not affected, but their coefficients can only be told apart by "
            "other trajectories"
        )  # fmt: skip
        out.append(f"{_names(mixed)} act together in the data: {apart}")
    if same:
        out.append(
            f"{', '.join(same)} do the same in these data, so that no forecast can tell their "
            "coefficients apart"
        )
    if [row["mechanism"] for row in rows] == ["none"]:
        out.append("the data say no coefficient that is not zero, so that none can be found")
    elif any(row["mechanism"] == "none" and row["terms"] for row in rows):
        out.append("some trajectories change although all their coefficients are zero or not said")
    once = [row for row in rows if row["environments"] == 1 and row["mechanism"] != "none"]
    if once and not mixed:
        out.append(f"{_names(once)}: one value only, and others are taken to act in proportion")
    return out


def _names(rows: Sequence[dict[str, Any]]) -> str:
    return ", ".join(row["mechanism"] for row in rows)


def alike(learned: Sequence[Learned], parameters: Tensor) -> list[str]:
    """Mechanisms of single coefficients whose operators are multiples or sums of each other."""
    single = [one for one in learned if "+" not in one.mechanism and one.mechanism != "none"]
    # A mechanism without terms has learned nothing, and is like no other.
    some = [one for one in single if any(used_terms(one).values())]
    if len(some) < 2:
        return []
    unit = parameters.abs().amax(0).clamp_min(1e-300)
    directions = []
    for one in some:
        _, _, v = torch.linalg.svd(parameters[list(one.environments)] / unit, full_matrices=False)
        directions.append(v[0])
    factors, size, _ = torch.linalg.svd(torch.stack(directions))
    if len(size) == len(some) and size[-1] > ALIKE:
        return []
    # The combination that is nearly nothing.
    least = factors[:, -1].abs()
    return [one.mechanism for one, x in zip(some, least.tolist(), strict=True) if x > 0.1]


def is_weak(one: Learned) -> bool:
    """Whether operators leave too much of the change, or noise hides what they leave.

    A mechanism without any term has learned nothing, even if nothing changes in its frames.
    """
    both = beyond_noise(one.error, one.noise), one.lasting
    hidden = float(one.noise.mean()) > MOST_NOISE
    empty = one.mechanism != "none" and not any(used_terms(one).values())
    large = any(float(x.mean()) > GOOD or float(x.max()) > 10 * GOOD for x in both)
    return empty or hidden or large


def quality_words(row: dict[str, Any]) -> str:
    """The error of a step in every environment of a mechanism."""
    words = []
    for one in row.get("quality", ()):
        values = " ".join(f"{k} = {v:.4g}" for k, v in one["coefficients"].items())
        mark = " (weak)" if max(one["beyond_noise"], one["lasting"]) > GOOD else ""
        mark = mark or (" (noise)" if one["error"] > GOOD else "")
        words.append(f"{values or 'none'}: {one['error']:.1e}{mark}")
    return ", ".join(words)


def structure_words(found: dict[str, Any]) -> str:
    """The choice, its rivals and their errors, as a table to read."""
    lines = ["mechanism  error of a step  terms (rivals and their errors)"]
    for row in found["mechanisms"]:
        rivals = ", ".join(f"{r['structure']} {r['error']:.2g}" for r in row["rivals"])
        terms = ", ".join(t or "identity" for t in row["terms"])
        lines.append(f"{row['mechanism']:9}  {row['error']:15.2g}  {terms} ({rivals})")
    lines.append("every environment and its error of a step")
    lines += [fill(quality_words(row), 100, subsequent_indent="  ") for row in found["mechanisms"]]
    lines.append(
        f"found in {found['seconds']:.1f} s; the error of a step is relative to its change, on "
        f"fields that were not fitted.\nverdict: {found['verdict']}"
    )
    return "\n".join(lines)
