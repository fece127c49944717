"""The examples run as they stand and do what they promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(script: str, folder: Path) -> str:
    """What a script prints when it is started in an empty folder."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / script],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_identification(output: str, largest_error: float, largest_gap: float) -> None:
    """An example that prints identified and true coefficients and a forecast's error."""
    found, true = (
        {name: float(value) for name, value in re.findall(r"'(\w+)': ([\d.e-]+)", line)}
        for line in re.findall(r"^(?:identified|true): .*$", output, re.M)
    )
    error = re.search(r"^NRMSE.*: ([\d.]+)$", output, re.M)
    assert error and float(error[1]) < largest_error, output
    assert found.keys() == true.keys() == {"c", "D"}
    assert all(abs(found[name] - true[name]) < largest_gap for name in true), output


def test_quickstart(tmp_path: Path) -> None:
    check_identification(run("quickstart.py", tmp_path), 0.05, 0.1)


def test_hybrid(tmp_path: Path) -> None:
    output = run("hybrid.py", tmp_path)
    check_identification(output, 0.005, 0.02)
    # The exact diffusion is one of the two parts, and the equation says what it found.
    assert re.search(r"^>>>> +2 .*\[D=1\]", output, re.M), output
    assert re.search(r"^u_t = -[\d.]+ u_x \+ [\d.]+ u_xx$", output, re.M), output


def test_own_equation(tmp_path: Path) -> None:
    output = run("own_equation.py", tmp_path)
    errors = re.search(r"^NRMSE: forecast ([\d.]+), persistence ([\d.]+)$", output, re.M)
    assert errors, output
    forecast, persistence = map(float, errors.groups())
    assert forecast < 0.2 * persistence, output
    assert (tmp_path / "fisher-kpp" / "config.json").exists()
