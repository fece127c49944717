"""The command line: one sub-command per stage."""

from __future__ import annotations

import sys
from typing import Annotated

import tyro

from opsplit._version import __version__
from opsplit.commands.benchmark import Benchmark
from opsplit.commands.calibrate import Calibrate
from opsplit.commands.check import Check
from opsplit.commands.common import Common
from opsplit.commands.demo import Demo
from opsplit.commands.describe import Describe
from opsplit.commands.extract import Extract
from opsplit.commands.figures import Figures
from opsplit.commands.fit import Identify, Predict, Search
from opsplit.commands.generate import Generate
from opsplit.commands.info import Info
from opsplit.commands.pretrain import Pretrain
from opsplit.commands.upgrade import Upgrade
from opsplit.errors import OpsplitError

Command = (
    Annotated[Demo, tyro.conf.subcommand("demo")]
    | Annotated[Predict, tyro.conf.subcommand("predict")]
    | Annotated[Identify, tyro.conf.subcommand("identify")]
    | Annotated[Search, tyro.conf.subcommand("search")]
    | Annotated[Describe, tyro.conf.subcommand("describe")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Generate, tyro.conf.subcommand("generate")]
    | Annotated[Pretrain, tyro.conf.subcommand("pretrain")]
    | Annotated[Extract, tyro.conf.subcommand("extract")]
    | Annotated[Calibrate, tyro.conf.subcommand("calibrate")]
    | Annotated[Benchmark, tyro.conf.subcommand("benchmark")]
    | Annotated[Figures, tyro.conf.subcommand("figures")]
    | Annotated[Info, tyro.conf.subcommand("info")]
    | Annotated[Upgrade, tyro.conf.subcommand("upgrade")]
)


def parse(arguments: list[str]) -> Common:
    """The command and its settings; wrong arguments end in a sentence and exit code 2."""
    command: Common = tyro.cli(
        Command,
        prog="opsplit",
        description="Forecast dynamics a surrogate was never trained on, "
        "by splitting them into operators it knows.",
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
    )
    return command


def main(arguments: list[str] | None = None) -> None:
    """Parse the arguments, run the command; what a user can put right ends in one sentence."""
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        print(f"opsplit {__version__}")
        return
    command = parse(given)
    try:
        command.run()
    except OpsplitError as error:
        print(f"opsplit: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print(f"opsplit: {error.strerror or error}{where}", file=sys.stderr)
        sys.exit(2)
    except MemoryError:
        print("opsplit: this needs more memory than there is; ask for less.", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("opsplit: interrupted", file=sys.stderr)
        sys.exit(130)
