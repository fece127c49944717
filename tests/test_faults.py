"""A small sample of `benchmarks/faults`: kills inside writes leave nothing that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = Path(__file__).parents[1] / "benchmarks" / "faults"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_kills_inside_writes(tmp_path: Path) -> None:
    out = tmp_path / "faults.json"
    words = ["--kills", "2", "--commands", "calibrate,generate", "--seed", "3", "--out", str(out)]
    done = subprocess.run([sys.executable, SUITE, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["kills_inside_writes"] == 2 and found["failed"] == 0
