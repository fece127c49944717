"""Damaged inputs: small good files, ways to spoil them, and a process that survives the result."""

from __future__ import annotations

import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

TOTAL = int(os.environ.get("OPSPLIT_FUZZ", "250"))
"""Refused inputs of the whole suite, about."""
SECONDS = 10.0
"""That an input may take, of the processor: the machine may do other work too."""
PATIENCE = 600.0
"""Seconds on the wall after which a process that does nothing hangs as well."""

WORKER = Path(__file__).with_name("worker.py")
NUMBERS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)


def quota(share: float) -> int:
    return max(3, round(TOTAL * share))


class Worker:
    """The child process; a new one takes its place when it ends."""

    def __init__(self, warm_up: list[dict[str, Any]], folder: Path) -> None:
        self.warm_up, self.folder = warm_up, folder
        self.process: subprocess.Popen[bytes] | None = None
        self.limited = False
        """Whether good inputs have gone through; imports are not counted."""

    def start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, str(WORKER)], cwd=self.folder,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
        )  # fmt: skip
        self.process = process
        for task in [*self.warm_up, {"job": "limit"}]:
            outcome, words, _, _ = self.ask(task)
            assert outcome == "accepted", f"a good input was {outcome}: {words}"
        self.limited = True
        return process

    def ask(self, task: dict[str, Any]) -> tuple[str, str, float, float]:
        """How an input ended: outcome, words, processor seconds, most megabytes so far."""
        process = self.process or self.start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps({"flags": {}, **task}).encode() + b"\n")
        process.stdin.flush()
        limit = SECONDS if task["job"] != "limit" and self.limited else PATIENCE
        began, deadline, ready = self.spent(), time.monotonic() + PATIENCE, []
        while not ready and time.monotonic() < deadline and self.spent() - began < limit:
            ready, _, _ = select.select([process.stdout], [], [], 1.0)
        line = process.stdout.readline() if ready else b""
        if not line:
            self.stop()
            how = f"ended with {process.returncode}" if ready else "did not answer"
            return ("crashed" if ready else "hung"), f"the process {how}", 0.0, 0.0
        outcome, words, seconds, peak = json.loads(line)
        if seconds > limit:
            return "hung", f"it took {seconds:.1f} seconds", seconds, peak
        return outcome, words, seconds, peak

    def spent(self) -> float:
        """Processor seconds of the child so far."""
        assert self.process is not None
        try:
            words = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.limited = False
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout):
                if stream is not None:
                    stream.close()
            self.process = None


@dataclass
class Tally:
    """What became of the inputs of one kind."""

    kind: str
    outcomes: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    megabytes: float = 0.0
    bad: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Leave out the kinds that a run which was stopped has counted."""
        place = Path(os.environ.get("OPSPLIT_FUZZ_COUNTS", ""))
        lines = place.read_text().splitlines() if place.is_file() else []
        if any((row := json.loads(line)).get("kind") == self.kind and not row["bad"]
               for line in lines):  # fmt: skip
            pytest.skip("counted before")

    def add(self, answer: tuple[str, str, float, float], what: str) -> None:
        outcome, words, seconds, peak = answer
        self.outcomes[outcome] += 1
        self.seconds = max(self.seconds, seconds)
        self.megabytes = max(self.megabytes, peak)
        if outcome not in ("refused", "accepted"):
            self.bad.append(f"{what}: {outcome}: {words}")

    def close(self) -> None:
        """Write the numbers down if asked for; complain about what went wrong."""
        place = os.environ.get("OPSPLIT_FUZZ_COUNTS")
        if place:
            line = {
                "kind": self.kind, **self.outcomes, "longest_seconds": round(self.seconds, 2),
                "most_megabytes": round(self.megabytes), "bad": self.bad[:20],
            }  # fmt: skip
            with open(place, "a") as stream:
                stream.write(json.dumps(line) + "\n")
        shown = "\n\n".join(self.bad[:5])
        assert not self.bad, f"{len(self.bad)} of {self.outcomes.total()} inputs:\n{shown}"
        assert self.outcomes["refused"] > 0


def spoil(content: bytes, draw: random.Random, other: bytes = b"") -> bytes:
    """The bytes with one to three kinds of damage."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        content = draw.choice(DAMAGE)(content, draw, other)
    return content


def _place(content: bytes, draw: random.Random) -> int:
    """Somewhere, more often where the headers are."""
    n = max(1, len(content))
    near = draw.random()
    if near < 0.5:
        return draw.randrange(min(n, 512))
    return n - 1 - draw.randrange(min(n, 512)) if near < 0.65 else draw.randrange(n)


def _cut(content: bytes, draw: random.Random, other: bytes) -> bytes:
    return content[: draw.randrange(len(content) + 1)]


def _bits(content: bytes, draw: random.Random, other: bytes) -> bytes:
    out = bytearray(content or b"\0")
    for _ in range(draw.choice((1, 2, 8, 32))):
        out[_place(out, draw)] ^= 1 << draw.randrange(8)
    return bytes(out)


def _span(content: bytes, draw: random.Random, other: bytes) -> bytes:
    i, n = _place(content, draw), draw.choice((1, 4, 8, 64))
    return content[:i] + draw.choice((b"\0" * n, b"\xff" * n, draw.randbytes(n))) + content[i + n :]


def _number(content: bytes, draw: random.Random, other: bytes) -> bytes:
    i, value = _place(content, draw), draw.choice(NUMBERS)
    word = struct.pack("<Q", value) if draw.random() < 0.5 else struct.pack("<I", value % 2**32)
    return content[:i] + word + content[i + len(word) :]


def _drop(content: bytes, draw: random.Random, other: bytes) -> bytes:
    i = _place(content, draw)
    return content[:i] + content[i + draw.choice((1, 3, 16, 200)) :]


def _repeat(content: bytes, draw: random.Random, other: bytes) -> bytes:
    i = _place(content, draw)
    return content[:i] + content[i : i + draw.choice((1, 8, 300))] + content[i:]


def _insert(content: bytes, draw: random.Random, other: bytes) -> bytes:
    i = _place(content, draw)
    return content[:i] + draw.randbytes(draw.choice((1, 2, 8, 100))) + content[i:]


def _splice(content: bytes, draw: random.Random, other: bytes) -> bytes:
    i = _place(content, draw)
    return content[:i] + other[i:]


DAMAGE: tuple[Callable[[bytes, random.Random, bytes], bytes], ...] = (
    _cut, _bits, _bits, _span, _number, _number, _drop, _repeat, _insert, _splice,
)  # fmt: skip


def spoiled(
    seed: str, contents: list[bytes], refused: Callable[[], int], wanted: int
) -> Iterator[bytes]:
    """Damaged copies until so many were refused, of at most four times as many."""
    draw = random.Random(seed)
    for _ in range(4 * wanted):
        if refused() >= wanted:
            return
        yield spoil(draw.choice(contents), draw, draw.choice(contents))
