"""Flags for the settings that only one search has, and a quick look at files."""

from __future__ import annotations

import zipfile
from dataclasses import MISSING, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import tyro

from opsplit.search.registry import SEARCHES

C = TypeVar("C")


def with_search_flags(command: type[C], arguments: list[str]) -> type[C]:
    """The command, with the settings of the chosen search as flags where one of them is given.

    Without such a flag the search is not imported, so that a wrong flag is refused at once.
    """
    known = {f.name for f in fields(command)}  # type: ignore[arg-type]
    given = [a[2:].partition("=")[0].replace("-", "_") for a in arguments if a.startswith("--")]
    if not set(given) - known - {"help"}:
        return command
    chosen = SEARCHES[_strategy(arguments)]
    hints = get_type_hints(chosen, include_extras=True)
    new: list[tuple[str, Any, Any]] = [
        # `--reuse False`: a switch could only turn on.
        (f.name, Annotated[hints[f.name], tyro.conf.FlagConversionOff], field(default=f.default))
        for f in fields(chosen)
        if f.name not in known and f.default is not MISSING
    ]
    made: type[C] = make_dataclass(
        command.__name__,
        new,
        bases=(command,),
        frozen=True,
        namespace={"__doc__": command.__doc__, "__module__": command.__module__},
    )
    return made


def _strategy(arguments: list[str]) -> str:
    """The search that the arguments name, or the default one."""
    for i, word in enumerate(arguments):
        name, _, value = word.partition("=")
        if name == "--strategy":
            found = value or (arguments[i + 1] if i + 1 < len(arguments) else "")
            return found if found in SEARCHES else "pursuit"
    return "pursuit"


def bare_array(file: Path) -> bool:
    """Whether a file is one array and nothing else, so that it cannot say its time step."""
    if file.suffix == ".npy":
        return file.is_file()
    if file.suffix != ".npz" or not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return len(archive.namelist()) == 1
