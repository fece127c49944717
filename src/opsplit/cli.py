"""The command line: one sub-command per stage."""

from __future__ import annotations

import functools
import gc
import operator
import sys
from importlib import import_module
from typing import Annotated, Any

import tyro

from opsplit._text import plain, safe_streams, say
from opsplit._version import __version__
from opsplit.commands.common import Common
from opsplit.errors import OpsplitError

COMMANDS = {
    "demo": "opsplit.commands.demo:Demo",
    "predict": "opsplit.commands.fit:Predict",
    "identify": "opsplit.commands.fit:Identify",
    "search": "opsplit.commands.fit:Search",
    "describe": "opsplit.commands.describe:Describe",
    "check": "opsplit.commands.check:Check",
    "generate": "opsplit.commands.generate:Generate",
    "pretrain": "opsplit.commands.pretrain:Pretrain",
    "extract": "opsplit.commands.extract:Extract",
    "calibrate": "opsplit.commands.calibrate:Calibrate",
    "benchmark": "opsplit.commands.benchmark:Benchmark",
    "figures": "opsplit.commands.figures:Figures",
    "info": "opsplit.commands.info:Info",
    "upgrade": "opsplit.commands.upgrade:Upgrade",
}
"""Where every command lives, in the order of the help page."""


def command_class(name: str) -> type[Common]:
    """The command of that name."""
    module, _, attribute = COMMANDS[name].partition(":")
    found: type[Common] = getattr(import_module(module), attribute)
    return found


def parse(arguments: list[str]) -> Common:
    """The command and its settings; wrong arguments end in a sentence and exit code 2."""
    name = arguments[0] if arguments else ""
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.AvoidSubcommands)
    if name in COMMANDS:
        # Only the command that was asked for is imported: the others take as long again.
        chosen, rest = command_class(name), arguments[1:]
        chosen, rest = chosen.for_arguments(rest)
        return tyro.cli(chosen, prog=f"opsplit {name}", args=rest, config=config)
    each = [Annotated[command_class(one), tyro.conf.subcommand(one)] for one in COMMANDS]
    union: Any = functools.reduce(operator.or_, each)
    found: Common = tyro.cli(
        union,
        prog="opsplit",
        description="Forecast dynamics a surrogate was never trained on, "
        "by splitting them into operators it knows.",
        args=arguments,
        config=config,
    )
    return found


def _start(arguments: list[str]) -> Common:
    """Parse the arguments and import what every command computes with.

    Imports make many objects and hardly any garbage. Looking for garbage in between, and later
    among all that was imported, would take a tenth of the time of a short command.
    """
    if "torch" in sys.modules:
        return parse(arguments)
    gc.disable()
    try:
        command = parse(arguments)
        # A wrong flag is refused before the long import.
        command.check()
        import_module("torch")
    finally:
        gc.freeze()
        gc.enable()
    return command


def main(arguments: list[str] | None = None) -> None:
    """Parse the arguments, run the command; what a user can put right ends in one sentence."""
    safe_streams()
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        say(f"opsplit {__version__}")
        return
    try:
        _start(given).run()
    except OpsplitError as error:
        say(f"opsplit: {error}", sys.stderr)
        sys.exit(2)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        say(plain(f"opsplit: {error.strerror or error}{where}"), sys.stderr)
        sys.exit(2)
    except MemoryError:
        say("opsplit: this needs more memory than there is; ask for less.", sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        say("opsplit: interrupted", sys.stderr)
        sys.exit(130)
