"""Help pages: the overview of all commands, and how the flags of one command are explained."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.constructors import (
    ConstructorRegistry,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from opsplit._version import __version__
from opsplit.commands.common import Common
from opsplit.commands.spread import Spread
from opsplit.errors import nearest

GROUPS = {
    "See it work": ("demo", "app"),
    "Your data": ("describe", "check", "predict", "identify", "search"),
    "Your equation": ("generate", "pretrain", "extract", "calibrate", "upgrade"),
    "Measure": ("benchmark", "figures"),
    "Look up": ("info",),
}
"""Commands by what they are for."""


def overview(commands: Mapping[str, type[Common]]) -> str:
    """The page of all commands, a line each."""
    lines = [
        "usage: opsplit COMMAND [FLAGS]",
        "",
        "Forecast dynamics a surrogate was never trained on, by splitting them into operators it "
        "knows.",
        f"This is version {__version__} (opsplit --version).",
    ]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:", *(_line(name, commands[name]) for name in names)]
    return "\n".join(
        (
            *lines,
            "",
            "Begin with",
            "  opsplit demo",
            "  opsplit predict frames.npy --dt 0.101 --extent 16 --report forecast.html",
            "opsplit COMMAND --help explains a command and its flags.",
        )
    )


def _line(name: str, command: type[Common]) -> str:
    """The first sentence of a command."""
    first = inspect.cleandoc(command.__doc__ or "").split("\n")[0]
    return textwrap.fill(first, 79, initial_indent=f"  {name:<11}", subsequent_indent=" " * 13)


def lengths(arguments: Sequence[str]) -> list[str]:
    """Arguments in which `--extent 1,2`, as people write it, is `--extent 1 2`.

    Examples:
        >>> from opsplit.commands.help import lengths
        >>> lengths(["--extent", "1,2", "--axes", "t,x,y"])
        ['--extent', '1', '2', '--axes', 't,x,y']
    """
    found: list[str] = []
    flag = ""
    for word in arguments:
        flag = word if word.startswith("--") else flag
        found += word.replace(",", " ").split() if flag == "--extent" else [word]
    return found


def missing_file(file: Path) -> str:
    """What to say about a file that is not there."""
    try:
        beside = [entry.name for entry in file.absolute().parent.iterdir()]
    except OSError:
        beside = []
    return f"No such file: {file}.{nearest(file.name, beside)}"


def _default(label: str) -> str:
    """What a flag is if it is not given; what is nothing, or off, goes without saying."""
    return "" if label in ("None", "False", "True", "", "''") else f"(default: {label})"


def _joined(text: str | Callable[[], str | None] | None) -> str | None:
    """A help text without the line breaks of the source."""
    found = text() if callable(text) else text
    return None if found is None else " ".join(found.split())


def plain_flags() -> ConstructorRegistry:
    """Rules for the parser: flags of the command first, those that all commands have last."""
    registry = ConstructorRegistry()
    inner: list[Any] = []

    @registry.struct_rule
    def rule(info: StructTypeInfo) -> StructConstructorSpec | None:
        if any(info is seen for seen in inner):
            return None
        inner.append(info)
        found = ConstructorRegistry.get_struct_spec(info)
        if not isinstance(found, StructConstructorSpec):
            return None
        without = info.type.without if issubclass(info.type, Common) else ()
        flags = [_flag(flag) for flag in found.fields if flag.name not in without]
        flags.sort(key=lambda flag: _rank(info.type, flag.name))
        return replace(found, fields=tuple(flags))

    return registry


def _flag(flag: StructFieldSpec) -> StructFieldSpec:
    kind: Any = Annotated[flag.type, tyro.conf.arg(help_behavior_hint=_default)]
    return replace(flag, type=kind, helptext=partial(_joined, flag.helptext))


def _rank(command: type, name: str) -> int:
    """0 for flags that the command declares itself, then those of its kind, then of all."""
    if not issubclass(command, Common):
        return 0
    if name in command.__annotations__ and command is not Common:
        return 0
    shared = (Spread, Common)
    return 1 + next((i for i, c in enumerate(shared, 1) if name in c.__annotations__), 0)
