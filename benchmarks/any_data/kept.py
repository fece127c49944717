"""Results on disk, and the page that shows them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from opsplit._files import write_json
from opsplit._origin import origin

FOLDER = Path(__file__).parents[2] / "docs" / "results" / "any-data"
Kept = dict[str, Any]
"""`{"rows": [...], "n": ..., "command": ..., "seed": ..., "commit": ..., "hardware": ...}`"""


def keep(
    args: argparse.Namespace, rows: list[dict[str, Any]], before: str = "", **more: Any
) -> None:
    """Write the rows of a part, with the command that made them.

    Arguments:
        before: commands that made some of the rows.
    """
    made = origin(args.seed, program="python benchmarks/any_data")
    if before and before != made["command"]:
        made["command"] = f"{before}; then {made['command']}"
    kept = {"rows": rows, "n": args.n, **more, **made}
    file = args.out / f"{args.part}.json"
    write_json(file, kept)
    print(f"wrote {file}")


def read_kept(folder: Path, part: str) -> Kept | None:
    """The results of a part, if it was measured."""
    file = folder / f"{part}.json"
    return json.loads(file.read_text()) if file.exists() else None


def write_page(folder: Path, parts: Mapping[str, ModuleType]) -> None:
    """`any-data.md` beside the folder, from all results in it."""
    text = ["# Any data", INTRODUCTION]
    for name, module in parts.items():
        kept = read_kept(folder, name)
        if kept is not None:
            text += [*module.section(kept), source(kept)]
    page = folder.with_name(f"{folder.name}.md")
    page.write_text("\n\n".join(text) + "\n")
    print(f"wrote {page}")


INTRODUCTION = """Written by `python benchmarks/any_data report` from the files in
`docs/results/any-data/`. Every section names the command that measured it.

The section on space was measured with the present search, on an idle machine. All other sections
are of before the last change of the search, which takes a few more steps to the best strengths.
The road, the conventions of other groups, the honest failures and the section on space have the
seed 27182, the files 31; both were used for nothing before. Of the first table NA+D, NA+Disp,
D+Disp and all3 of `combined` have 27182 too, with 16 trajectories instead of 32; `alpha` and
`gamma` were not measured again. The rows of `advection-diffusion`, `gray-scott`, `navier-stokes`
and the walls have the seed 90417, the strangers the seed 1. Of a command that is a chain, the last
part made the rows of its seed. Except for the section on space the machine had much other work to
do: seconds of the clock are several times too large, and CPU seconds may be."""


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *(list(row) for row in body)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def missed(words: str, names: Iterable[str]) -> str:
    """One line of a list: an aim, and who misses it."""
    several = ", ".join(dict.fromkeys(names))
    return f"- {words}: missed by {several}" if several else f"- {words}: met by all"


def number(value: float | None, digits: int = 3) -> str:
    """A number to read; nothing where there is none."""
    return "" if value is None else f"{value:.{digits}g}"


def source(kept: Kept) -> str:
    """Which command wrote a section, and where."""
    return (
        f"Measured by `{kept['command']}`; seed {kept['seed']}, commit {kept['commit']}, "
        f"{kept['hardware']}."
    )
