"""Files that are written whole or not at all, and folders that one run owns."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from opsplit._device import rank
from opsplit._text import to_json
from opsplit.errors import OpsplitError

LARGEST_JSON = 20_000_000
"""Bytes; what Python makes of JSON takes up to thirty times as many."""
LOCK = ".opsplit.lock"

PART = re.compile(r".+\.(\d+)\.[0-9a-f]{8}\.part")
"""Names of files that are being written, with the number of the process that writes them."""

READ_WHOLE, PIECE = 100_000_000, 1_000_000
"""So many bytes of files are hashed; of files beyond, the time, the first and the last bytes."""


class Written:
    """What a run may not write over, and the files that it has written so far."""

    def __init__(self, inputs: Sequence[Path]) -> None:
        self.inputs = {given.resolve(): given for given in inputs}
        """What the run reads, by the place where it lies."""
        self._held = {_identity(given): given for given in inputs if given.exists()}
        self.files: list[Path] = []

    def refuse_input(self, path: Path) -> None:
        """Raise if a path is one of the inputs, by whatever name or link, or lies in one."""
        place = path.parent.resolve() / path.name
        given = next((self.inputs[p] for p in (place, *place.parents) if p in self.inputs), None)
        if given is None and path.exists():
            given = self._held.get(_identity(path))
        if given is not None:
            raise OpsplitError(
                f"{path} would be written over {given}, which this run reads; choose another "
                "place for the output."
            )

    def facts(self, folder: Path, besides: Path) -> dict[str, dict[str, Any]]:
        """Size and hash of every file that was written, by its name as seen from a folder."""
        there = dict.fromkeys(f for f in self.files if f.is_file() and f != besides)
        return {
            os.path.relpath(f, folder): {"bytes": f.stat().st_size, "hash": fingerprint(f)}
            for f in there
        }


_run: ContextVar[Written | None] = ContextVar("opsplit-run", default=None)


@contextlib.contextmanager
def writing(inputs: Sequence[Path]) -> Iterator[Written]:
    """Inside, no file is written over one of the inputs, and what is written is noted down."""
    held = Written(inputs)
    token = _run.set(held)
    try:
        yield held
    finally:
        _run.reset(token)


def unchanged(facts: Any, folder: Path) -> bool:
    """Whether the files that `Written.facts` listed are there and the same."""
    if not isinstance(facts, dict):
        return False
    for name, held in facts.items():
        path = folder / name
        if not isinstance(held, dict) or not path.is_file():
            return False
        if path.stat().st_size != held.get("bytes") or fingerprint(path) != held.get("hash"):
            return False
    return True


def fingerprint(*paths: Path) -> str:
    """A short hash of files and folders, so that changed input is not taken for finished work."""
    digest, left = hashlib.sha256(), READ_WHOLE
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in (f for f in files if f.is_file()):
            facts = file.stat()
            with open(file, "rb") as stream:
                if facts.st_size <= left:
                    # Files of the system say that they are empty, and may never end.
                    digest.update(stream.read(facts.st_size))
                    left -= facts.st_size
                    continue
                digest.update(f"{facts.st_size} {facts.st_mtime_ns}".encode())
                for place in (0, max(0, facts.st_size - PIECE)):
                    stream.seek(place)
                    digest.update(stream.read(PIECE))
    return digest.hexdigest()[:16]


def _identity(path: Path) -> tuple[int, int]:
    """The same for all names of one file."""
    facts = path.stat()
    return facts.st_dev, facts.st_ino


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A name to write to; the file takes the place of `path` once it is whole and on disk.

    If anything goes wrong it is removed, and what was at `path` stays as it was. The name is new,
    so that no link can stand there, and ends in `.part`, which no reader takes.
    """
    run = _run.get()
    partial = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.part")
    try:
        if run is not None:
            run.refuse_input(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            regular(path)  # Never put a file in the place of a device or a pipe.
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        mode = stat.S_IMODE(partial.stat().st_mode)
        yield partial
        with open(partial, "rb+") as stream:
            os.fsync(stream.fileno())
        # Some libraries put a file of their own there, which the user's umask did not make.
        os.chmod(partial, mode)
        waiting = _waiting.get()
        if waiting is None:
            os.replace(partial, path)
        else:
            waiting[path] = partial
    except OSError as reason:
        raise OpsplitError(f"Cannot write {path}: {reason.strerror or reason}.") from None
    finally:
        if partial not in (_waiting.get() or {}).values():
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
    if run is not None:
        run.files.append(path)


_waiting: ContextVar[dict[Path, Path] | None] = ContextVar("opsplit-waiting", default=None)
"""Files that are whole and wait for others: their places and where they are."""


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """What the system refuses is said in one sentence."""
    try:
        yield
    except OSError as reason:
        raise OpsplitError(f"Cannot write {path}: {reason.strerror or reason}.") from None


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Inside, written files wait; at the end all take their places, after a failure none does.

    The old files go first, the last one written before all others, and the new one of that name
    comes last: a folder that has it never mixes files of two times, even after a kill.
    """
    if _waiting.get() is not None:
        yield
        return
    waiting: dict[Path, Path] = {}
    token = _waiting.set(waiting)
    try:
        yield
        for path in reversed(waiting):
            with _writing(path):
                path.unlink(missing_ok=True)
        for path, partial in waiting.items():
            with _writing(path):
                os.replace(partial, path)
    finally:
        _waiting.reset(token)
        for partial in waiting.values():
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)


def remove_parts(folder: Path) -> None:
    """Remove what processes that were killed had begun to write into a folder."""
    for path in folder.glob("*.part"):
        found = PART.fullmatch(path.name)
        if found and not path.is_symlink() and not _alive(int(found[1])):
            path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    if os.name != "posix":
        return True  # There a signal of number zero would end the process.
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    # A process that has ended, and whose parent has not asked how, writes no more.
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    return True


def write_text(path: Path, text: str) -> None:
    with atomic(path) as partial:
        # Names of files may hold bytes that no text has.
        partial.write_text(text, "utf-8", "backslashreplace")


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    write_text(path, to_json(value, indent) + "\n")


def read_json(path: Path, finite: bool = False) -> Any:
    """What a JSON file holds; `finite` refuses the words NaN and Infinity, which are not JSON."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is not a number")

    with parsing(path, "JSON"):
        size = regular(path).st_size
        if size > LARGEST_JSON:
            raise ValueError(f"{size} bytes are more than {LARGEST_JSON}")
        return json.loads(path.read_text("utf-8"), parse_constant=refuse if finite else None)


@contextlib.contextmanager
def parsing(path: Path, language: str) -> Iterator[None]:
    """Inside, whatever keeps a file from being read is one sentence."""
    try:
        yield
    except OpsplitError:
        raise
    except FileNotFoundError:
        raise OpsplitError(f"No such file: {path}") from None
    except RecursionError:
        words = f"{path} cannot be read as {language}: it is nested too deeply."
        raise OpsplitError(words) from None
    except (OSError, ValueError) as reason:
        raise OpsplitError(f"{path} cannot be read as {language}: {reason}") from None


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

    Children of this process have no part in the lock, so that it ends with this process. The other
    processes of one training share the folder. Where the system or the disk knows no locks there
    is none.
    """
    place = folder.resolve()
    if rank() > 0 or (place in _owned and (place / LOCK).exists()):
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
    remove_parts(place)
    atexit.register(_give_back, place / LOCK, os.getpid())


def _forget() -> None:
    """In a copy of this process: close the locks, which stay with the original."""
    for handle in _owned.values():
        os.close(handle)
    _owned.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


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
