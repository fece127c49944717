"""One page about an ensemble: distributions of coefficients and errors, and every trajectory."""

from __future__ import annotations

import io
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from opsplit._files import write_text
from opsplit._text import printable
from opsplit.report.animation import data_uri
from opsplit.report.figures import _figure
from opsplit.report.table import columns_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LISTED = 2000
"""Trajectories in the list of a page; the table has them all."""
ERRORS = {
    "nrmse": "NRMSE of the forecast",
    "fit_error": "one-step error",
    "unexplained": "unexplained share",
}
"""Columns that are errors, in words."""
PLAIN = {
    "item", "file", "trajectory", "status", "reason", "equation", "skill", "forecast_status",
    "forecast", "seconds", *ERRORS,
}  # fmt: skip
"""Columns that are no coefficients."""

Row = Mapping[str, Any]


def write_ensemble_report(path: Path, rows: Sequence[Row], forecasts: Path | None) -> Path:
    """Write the page; `forecasts` is the folder that the links lead to."""
    counts = Counter(str(row["status"]) for row in rows)
    summary = ", ".join(f"{count} {status}" for status, count in counts.items())
    parts = [
        _section("Coefficients", _histograms(rows, coefficients(rows), "identified coefficients")),
        _section("Errors", _histograms(rows, list(ERRORS), "errors")),
        _section("Numbers", _summary(rows)),
        _section("Trajectories", _list(rows, path, forecasts)),
    ]
    write_text(
        path,
        f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>Ensemble: {len(rows)} trajectories</title>
<style>{(Path(__file__).parent / "page.css").read_text()}</style>
</head>
<body>
<main>
<header>
<p class="kicker">opsplit ensemble</p>
<h1 class="{_worst(counts)}">{len(rows)} trajectories</h1>
<p><strong>{escape(summary)}</strong></p>
</header>
{"".join(parts)}
</main>
</body>
</html>
""",
    )
    return path


def _worst(counts: Counter[str]) -> str:
    """The colour of the page: that of its worst trajectories."""
    if counts.keys() <= {"explained"}:
        return "explained"
    return "partly" if counts.keys() <= {"explained", "partly"} else "unexplained"


def coefficients(rows: Sequence[Row]) -> list[str]:
    """The names of the coefficients."""
    ends = (" low", " high", " stored")
    return [name for name in columns_of(rows) if name not in PLAIN and not name.endswith(ends)]


def values(rows: Sequence[Row], name: str) -> np.ndarray:
    """The numbers of a column."""
    held = [row.get(name) for row in rows]
    numbers = [float(x) for x in held if isinstance(x, int | float) and math.isfinite(x)]
    return np.asarray(numbers)


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""


def _histograms(rows: Sequence[Row], names: Sequence[str], words: str) -> str:
    there = {name: values(rows, name) for name in names}
    there = {name: held for name, held in there.items() if len(held)}
    if not there:
        return ""
    figure: Figure = _figure(3.2 * min(3, len(there)), 2.4 * -(-len(there) // 3))
    axes = figure.subplots(-(-len(there) // 3), min(3, len(there)), squeeze=False).ravel()
    for ax in axes[len(there) :]:
        ax.set_axis_off()
    for ax, (name, held) in zip(axes, there.items(), strict=False):
        logarithmic = name in ERRORS and bool((held > 0).all()) and held.max() > 10 * held.min()
        low, high = float(held.min()), float(held.max())
        if logarithmic:
            edges = np.geomspace(low, high * (1 + 1e-9), 31)
            ax.set_xscale("log")
        else:
            margin = 1e-9 * max(abs(low), abs(high), 1.0)
            edges = np.linspace(low - margin, high + margin, 31)
        ax.hist(held, edges, color="#0072b2")
        ax.set_xlabel(ERRORS.get(name, name))
        ax.set_ylabel("trajectories")
        ax.yaxis.get_major_locator().set_params(integer=True)
    said = escape(f"Distribution of the {words} over the trajectories.")
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=160)
    uri = data_uri(stream.getvalue())
    return f'<figure><img src="{uri}" alt="{said}"><figcaption>{said}</figcaption></figure>'


def _summary(rows: Sequence[Row]) -> str:
    lines = []
    for name in (*coefficients(rows), *ERRORS, "skill", "seconds"):
        held = values(rows, name)
        if len(held):
            marks = np.quantile(held, (0.05, 0.5, 0.95)).tolist()
            lines.append([ERRORS.get(name, name), len(held), float(held.mean()), *marks])
    head = ["", "trajectories", "mean", "5 %", "median", "95 %"]
    top = "".join(f'<th scope="col">{h}</th>' for h in head)
    body = "".join(f"<tr>{''.join(f'<td>{number(x)}</td>' for x in line)}</tr>" for line in lines)
    made = f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{made}</div>' if lines else ""


def number(value: Any) -> str:
    """A value of a table cell."""
    if isinstance(value, float):
        return f"{value:.5g}" if math.isfinite(value) else "–"
    return escape("" if value is None else str(value))


def _list(rows: Sequence[Row], path: Path, forecasts: Path | None) -> str:
    """Every trajectory with a link to its forecast; those that failed first."""
    names = [*coefficients(rows), "nrmse", "unexplained"]
    ordered = sorted(rows, key=lambda row: row["reason"] is None)[:LISTED]
    lines = []
    for row in ordered:
        shown = escape(printable(row["item"]))
        if forecasts is not None and row.get("forecast"):
            target = (forecasts / str(row["forecast"])).relative_to(path.parent)
            shown = f'<a href="{quote(os.fsencode(target))}">{shown}</a>'
        cells = "".join(f'<td class="n">{number(row.get(name))}</td>' for name in names)
        said = escape(str(row["reason"] or row.get("equation") or ""))
        lines.append(
            f"<tr><td>{shown}</td><td>{escape(str(row['status']))}</td>{cells}<td>{said}</td></tr>"
        )
    titles = ("trajectory", "verdict", *(ERRORS.get(name, name) for name in names), "equation")
    head = "".join(f'<th scope="col">{escape(h)}</th>' for h in titles)
    more = f"<p>The first {LISTED} of {len(rows)}.</p>" if len(rows) > LISTED else ""
    return (
        f'{more}<div class="scroll" tabindex="0" role="region" aria-label="trajectories">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )
