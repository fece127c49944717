"""The command line: one sub-command per stage."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

# Only what is imported at once: before `main` begins, an interrupt ends in a traceback.
from opsplit._interrupts import waiting_interrupts
from opsplit._text import plain, safe_streams, say
from opsplit._version import __version__
from opsplit.errors import OpsplitError, nearest

if TYPE_CHECKING:
    from opsplit.commands.common import Common

COMMANDS = {
    "demo": "opsplit.commands.demo:Demo",
    "app": "opsplit.commands.app:App",
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
    import tyro

    from opsplit.commands.help import lengths, overview, plain_flags

    name = arguments[0] if arguments else "--help"
    if name in ("--help", "-h", "help"):
        say(overview({one: command_class(one) for one in COMMANDS}))
        sys.exit(0)
    if name not in COMMANDS:
        asked = f"The first word is a command, not {name!r}."
        known = f"The commands are {', '.join(COMMANDS)}; opsplit --help explains them."
        _end(f"{asked}{nearest(name, COMMANDS)} {known}", 2)
    # Only the command that was asked for is imported: the others take as long again.
    chosen, rest = command_class(name).for_arguments(arguments[1:])
    rest = lengths(rest)
    # Nobody types None: an option that is not given is left out.
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.AvoidSubcommands, tyro.conf.DisallowNone)
    return tyro.cli(
        chosen, prog=f"opsplit {name}", args=rest, config=config, registry=plain_flags()
    )


@contextmanager
def _importing() -> Iterator[None]:
    """Inside, an interrupt waits for the end: half of a library would be taken for the whole."""
    with waiting_interrupts(), _no_collection():
        yield


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python from looking for garbage as long as torch is not imported.

    Imports make many objects and hardly any garbage. Looking for garbage in between, and later
    among all that was imported, would take a tenth of the time of a short command.
    """
    if "torch" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _load(command: Common) -> None:
    """Refuse a wrong flag, then import what every command computes with, which takes a second."""
    command.check()
    waiting = sys.stderr.isatty() and "torch" not in sys.modules
    if waiting:
        sys.stderr.write("opsplit: loading ...\r")
        sys.stderr.flush()
    import_module("torch")
    if waiting:
        sys.stderr.write(" " * 20 + "\r")


def _run(arguments: list[str]) -> None:
    """Parse the arguments and run the command; a refused one leaves no folder behind."""
    with _importing():
        from opsplit._files import leave_no_empty_folder

        command = parse(arguments)
    with leave_no_empty_folder(command.out):
        with _importing():
            _load(command)
        command.run()


def main(arguments: list[str] | None = None) -> None:
    """Parse the arguments, run the command; what a user can put right ends in one sentence."""
    safe_streams()
    if os.environ.get("NO_COLOR"):
        # The parser knows terminals without colours by this name.
        os.environ["TERM"] = "dumb"
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        say(f"opsplit {__version__}")
        return
    try:
        try:
            _run(given)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough. Python flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OpsplitError as error:
        _end(str(error), 2)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        _end(plain(f"{error.strerror or error}{where}"), 2)
    except MemoryError:
        _end("this needs more memory than there is; ask for less.", 2)
    except KeyboardInterrupt as stop:
        # A command that can be continued says how.
        _end(": ".join(["interrupted", *map(str, stop.args)]), 130)


def _end(words: str, code: int) -> NoReturn:
    """Say why the command ends, if anybody can hear it."""
    try:
        say(f"opsplit: {words}", sys.stderr)
    except OSError:
        # A full disk, or a reader that is gone. Python flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.exit(code)
