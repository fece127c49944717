"""Small files: JSON that is written whole or not at all, and where results come from."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from opsplit.errors import OpsplitError


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(value, indent=2) + "\n")
    os.replace(partial, path)


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise OpsplitError(f"No such file: {path}") from None
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as reason:
        raise OpsplitError(f"{path} cannot be read as JSON: {reason}") from None


def command_line() -> str:
    """The command as a user would type it."""
    return shlex.join(["opsplit", *sys.argv[1:]]) if sys.argv else "opsplit"


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
            [*git, "status", "--porcelain", "--", "src"], capture_output=True, text=True, check=True
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
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {os.cpu_count()} cores"


def origin(seed: int, device: str = "cpu") -> dict[str, Any]:
    """What every stored result carries: command, seed, commit and hardware."""
    return {
        "command": command_line(),
        "seed": seed,
        "commit": commit(),
        "hardware": hardware(device),
    }
