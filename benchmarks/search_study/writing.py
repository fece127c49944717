"""Tables, numbers and figures of the report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from common import Row

from opsplit.report.figures import COLOURS, _figure

OTHERS = ("#333333", "#009e73", "#cc79a7", "#7f3c8d", "#a6761d", "#66a61e")
"""Colours of lines that are no method of ours."""


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


def _plain_numbers(axis: Any) -> None:
    """Ticks that can be read: 0.2, 0.5, 1 instead of powers, where the axis is short."""
    from matplotlib.ticker import LogLocator

    axis.set_minor_formatter("")
    low, high = axis.get_view_interval()
    if 0 < low < high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")


def plot(path: Path, panels: list[dict[str, Any]]) -> str:
    """Lines on logarithmic axes, one panel each; returns the Markdown that shows them."""
    most = max(len(panel["lines"]) for panel in panels)
    figure = _figure(4.6 * len(panels) + (1.6 if len(panels) == 1 else 0), 3.8 + 0.13 * most)
    for place, panel in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), place)
        others = iter(OTHERS)
        colours: dict[str, str] = {}
        for name, (x, y) in panel["lines"].items():
            # What was denoised has the colour of the same method without.
            own = name.removesuffix(", denoised")
            if own not in colours:
                colours[own] = COLOURS.get(name.split(",")[0]) or next(others)
            dashed = name.endswith(("parts", "denoised", "published"))
            seen = [value if value > 0 else float("nan") for value in y]
            axes.plot(x, seen, "--" if dashed else "-", marker="s" if dashed else "o", ms=4,
                      label=name, color=colours[own])  # fmt: skip
        axes.set(xscale="log", yscale=panel.get("scale", "log"))
        axes.set(xlabel=panel["x"], ylabel=panel["y"], title=panel["title"])
        for axis in (axes.xaxis, axes.yaxis):
            _plain_numbers(axis)
        if "ticks" in panel:
            axes.set_xticks(list(panel["ticks"]), list(panel["ticks"].values()))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.17),
                    handlelength=3, frameon=False)  # fmt: skip
    figure.savefig(path)
    return f"![{panels[0]['title']}](search/{path.name})"
