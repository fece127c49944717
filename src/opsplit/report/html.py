"""One page about one forecast: a file that opens offline, on a desk or on a phone."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import platform
from collections.abc import Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from opsplit._files import atomic
from opsplit._version import __version__
from opsplit.predict.rollout import Outcome
from opsplit.report.contents import Contents
from opsplit.report.elements import bullets, exact, number, table
from opsplit.report.page import SCRIPT, STYLE
from opsplit.report.pictures import error_curves, pictures

if TYPE_CHECKING:
    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.predict.rollout import Forecast


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
        facts: where the page comes from: command, seed, commit. Versions are added.
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
    equation = page.splitter.equation_
    if page.outcome is not Outcome.FINITE:
        notes = [f"Status of the forecast: {page.status}.", *notes]
    told = facts | {k: v for k, v in versions().items() if k not in facts}
    sections = {
        "What was read": _read(page, understood),
        "Compositions": _compositions(page),
        "Coefficients": _coefficients(page),
        "Observation and forecast": pictures(page),
        "Error": error_curves(page),
        "Numbers": _numbers(page),
        "Where this page comes from": table(["", ""], told.items(), "facts"),
    }
    box = f'<aside class="notes" role="note"><h2>Notes</h2>{bullets(notes)}</aside>'
    parts = [f"<section><h2>{k}</h2>{v}</section>" for k, v in sections.items() if v]
    parts.insert(1, box if notes else "")
    last = f"{len(page.times)} frames until {page.times[-1]:.5g} after the last observed one"
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    # Nothing is fetched, and no script runs but the one below.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    policy += f"script-src 'sha256-{digest}'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Forecast: {escape(equation)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<p class="kicker">opsplit forecast</p>
<h1>{escape(equation)}</h1>
<p class="verdict {page.verdict.level.value}"><strong>{escape(page.verdict.text)}</strong></p>
<p>{escape(last)}. One step of the composition misses the observed frames by
{number(page.splitter.fit_error_)} (relative).</p>
</header>
{"".join(parts)}
</main>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _read(page: Contents, understood: Sequence[str]) -> str:
    count, grid, window = len(page.before), page.grid, page.splitter.window
    steps = np.diff(page.past)
    even = np.allclose(steps, steps[0], rtol=1e-3)
    used = count if window is None else min(window, count)
    box = " × ".join(f"{x:.5g}" for x in grid.extent)
    rows = {
        "frames": f"{count}" + (f", the last {used} fitted" if used < count else ""),
        "time step": f"{np.median(steps):.6g}" + ("" if even else " (median; irregular)"),
        "grid": " × ".join(map(str, grid.shape)) + " points",
        "box": f"{box}, {', '.join(dict.fromkeys(grid.boundary))}",
        "channels": ", ".join(page.channels),
    }
    if page.splitter.noise_:
        rows["white noise taken out"] = f"{page.splitter.noise_:.3g}"
    return bullets(understood) + table(["", ""], rows.items(), "facts")


def _compositions(page: Contents) -> str:
    result = page.splitter.search_result_
    names = list(result.pick.coefficients)
    head = ["", "parts", "one-step error", *names, "composition"]

    def row(c: Any) -> list[Any]:
        mark = "pick" if c is result.pick else ""
        return [mark, len(c), c.fit_error, *(c.coefficients[n] for n in names), c.label]

    best = [
        [r["pick"] and "pick", r["parts"], r["fit_error"], *(r[n] for n in names),
         r["composition"]]
        for r in page.splitter.search_table_
    ]  # fmt: skip
    ranked = sorted({id(c): c for c in (result.pick, *result.ranked)}.values(),
                    key=lambda c: c.fit_error)  # fmt: skip
    more = ""
    if len(ranked) > len(best):
        rows = [row(c) for c in islice(ranked, 20)]
        more = f"<details><summary>The best {len(rows)} of all lengths</summary>"
        more += table(head, rows, "ranked") + "</details>"
    words = f"The best of every length. {result.strategy}: {result.status}."
    return f"<p>{escape(words)}</p>" + table(head, best, "compositions") + more


def _coefficients(page: Contents) -> str:
    found, sure = page.splitter.coefficients_, page.splitter.coefficient_intervals_
    if not found:
        return "<p>The operators of this model have no known coefficients.</p>"
    if not sure:
        words = "<p>No intervals: the model is not calibrated for this search and such data.</p>"
        return words + table(["", "value"], found.items(), "coefficients")
    rows = [[name, value, *sure.get(name, (None, None))] for name, value in found.items()]
    return table(["", "value", "90 % from", "to"], rows, "coefficients")


def _numbers(page: Contents) -> str:
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
    writer.writerows([head, *([exact(v) for v in row] for row in rows)])
    return (
        '<p><button type="button" id="copy">Copy as CSV</button></p>'
        + table(head, rows, "numbers")
        + f'<pre id="csv" class="scroll" hidden>{escape(stream.getvalue())}</pre>'
    )
