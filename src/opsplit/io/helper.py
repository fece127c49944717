"""The process that examines files before we open them: started once, used for all files."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from opsplit._deadline import check_time, seconds_left
from opsplit._files import regular
from opsplit._text import plain
from opsplit.errors import OpsplitError

PATIENCE = 8.0
"""Seconds of the processor that opening a file may take, and as many per ..."""
BYTES = 200_000_000
"""... so many bytes of it."""
SLOWEST = 600.0
"""Seconds after which a disk that does not answer is given up."""

START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from opsplit.io.examine import main; main()"
)


class Helper:
    """A child process with its own memory, which no lock or thread of ours is copied into."""

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0

    def _started(self) -> subprocess.Popen[str]:
        """The process, a new one if the last has ended or belongs to the process we came from."""
        if self._process is None or self._owner != os.getpid():
            main = threading.current_thread() is threading.main_thread()
            # Isolated: modules that lie in the current folder are not ours to run.
            home = str(Path(__file__).parents[2])
            words = [sys.executable, "-I", "-c", START, json.dumps([*sys.path, home])]
            words.append("with parent" if main else "")
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                errors="surrogateescape",
            )
            self._owner = os.getpid()
            assert self._process.stdout is not None
            if not self._process.stdout.readline():
                self.stop()
                raise OpsplitError(
                    f"{sys.executable} did not start; it examines files before they are read."
                )
        return self._process

    def stop(self) -> None:
        """End the process; the next file starts another one."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()

    def ask(self, path: Path, kind: str, seconds: float) -> dict[str, Any] | int:
        """What the process says about a file, or the code that it ended with."""
        with self._one_at_a_time:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            late = threading.Event()

            def give_up() -> None:
                late.set()
                process.kill()

            too_late = threading.Timer(min(SLOWEST, seconds_left()), give_up)
            too_late.daemon = True
            try:
                too_late.start()
                task = {"path": str(path.resolve()), "kind": kind, "seconds": seconds}
                process.stdin.write(json.dumps(task) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except (BrokenPipeError, OSError):
                line = ""
            except BaseException:
                self.stop()
                raise
            finally:
                too_late.cancel()
            if line:
                found: dict[str, Any] = json.loads(line)
                return found
            code = process.wait()
            self.stop()
        if late.is_set():
            check_time(path)
            raise OpsplitError(
                f"{path} cannot be opened in {SLOWEST:g} s: its disk does not answer."
            )
        return code


HELPER = Helper()
atexit.register(HELPER.stop)

_seen: dict[tuple[str, int, int, int, int], bool] = {}
"""Whether files that were examined took too long: by kind, device, number, size and time."""
_looking = threading.Lock()
"""One look after the other, so that threads that wait for the same file know what came of it."""
REMEMBERED = 10_000


def examined(path: Path, kind: str, words: str) -> None:
    """Raise in a sentence if a file is no regular one, or is not what its library can read.

    Every reader of a format with a library of its own calls this before it opens a file.

    A file is examined once, and again when it has changed.
    """
    facts = regular(path)
    key = (kind, facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
    seconds = PATIENCE * (1 + facts.st_size // BYTES)
    with _looking:
        answer = {} if key in _seen else HELPER.ask(path, kind, seconds)
        late = answer == -getattr(signal, "SIGXCPU", 24)
        if late or answer == {}:
            while len(_seen) >= REMEMBERED:
                _seen.pop(next(iter(_seen)))
            late = _seen.setdefault(key, late)
    if late:
        raise OpsplitError(
            f"{path} cannot be opened in {seconds:g} s of the processor: it is damaged."
        )
    if isinstance(answer, int):
        raise OpsplitError(f"{path} crashes the library that reads such files: it is damaged.")
    if "memory" in answer:
        HELPER.stop()
        raise OpsplitError(f"{path} asks for more memory than such a file should.")
    if "refused" in answer:
        # The process saw the path with all links resolved.
        raise OpsplitError(plain(answer["refused"].replace(str(path.resolve()), str(path))))
    if "failed" in answer:
        said = plain(" ".join(answer["failed"].strip("'\"").split()), 300)
        raise OpsplitError(
            f"{path} cannot be read {words} ({said}); the file is damaged or of another kind."
        )
