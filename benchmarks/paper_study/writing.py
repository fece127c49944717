"""Cells, tables and origins of the page."""

from __future__ import annotations

import json
from collections.abc import Iterable

from common import RESULTS, Row

NOT = "not measured"


def cell(row: Row | None) -> str:
    if row is None:
        return NOT
    blown = f" [{row['diverged']}]" if row["diverged"] else ""
    return f"{error(row['nrmse'])} ({error(row['median'])}){blown}"


def error(value: float) -> str:
    """Four decimals, or the order of what they would hide."""
    return f"{value:.4f}" if value >= 1e-3 else f"{value:.0e}"


def table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    return [line(head), "|" + "---|" * len(head), *map(line, rows)]


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def origin(part: str, rows: list[Row]) -> list[str]:
    """Where numbers come from, or what to type to have some."""
    if not rows:
        return ["", f"Not measured yet: `python benchmarks/paper_study {part}`."]
    last, commands = rows[-1], list(dict.fromkeys(r["command"] for r in rows))
    commits = list(dict.fromkeys(r["commit"] for r in rows))
    shown = commands if len(commands) < 4 else [commands[-1], f"{len(commands) - 1} like it"]
    words = ", ".join(c if c.endswith("like it") else f"`{c}`" for c in shown)
    earlier = f" and {len(commits) - 1} before it" if len(commits) > 1 else ""
    return ["", f"{words}, commit {last['commit']}{earlier}, {last['hardware']}."]


def pick(rows: list[Row], **wanted: object) -> Row | None:
    """The line that was measured last with these facts."""
    found = [r for r in rows if all(r["item"].get(k) == v for k, v in wanted.items())]
    return found[-1] if found else None


def records() -> list[Row]:
    """The records of the main table, if they are there."""
    file = RESULTS / "method.json"
    return json.loads(file.read_text()) if file.exists() else []
