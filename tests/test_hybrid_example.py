"""The example with learned and exact operators does what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "examples" / "hybrid.py"


def test_hybrid(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    output = done.stdout
    found, true = (
        {name: float(value) for name, value in re.findall(r"'(\w+)': ([\d.e-]+)", line)}
        for line in re.findall(r"^(?:identified|true): .*$", output, re.M)
    )
    error = re.search(r"^NRMSE.*: ([\d.]+)$", output, re.M)
    assert error and float(error[1]) < 0.005, output
    assert found.keys() == true.keys() == {"c", "D"}
    assert all(abs(found[name] - true[name]) < 0.02 for name in true), output
    # The exact diffusion is one of the two parts, and the equation says what it found.
    assert re.search(r"^>>>> +2 .*\[D=1\]", output, re.M), output
    assert re.search(r"^u_t = -[\d.]+ u_x \+ [\d.]+ u_xx$", output, re.M), output
