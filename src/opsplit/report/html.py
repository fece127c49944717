"""One page about one forecast: a file that opens offline, on a desk or on a phone."""

from __future__ import annotations

import csv
import io
import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from opsplit._files import atomic
from opsplit._version import __version__
from opsplit.boundary import rounded
from opsplit.predict.rollout import Outcome
from opsplit.report.animation import plane_words
from opsplit.report.contents import Contents
from opsplit.report.pictures import channel_pictures, error_curves, film
from opsplit.report.template import number, render

if TYPE_CHECKING:
    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.predict.rollout import Forecast

GLOSSARY = {
    "Verdict": "explained, partly explained or unexplained; from the share of the change that one "
    "step leaves and from the skill.",
    "Skill": "one minus the error over the error of persistence: 1 is perfect, 0 is no better "
    "than repeating the last frame.",
    "NRMSE": "the norm of the error over the norm of the truth, over all forecast frames; lower "
    "is better.",
    "Composition": "a list of learned operators, each with a strength, whose flows are applied "
    "one after the other.",
    "Strength": "the factor in front of an operator.",
    "One-step error": "the mean relative error of one step between observed frames.",
    "Band": "with the stated probability the true value of a point lies inside.",
}


def write_report(
    path: Path,
    splitter: OperatorSplitter,
    forecast: Forecast,
    *,
    lower: Any = None,
    upper: Any = None,
    truth: Any = None,
    facts: dict[str, str],
    understood: Sequence[str],
    notes: Sequence[str] = (),
    channels: Sequence[str] | None = None,
    level: float = 0.9,
) -> Path:
    """Write what was read, found and forecast as one HTML file, whole or not at all.

    Arguments:
        path: the file to write.
        splitter: after `fit`.
        forecast: what it said would follow.
        lower: lower end of the band, shaped like the forecast; `upper` likewise.
        truth: what did follow, as many frames as there are; frames of NaN are missing.
        facts: where the page comes from: command, seed, commit. Versions are added. `file` and
            `date` are shown at the top.
        understood: sentences on what was read and what was guessed.
        notes: warnings, shown in a box.
        channels: names, if the splitter does not know them.
        level: probability that the band stands for.
    """
    page = Contents(splitter, forecast, lower, upper, truth, channels, level)
    text = html(page, facts, understood, notes).encode("utf-8", "replace")
    with atomic(path) as partial:
        partial.write_bytes(text)
    return path


