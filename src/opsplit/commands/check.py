"""`opsplit check`: whether data are what they seem, with numbers."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from opsplit._text import say, to_json
from opsplit.commands.describe import ReadFlags


@dataclass(frozen=True)
class Check(ReadFlags):
    """Look for faults in data: times, holes, ends, resolution, means, and wrong coefficients.

    Where coefficients are stored that a bundled model knows, some windows are fitted and what is
    identified is compared with what is stored. The exit code is 1 if anything is a fault.

    Example: opsplit check runs/data/test.npz
    """

    model: str | None = None
    """The model that knows the coefficients (default: found by their names)."""

    def run(self) -> None:
        self.check()
        from opsplit.io.read import read
        from opsplit.predict.check import Mark, check

        recording = read(self.source(), **self.said())
        found = check(recording, self.model, self.device)
        faults = sum(f.verdict is Mark.FAULT for f in found)
        if self.json:
            told = {"source": recording.source, "understood": list(recording.understood)}
            say(to_json({**told, "faults": faults, "checks": [f.to_json() for f in found]}))
        else:
            say(f"{recording.source}: {' '.join(recording.understood)}")
            for finding in found:
                say(finding)
        if faults:
            sys.exit(1)
