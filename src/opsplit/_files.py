"""Files that are written whole or not at all, folders that one run owns, where results are from."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import platform
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opsplit.errors import OpsplitError

LARGEST_JSON = 20_000_000
"""Bytes; what Python makes of JSON takes up to thirty times as many."""
LOCK = ".opsplit.lock"


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A name to write to; the file takes the place of `path` once it is whole and on disk.

    If anything goes wrong it is removed, and what was at `path` stays as it was. The name is the
    process's own and ends in `.part`, which no reader takes.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            regular(path)  # Never put a file in the place of a device or a pipe.
        partial.unlink(missing_ok=True)  # Nor write through a link that somebody left there.
        yield partial
        with open(partial, "rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except OSError as reason:
        raise OpsplitError(f"Cannot write {path}: {reason.strerror or reason}.") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    with atomic(path) as partial:
        partial.write_text(text)


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    write_text(path, json.dumps(value, indent=indent) + "\n")


def read_json(path: Path, finite: bool = False) -> Any:
    """What a JSON file holds; `finite` refuses the words NaN and Infinity, which are not JSON."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not a number")

    try:
        size = regular(path).st_size
        if size > LARGEST_JSON:
            raise ValueError(f"{size} bytes are more than {LARGEST_JSON}")
        return json.loads(path.read_text("utf-8"), parse_constant=refuse if finite else None)
    except FileNotFoundError:
        raise OpsplitError(f"No such file: {path}") from None
    except RecursionError:
        raise OpsplitError(f"{path} cannot be read as JSON: it is nested too deeply.") from None
    except (OSError, ValueError) as reason:
        raise OpsplitError(f"{path} cannot be read as JSON: {reason}") from None


def regular(path: Path) -> os.stat_result:
    """The facts of a file that can be read to its end; a pipe or a device cannot."""
    facts = path.stat()
    if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
        raise OpsplitError(f"{path} is not a regular file.")
    return facts


def inside(folder: Path, name: str) -> Path:
    """The file of that name in a folder, which may itself be a link but must hold the file."""
    path = folder / name
    if path.is_symlink() and path.resolve().parent != folder.resolve():
        raise OpsplitError(
            f"{path} is a link out of its folder; put the file itself there if you trust it."
        )
    return path


_owned: dict[Path, int] = {}
"""Folders that this process keeps for itself, and the open lock of each."""


def own(folder: Path) -> None:
    """Keep other processes from writing into a folder until this one ends, however it ends.

    Children of this process share the folder. Where the system or the disk knows no locks there
    is none.
    """
    place = folder.resolve()
    if place in _owned and (place / LOCK).exists():
        return
    follow = getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | follow, 0o666)
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(handle, 20).decode("ascii", "replace").strip() or "unknown"
        os.close(handle)
        raise OpsplitError(
            f"Another run (process {holder}) is writing to {folder}; wait for it, or choose "
            "another --out."
        ) from None
    except (ImportError, OSError):
        pass
    if not (place / LOCK).exists() or os.fstat(handle).st_ino != (place / LOCK).stat().st_ino:
        # The run before ended between our two steps and took its lock with it.
        os.close(handle)
        own(folder)
        return
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    _owned[place] = handle
    atexit.register(_give_back, place / LOCK, os.getpid())


def _give_back(lock: Path, owner: int) -> None:
    """Remove the lock as long as it is held; a copy of the process leaves that to the original."""
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            lock.unlink()


@contextlib.contextmanager
def leave_no_empty_folder(folder: Path | None) -> Iterator[None]:
    """Where the work fails, remove the folders that it made and put no file into."""
    new = [] if folder is None else [p for p in (folder, *folder.parents) if not p.exists()]
    try:
        yield
    except BaseException:
        for place in new:
            with contextlib.suppress(OSError):
                if [entry.name for entry in place.iterdir()] == [LOCK]:
                    (place / LOCK).unlink()
                place.rmdir()
        raise


def command_line() -> str:
    """The command as a user would type it, without where on this machine its output went."""
    words = list(sys.argv[1:])
    if "--out" in words[:-1]:
        place = words.index("--out")
        if Path(words[place + 1]).is_absolute():
            del words[place : place + 2]
    return shlex.join(["opsplit", *words])


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
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return f"{name}, {os.cpu_count()} cores"


def peak_memory_mb() -> float | None:
    """The most memory this process has held so far, where the system says."""
    try:
        import resource
    except ImportError:
        return None
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (2**20 if sys.platform == "darwin" else 2**10)


def origin(seed: int, device: str = "cpu") -> dict[str, Any]:
    """What every stored result carries: command, seed, commit and hardware."""
    return {
        "command": command_line(),
        "seed": seed,
        "commit": commit(),
        "hardware": hardware(device),
    }