def versions() -> dict[str, str]:
    return {
        "opsplit": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def html(
    page: Contents, facts: dict[str, str], understood: Sequence[str], notes: Sequence[str]
) -> str:
    """The whole page."""
    if page.outcome is not Outcome.FINITE:
        notes = [f"Status of the forecast: {page.status}.", *notes]
    # The headline and the sentences on what was read are not repeated.
    said = {page.splitter.verdict_.text, page.verdict.text, *understood}
    told = facts | {k: v for k, v in versions().items() if k not in facts}
    more = ""
    if len(page.channels) > page.shown:
        more = f"Pictures of the first {page.shown} of {len(page.channels)} channels."
    return render(
        {
            "verdict": page.verdict,
            "equation": page.splitter.equation_,
            "key": _key(page, facts),
            "notes": [note for note in dict.fromkeys(notes) if note not in said],
            "coefficients": _coefficients(page),
            "channels": [channel_pictures(page, i) for i in range(page.shown)],
            "more_channels": more,
            "axes": plane_words(page.grid) if page.grid.ndim > 1 else "",
            "film": film(page),
            "error": error_curves(page),
            "compositions": _compositions(page),
            "numbers": _numbers(page),
            "understood": list(dict.fromkeys(understood)),
            "read": _read(page),
            "glossary": GLOSSARY,
            "facts": [(k, v) for k, v in told.items() if k not in ("file", "date")],
        }
    )


def _key(page: Contents, facts: dict[str, str]) -> list[tuple[str, Any]]:
    """What a reader wants to know first."""
    rows: list[tuple[str, Any]] = []
    if "file" in facts:
        rows.append(("file", facts["file"]))
    best = next(iter(page.splitter.ranking_), None)
    rows.append(
        ("model", f"{best.title}, the best that was tried" if best else page.splitter.model)
    )
    rows.append(("date", facts.get("date") or f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"))
    last = f"{len(page.times)} frames until {page.times[-1]:.5g} after the last observed one"
    rows.append(("forecast", last))
    if page.total is not None:
        rows.append(("NRMSE", f"{number(page.total)} (persistence {number(page.still)})"))
    if page.verdict.skill is not None and math.isfinite(page.verdict.skill):
        rows.append(("skill", page.verdict.skill))
    rows.append(("one-step error", page.splitter.fit_error_))
    return rows


def _read(page: Contents) -> list[tuple[str, str]]:
    count, grid, window = len(page.before), page.grid, page.splitter.window
    steps = np.diff(page.past)
    even = np.allclose(steps, steps[0], rtol=1e-3)
    used = count if window is None else min(window, count)
    box = " × ".join(f"{x:.5g}" for x in grid.extent)
    ends = ", ".join(dict.fromkeys(map(rounded, grid.boundary)))
    rows = {
        "frames": f"{count}" + (f", the last {used} fitted" if used < count else ""),
        "time step": f"{np.median(steps):.6g}" + ("" if even else " (median; irregular)"),
        "grid": " × ".join(map(str, grid.shape)) + " points",
        "box": f"{box}, {ends}",
        "channels": ", ".join(page.channels),
    }
    if page.splitter.noise_:
        rows["white noise taken out"] = f"{page.splitter.noise_:.3g}"
    return list(rows.items())


def _compositions(page: Contents) -> dict[str, Any]:
    result = page.splitter.search_result_
    best = result.shown()
    names = [name for name in result.pick.coefficients if name in best[0]]

    def row(c: Any) -> list[Any]:
        mark = "pick" if c is result.pick else ""
        return [mark, len(c), c.fit_error, *(c.coefficients[n] for n in names), c.label]

    ranked = sorted({id(c): c for c in (result.pick, *result.ranked)}.values(),
                    key=lambda c: c.fit_error)  # fmt: skip
    return {
        "words": f"The best of every length. {result.strategy}: {result.status}.",
        "head": ["", "parts", "one-step error", *names, "composition"],
        "best": [[row.pop("pick") and "pick", *row.values()] for row in best],
        "ranked": [row(c) for c in islice(ranked, 20)] if len(ranked) > len(best) else [],
    }


def _coefficients(page: Contents) -> dict[str, Any]:
    rows = page.splitter.coefficient_rows()
    shown = {row["coefficient"] for row in rows}
    return {
        "head": ["", *list(rows[0])[1:]] if rows else [],
        "rows": [list(row.values()) for row in rows],
        "missing": page.splitter.no_intervals(),
        "idle": [name for name in page.splitter.coefficients_ if name not in shown],
    }


def _numbers(page: Contents) -> dict[str, Any]:
    """Every forecast frame in a row, to read and to copy."""
    head, columns = ["frame", "time"], [np.arange(1, len(page.times) + 1), page.times]
    for i, name in enumerate(page.channels):
        field = page.frames[:, i].flatten(1)
        head += [f"mean {name}", f"min {name}", f"max {name}"]
        columns += [field.mean(1).numpy(), field.amin(1).numpy(), field.amax(1).numpy()]
        if page.half is not None:
            head.append(f"half width {name}")
            columns.append(page.half[:, i].numpy())
    head += [f"error of {name}" for name in page.errors]
    columns += list(page.errors.values())
    rows = [[v.item() for v in row] for row in zip(*columns, strict=True)]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([head, *([_exact(v) for v in row] for row in rows)])
    return {"head": head, "rows": rows, "csv": stream.getvalue()}


def _exact(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:.9g}" if math.isfinite(value) else ""
