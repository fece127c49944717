"""Where results are from: the command, the code and the machine."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any


def command_line(program: str = "opsplit") -> str:
    """The command as a user would type it, without where on this machine its output went."""
    words = list(sys.argv[1:])
    if "--out" in words[:-1]:
        place = words.index("--out")
        if Path(words[place + 1]).is_absolute():
            del words[place : place + 2]
    return shlex.join([*program.split(), *words])


def commit() -> str:
    """The checked-out commit the code runs from, or the package version of an installed copy."""
    from opsplit._version import __version__

    here = Path(__file__).parent
    git = ["git", "-C", str(here)]
    try:
        top = subprocess.run([*git, "rev-parse", "--show-toplevel"], capture_output=True, text=True)
        if top.returncode or here.parents[1] != Path(top.stdout.strip()):
            return f"opsplit {__version__}"
        found = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        dirty = subprocess.run(
            [*git, "status", "--porcelain", "--", "."], capture_output=True, text=True, check=True
        )
        return found.stdout.strip() + ("+changes" if dirty.stdout.strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return f"opsplit {__version__}"


def hardware(device: str = "cpu") -> str:
    """The processor or accelerator in a few words."""
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name()
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        name = next(named, name)
    return f"{name}, {os.cpu_count()} cores"


def origin(seed: int, device: str = "cpu", program: str = "opsplit") -> dict[str, Any]:
    """What every stored result carries: command, seed, commit and hardware."""
    return {
        "command": command_line(program),
        "seed": seed,
        "commit": commit(),
        "hardware": hardware(device),
    }
