"""Command lines with values that nobody means: exit code 2 and a sentence, or a result."""

from __future__ import annotations

import hashlib
import types
import typing
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from fuzzing import Tally, Worker, quota
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opsplit import cli
from opsplit._files import LOCK
from opsplit.commands.common import Common

COMMANDS = {name: cli.command_class(name) for name in cli.COMMANDS}
BASE = {
    # Quick if nothing is changed, so that a line that happens to be good takes no time.
    "predict": "frames.npy --dt 0.101 --model model --steps 2 --max-parts 1 --out out",
    "identify": "frames.npy --dt 0.101 --model model --max-parts 1",
    "search": "frames.npy --dt 0.101 --model model --max-parts 1 --strategy beam",
    "describe": "frames.npy --dt 0.101",
    "check": "frames.npy --dt 0.101",
    "info": "model",
    "extract": "--model model --n 2 --out out",
}
NEVER = {"device", "json", "force", "help", "threads"}
"""Flags without a bad value, or that make a good line slow."""
BAD = ["nan", "inf", "-inf", "-1", "0", "", "x", "1e400", "9" * 30, "1e-300", "1e300", "--", "None",
       " ", "é", "1,2", "a" * 3000, "[]", "{}", "0x10", "3.5", "true", "frames.npy", "model",
       "nope.npy", "frames.npy/x", "-0.0", "--steps", "t,x", "x,t,t", "\u202e",
       "\x1b[2J"]  # fmt: skip
WORDS = st.sampled_from(BAD) | st.text(
    st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), max_size=6
)


def flags(name: str) -> list[str]:
    """The options of a command as they are typed."""
    positional = {"file", "files", "target"}
    names = [f.name for f in fields(COMMANDS[name]) if f.name not in NEVER | positional]
    return ["--" + n.replace("_", "-") for n in names]


def state(folder: Path) -> str:
    """A hash of what a command reads. The worker holds its locks as long as it lives."""
    files = [folder / "frames.npy", *sorted((folder / "model").iterdir())]
    files = [file for file in files if file.name != LOCK]
    return hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()


def run(name: str, worker: Worker, lines: st.SearchStrategy[list[str]], share: float) -> None:
    tally = Tally(f"command: {name}")
    before = state(worker.folder)

    @settings(
        max_examples=quota(share), deadline=None, database=None,
        derandomize=True, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(lines)
    def try_lines(line: list[str]) -> None:
        answer = worker.ask({"job": "command", "given": line})
        if state(worker.folder) != before:
            answer = ("failed", "what it reads was changed", 0.0, 0.0)
        tally.add(answer, repr(line))

    try_lines()
    tally.close()


@pytest.mark.parametrize("name", [n for n in BASE if n in COMMANDS])
def test_flags(name: str, worker: Worker) -> None:
    change = st.tuples(st.sampled_from(flags(name)), WORDS)
    base = BASE[name].split()

    def line(changes: list[tuple[str, str]], drop: int | None, more: list[str]) -> list[str]:
        out = [name, *base, *(word for pair in changes for word in pair), *more]
        if drop is not None:
            del out[1 + drop % (len(out) - 1)]
        return out

    lines = st.builds(
        line,
        st.lists(change, min_size=1, max_size=2),
        st.none() | st.none() | st.integers(0, 30),
        st.just([]) | st.just([]) | st.lists(WORDS, max_size=2),
    )
    run(name, worker, lines, 0.03)


ABSURD = st.sampled_from(["nan", "-1", "x", "", "1e400", "9" * 30, "-inf"])


@pytest.mark.parametrize("name", [n for n in COMMANDS if n not in BASE])
def test_commands_that_work_long(name: str, worker: Worker) -> None:
    """Only lines that are certainly wrong: numbers that cannot be, words that do not exist."""
    hints: dict[str, Any] = typing.get_type_hints(COMMANDS[name])

    def number(hint: Any) -> bool:
        parts = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        return bool({int, float} & set(parts))

    numeric = ["--" + k.replace("_", "-") for k, hint in hints.items() if number(hint)]
    if "--check" not in numeric and name == "generate":
        numeric = [n for n in numeric if n != "--verify"]
    wrong = st.tuples(st.sampled_from(numeric), ABSURD) | st.tuples(
        st.from_regex(r"\A--[a-z]{3,9}x\Z"), WORDS
    )
    lines = st.lists(wrong, min_size=1, max_size=3).map(
        lambda pairs: [name, "--out", "out", *(word for pair in pairs for word in pair)]
    )
    run(name, worker, lines, 0.008)


def test_the_parser_is_the_one_of_the_package() -> None:
    assert {"predict", "info", "generate"} <= COMMANDS.keys()
    assert all(issubclass(c, Common) for c in COMMANDS.values())
