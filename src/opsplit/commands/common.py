"""What all commands share: flags, finished work, printing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from opsplit._device import check_device
from opsplit._files import fingerprint, own
from opsplit._text import say, to_json
from opsplit.commands.record import Record
from opsplit.errors import OpsplitError

NOT_SETTINGS = {"json", "out", "force", "report", "workers", "cluster", "item_minutes"}
"""Where a result goes, not what it is."""


@dataclass(frozen=True)
class Common:
    """Flags of every command."""

    out: Path | None = None
    """Folder for what the command writes."""
    seed: int = 0
    """Seed of everything random."""
    device: str = "cpu"
    """Where to compute: cpu, cuda, cuda:1, ..."""
    json: Annotated[bool, tyro.conf.arg(help="Print the result as JSON.")] = False
    force: bool = False
    """Do the work again although it is finished, and replace what --out holds."""
    record: ClassVar[str] = "opsplit.json"
    """The settings and the result, in --out beside what was made."""
    accumulates: ClassVar[bool] = False
    """Whether runs with other settings add to the same folder."""

    without: ClassVar[tuple[str, ...]] = ()
    """Flags of every command that this one does not have, because they would do nothing."""

    @classmethod
    def for_arguments(cls, arguments: list[str]) -> tuple[type[Common], list[str]]:
        """The command whose flags these arguments are, and the arguments that are flags of it."""
        return cls, arguments

    def run(self) -> None:
        """Do what the command says."""
        raise OpsplitError("This command does nothing by itself.")

    def replaces(self) -> tuple[Path, ...]:
        """Files and folders that the command writes, which must not be there or be its own."""
        return () if self.out is None else (self.out,)

    def settings(self) -> dict[str, Any]:
        """Everything that decides the result."""
        held: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return {k: v for k, v in held.items() if k not in NOT_SETTINGS}

    def check(self) -> None:
        """Refuse what cannot work before anything is written."""
        if not 0 <= self.seed < 2**31:
            raise OpsplitError(f"--seed must lie in 0..{2**31 - 1}, got {self.seed}.")
        check_device(self.device)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in POSITIVE or value is None:
                continue
            if not (math.isfinite(value) and value > 0):
                flag = "--" + field.name.replace("_", "-")
                raise OpsplitError(f"{flag} must be a positive number, got {value}.")
            if isinstance(value, int) and value > MOST:
                flag = "--" + field.name.replace("_", "-")
                raise OpsplitError(f"{flag} must be at most {MOST}, got {value}.")
        # The word None is what a script prints for a folder that it does not have.
        if str(self.out) == "None" and (self.out or type(self).out) is not None:
            raise OpsplitError("This command writes files; give --out a folder instead of None.")
        if self.out is not None:
            try:
                self.out.mkdir(parents=True, exist_ok=True)
                own(self.out)
            except OSError as reason:
                raise OpsplitError(
                    f"Cannot write to --out {self.out}: {reason.strerror}."
                ) from None


MOST = 10_000_000
"""No count of anything makes sense beyond."""

POSITIVE = {
    "n",
    "n_unet",
    "steps",
    "dt",
    "width",
    "max_parts",
    "max_seconds",
    "max_evaluations",
    "trials",
    "minutes",
    "frames",
    "window",
    "refinement",
    "memory_mb",
    "operators",
    "environments",
    "states",
    "learning_rate",
    "checkpoint_steps",
    "devices",
    "nodes",
    "workers",
    "item_minutes",
    "threads",
}


def model_files(folder: Path) -> tuple[Path, ...]:
    """The files of a model directory that decide what it computes."""
    names = ("config.json", "model.safetensors", "dictionary.json", "dictionary.safetensors")
    return tuple(folder / name for name in names)


def effective_settings(command: Common, inputs: tuple[Path, ...]) -> dict[str, Any]:
    """The command with all its settings and a hash of what it reads."""
    name = type(command).__name__.lower()
    return {"command": name, **command.settings(), "inputs": fingerprint(*inputs)}


def once(
    command: Common,
    work: Callable[[], dict[str, Any]],
    words: Callable[[dict[str, Any]], str],
    inputs: tuple[Path, ...] = (),
) -> dict[str, Any]:
    """Do the work unless `--out` already holds its result; print it; leave a record."""
    command.check()
    settings = effective_settings(command, inputs)
    kept = Record.of(command, settings)
    result = None if command.force else kept.finished()
    again = result is not None
    if result is None:
        with kept.run(inputs) as made:
            result = work()
            kept.finish(made, result)
    if command.json:
        say(to_json(result))
    else:
        if again:
            say(f"(finished before, read from {kept.file}; --force does it again)")
        say(words(result))
    return result
