"""Small pieces of Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from common import Row


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    names = list(head)
    escaped = [[text.replace("|", "\\|") for text in row] for row in body]
    lines = [names, ["---"] * len(names), *escaped]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 0.01 else f"{value:.1e}"


def percent(value: float | None) -> str:
    if value is None:
        return ""
    return f"{100 * value:.2g} %" if value < 0.1 else f"{100 * value:.0f} %"


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def cell(row: Row | None) -> str:
    """The mean error, with what went wrong."""
    if not row:
        return ""
    if "failure" in row:
        return f"failed: {row['failure'][:80]}"
    lost = f" ({row['diverged']} of {row['n']} diverged)" if row.get("diverged") else ""
    return (number(row["nrmse"]) if row["nrmse"] is not None else "") + lost


def rival(row: Row | None) -> str:
    """The mean error, with the minutes of training and the number of test trajectories."""
    return f"{cell(row)}; {row['minutes']:g} min, n {row['n']}" if row and "n" in row else cell(row)


def ratio(row: Row | None) -> str:
    if not row or not row.get("nrmse"):
        return ""
    value = row["copying"] / row["nrmse"]
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
