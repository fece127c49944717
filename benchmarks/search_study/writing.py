"""Tables, numbers and figures of the report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import Row

from opsplit.report.figures import COLOURS, _figure


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *(list(row) for row in body)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def source(rows: list[Row]) -> str:
    """Which commands wrote the table above, and where."""
    commands = dict.fromkeys(f"`{row['command']}`" for row in rows)
    commits = dict.fromkeys(row["commit"] for row in rows)
    places = dict.fromkeys(row["hardware"] for row in rows)
    counts = dict.fromkeys(str(row["n"]) for row in rows if row["n"] > 1)
    many = f"{'/'.join(counts)} trajectories, " if counts else ""
    return (
        f"Written by {', '.join(commands)}; {many}"
        f"seed {rows[0]['seed']}, commit {', '.join(commits)}, {', '.join(places)}."
    )


def number(value: float | None, digits: int = 4) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}f}" if not 0 < abs(value) < 10**-digits else f"{value:.1e}"


def cell(row: Row) -> str:
    """Mean, median, and how many forecasts blew up."""
    lost = f" [{row['diverged']}]" if row["diverged"] else ""
    return f"{number(row['nrmse'])} ({number(row['median'])}){lost}"


def pick(rows: list[Row], **wanted: Any) -> list[Row]:
    return [r for r in rows if all(r["item"].get(k) == v for k, v in wanted.items())]


def slope(x: Iterable[float], y: Iterable[float]) -> float:
    """The exponent of a power law through the points."""
    return float(np.polyfit(np.log(list(x)), np.log(list(y)), 1)[0])


def plot(path: Path, panels: list[dict[str, Any]]) -> str:
    """Lines on logarithmic axes, one panel each; returns the Markdown that shows them."""
    figure = _figure(4.6 * len(panels), 3.8)
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        for name, (x, y) in panel["lines"].items():
            colour = COLOURS.get(name.split(",")[0])
            style = "--" if name.endswith(("parts", "denoised", "published")) else "-"
            axes.plot(x, y, style, marker="o", ms=4, label=name, color=colour)
        axes.set(xscale="log", yscale=panel.get("scale", "log"))
        axes.set(xlabel=panel["x"], ylabel=panel["y"], title=panel["title"])
        axes.xaxis.set_minor_formatter("")
        axes.grid(alpha=0.3, which="both")
        axes.legend(fontsize=7)
    figure.savefig(path)
    return f"![{panels[0]['title']}](search/{path.name})"
