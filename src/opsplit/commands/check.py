"""`opsplit check`: whether data are what they seem, with numbers."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from opsplit._text import say, to_json
from opsplit.commands.describe import ReadFlags
from opsplit.commands.spread import Spread

if TYPE_CHECKING:
    from opsplit.predict.check import Finding


@dataclass(frozen=True)
class Check(ReadFlags, Spread):
    """Look for faults in data: times, holes, ends, resolution, means, and wrong coefficients.

    Where coefficients are stored that a bundled model knows, some windows are fitted and what is
    identified is compared with what is stored. The exit code is 1 if anything is a fault.

    Example: opsplit check runs/data/test.npz
    """

    model: str | None = None
    """The model that knows the coefficients (default: found by their names)."""
    every: bool = False
    """Check every file by itself that is named, in a folder, or meant by a pattern."""
    without: ClassVar[tuple[str, ...]] = ("out", "seed", "force")

    def run(self) -> None:
        self.check()
        if self.every:
            self._every()
            return
        from opsplit.io.read import read
        from opsplit.predict.check import check

        recording = read(self.source(), **self.said())
        found = check(recording, self.model, self.device)
        said = {"source": recording.source, "understood": list(recording.understood)}
        facts = {**said, "faults": faults(found), "checks": [f.to_json() for f in found]}
        if self.json:
            say(to_json(facts))
        else:
            say(f"{recording.source}: {' '.join(recording.understood)}")
            for finding in found:
                say(finding)
        if facts["faults"]:
            sys.exit(1)

    def _every(self) -> None:
        """One line, or one entry of JSON, for every file; those of faults follow."""
        from opsplit.parallel import run_items
        from opsplit.predict.ensemble import data_files
        from opsplit.progress import Progress

        files = data_files(self.files)
        shared = (self.model, self.device, self.said())
        told: dict[str, Any] = {}
        wrong = 0
        with Progress("checking", enabled=not self.json) as bar:
            for outcome in run_items(_checked, files, shared, self.where()):
                found = outcome.value or []
                bad = [f for f in found if f.verdict == FAULT]
                wrong += bool(bad) or not outcome.ok
                told[str(outcome.item)] = {
                    "faults": len(bad), "reason": outcome.reason,
                    "checks": [f.to_json() for f in found],
                }  # fmt: skip
                bar.update(len(told) / len(files), f"{len(told)} of {len(files)} files")
                if not self.json:
                    verdict = outcome.reason or f"{len(bad)} fault(s)"
                    say("\n  ".join([f"{outcome.item}: {verdict}", *map(str, bad)]))
        if self.json:
            say(to_json({"files": told, "wrong": wrong}))
        if wrong:
            sys.exit(1)


FAULT = "fault"


def faults(found: list[Finding]) -> int:
    return sum(finding.verdict == FAULT for finding in found)


def _checked(shared: tuple[str | None, str, dict[str, Any]], file: Path) -> list[Finding]:
    """The findings of one file, in a worker."""
    from opsplit.io.read import read
    from opsplit.predict.check import check

    model, device, said = shared
    return check(read(file, **said), model, device)
