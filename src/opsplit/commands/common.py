"""What all commands share: flags, finished work, printing."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import tyro

from opsplit._files import origin, own, read_json, write_json
from opsplit.errors import OpsplitError

RECORD = "opsplit.json"
"""The effective configuration and the result, beside every output."""

NOT_SETTINGS = {"json", "out", "force", "workers", "cluster", "item_minutes"}

READ_WHOLE, PIECE = 100_000_000, 1_000_000
"""Files up to so many bytes are hashed; of larger ones the time, the first and the last bytes."""


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
    """Do the work again although it is finished."""

    @classmethod
    def for_arguments(cls, arguments: list[str]) -> tuple[type[Common], list[str]]:
        """The command whose flags these arguments are, and the arguments that are flags of it."""
        return cls, arguments

    def run(self) -> None:
        """Do what the command says."""
        raise OpsplitError("This command does nothing by itself.")

    def settings(self) -> dict[str, Any]:
        """Everything that decides the result."""
        held: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return {k: v for k, v in held.items() if k not in NOT_SETTINGS}

    def check(self) -> None:
        """Refuse what cannot work before anything is written."""
        if not 0 <= self.seed < 2**31:
            raise OpsplitError(f"--seed must lie in 0..{2**31 - 1}, got {self.seed}.")
        if not re.fullmatch(r"cpu|mps|cuda(:\d+)?", self.device):
            raise OpsplitError(
                f"Unknown --device {self.device!r}; choose cpu, cuda, cuda:1 or mps."
            )
        kind, _, number = self.device.partition(":")
        if kind != "cpu":
            import torch

            there = torch.cuda if kind == "cuda" else torch.backends.mps
            if not there.is_available():
                raise OpsplitError(f"This machine has no {kind} device; use --device cpu.")
            if number and int(number) >= torch.cuda.device_count():
                raise OpsplitError(
                    f"This machine has {torch.cuda.device_count()} cuda device(s), counted from "
                    f"0; there is no {self.device}."
                )
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
        if self.out is None and type(self).out is not None:
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


def fingerprint(*paths: Path) -> str:
    """A short hash of files and folders, so that changed input is not taken for finished work."""
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in (f for f in files if f.is_file()):
            facts = file.stat()
            with open(file, "rb") as stream:
                if facts.st_size <= READ_WHOLE:
                    digest.update(stream.read())
                    continue
                digest.update(f"{facts.st_size} {facts.st_mtime_ns}".encode())
                for place in (0, facts.st_size - PIECE):
                    stream.seek(place)
                    digest.update(stream.read(PIECE))
    return digest.hexdigest()[:16]


def model_files(folder: Path) -> tuple[Path, ...]:
    """The files of a model directory that decide what it computes."""
    names = ("config.json", "model.safetensors", "dictionary.json", "dictionary.safetensors")
    return tuple(folder / name for name in names)


def effective_settings(command: Common, inputs: tuple[Path, ...]) -> dict[str, Any]:
    """The command with all its settings and a hash of what it reads."""
    name = type(command).__name__.lower()
    return {"command": name, **command.settings(), "inputs": fingerprint(*inputs)}


def leave_record(command: Common, settings: dict[str, Any], result: dict[str, Any]) -> None:
    """Write the settings, the origin and the result into `--out`."""
    if command.out is not None:
        facts = {"settings": settings, **origin(command.seed, command.device)}
        write_json(command.out / RECORD, {**facts, "result": result})


def once(
    command: Common,
    work: Callable[[], dict[str, Any]],
    words: Callable[[dict[str, Any]], str],
    inputs: tuple[Path, ...] = (),
) -> dict[str, Any]:
    """Do the work unless `--out` already holds its result; print it; leave a record."""
    command.check()
    settings = effective_settings(command, inputs)
    record = command.out / RECORD if command.out else None
    result: dict[str, Any] | None = None
    if record is not None and record.exists() and not command.force:
        held = read_json(record)
        if isinstance(held, dict) and held.get("settings") == settings:
            result = held.get("result")
    again = result is not None
    if result is None:
        result = work()
        leave_record(command, settings, result)
    if command.json:
        print(json.dumps(result))
    else:
        if again:
            print(f"(finished before, read from {record}; --force does it again)")
        print(words(result))
    return result
