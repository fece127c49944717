"""A first look at a foreign file, in a process of its own that may crash, hang or fill up.

The libraries behind HDF5 and NetCDF files are written in C and trust what they read. This
process opens a file with them, refuses whatever lies outside the file, and reads its headers and
a few numbers. It computes with little memory and little time of the processor: see `main`.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opsplit.errors import OpsplitError

MOST_OBJECTS = 1_000_000
"""Arrays, groups and links in a file."""
DEEPEST = 100
"""Groups in groups: the time of the library grows with their square."""
SMALL = 10_000_000
"""Most numbers of times, coordinates or coefficients."""
CHUNK_MB = 512
"""Largest piece that must be held in memory to read one number of it."""
FEW_PIECES, SMALL_PIECE = 50_000, 1024
"""More pieces than that must have so many bytes each: HDF5 takes 6 kB of memory for any of them."""
PACKED = 1_100
"""No compression that HDF5 brings with it packs more bytes into one (deflate reaches 1,032)."""
UNWRITTEN = 2**26
"""Bytes that an array may claim and not hold: HDF5 writes no chunks of which nothing was said."""
SAMPLES = 64
"""Arrays of which the first and the last number are read."""
ROOM = 3 * 2**30
"""Bytes of memory that the process may take beyond those of its imports."""


def examine(path: str, kind: str) -> None:
    """Raise whatever is wrong with a file."""
    LOOKS[kind](path)


def _hdf5(path: str) -> None:
    import h5py

    with h5py.File(path, "r") as file:
        links: list[bytes] = []

        # What these functions return ends the visit; they may not raise.
        def link(name: bytes, facts: Any) -> str | None:
            links.append(name)
            if len(links) > MOST_OBJECTS:
                return f"{path} has more than {MOST_OBJECTS} links."
            if name.count(b"/") >= DEEPEST:
                return f"{path} has groups in groups, more than {DEEPEST} deep."
            if facts.type not in (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT):
                return f"{path}: {_shown(name)} points into another file, which is not followed."
            return None

        wrong = file.id.links.visit(link, info=True)
        if wrong is not None:
            raise OpsplitError(wrong)
        things: list[bytes] = []
        h5py.h5o.visit(file.id, things.append)
        samples: list[Any] = []
        for name in things:
            found = h5py.h5o.open(file.id, name)
            if isinstance(found, h5py.h5d.DatasetID):
                check_storage(path, _shown(name), found)
                _check_chunks(path, _shown(name), found)
                samples += [found] if len(samples) < SAMPLES else []
            if not isinstance(found, h5py.h5t.TypeID):
                _attributes(path, found)
        _attributes(path, file.id)
        for held in samples:
            _ends(h5py.Dataset(held))


def _shown(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def check_storage(path: str, name: str, found: Any) -> None:
    """Refuse an array that lies outside the file or claims more than can be in it."""
    import h5py

    plan = found.get_create_plist()
    if plan.get_layout() == h5py.h5d.VIRTUAL or plan.get_external_count():
        raise OpsplitError(f"{path}: {name} keeps its numbers in another file; copy them into it.")
    size = math.prod(found.shape or ()) * found.get_type().get_size()
    chunked = plan.get_layout() == h5py.h5d.CHUNKED
    piece = math.prod(plan.get_chunk()) * found.get_type().get_size() if chunked else 0
    if piece > CHUNK_MB * 2**20:
        raise OpsplitError(
            f"{path}: {name} has chunks of {piece / 2**20:.0f} MB; write it with smaller ones."
        )
    stored = found.get_storage_size()
    if size > PACKED * stored + UNWRITTEN:
        raise OpsplitError(
            f"{path}: {name} claims {size / 1e9:.3g} GB, but the file holds {stored} bytes of it."
        )
    if chunked and piece < SMALL_PIECE and size > FEW_PIECES * piece:
        raise OpsplitError(
            f"{path}: {name} has {size // piece} chunks of {piece} bytes; write larger ones."
        )


def _check_chunks(path: str, name: str, found: Any) -> None:
    """Refuse chunks that are longer in the file than in memory: the library inflates them whole."""
    import h5py

    plan = found.get_create_plist()
    if plan.get_layout() != h5py.h5d.CHUNKED or not plan.get_nfilters():
        return
    piece = math.prod(plan.get_chunk()) * found.get_type().get_size()
    most = piece + piece // 8 + 2**14

    # What the function returns ends the visit; it may not raise.
    def look(chunk: Any) -> int | None:
        return chunk.size if chunk.size > most else None

    size = found.chunk_iter(look)
    if size is not None:
        raise OpsplitError(f"{path}: {name} has a chunk of {size} bytes for {piece} of numbers.")


def _attributes(path: str, found: Any) -> None:
    """Read them all: their sizes are claims too."""
    import h5py

    left = SMALL * 8
    for i in range(h5py.h5a.get_num_attrs(found)):
        held = h5py.h5a.open(found, index=i)
        left -= math.prod(held.shape or ()) * held.get_type().get_size()
        if left < 0:
            raise OpsplitError(f"{path}: its attributes claim more than {SMALL} numbers.")
        name = held.name.decode("utf-8", "surrogateescape")
        with said_later():
            h5py.AttributeManager(_Owner(found)).get(name)


@contextmanager
def said_later() -> Iterator[None]:
    """What the library says of a single value it will say again to whoever needs the value."""
    try:
        yield
    except (MemoryError, OpsplitError):
        raise
    except Exception:
        pass


class _Owner:
    """What h5py's attributes need to know of their object."""

    def __init__(self, found: Any) -> None:
        self.id = found


def _ends(held: Any) -> None:
    """The first and the last number of an array; of words, all."""
    if held.shape is None or 0 in held.shape:
        return
    with said_later():
        if held.dtype.kind == "O" and held.size <= SMALL:
            held[()]
            return
        held[(0,) * held.ndim]
        held[tuple(n - 1 for n in held.shape)]


def _classic(path: str) -> None:
    import scipy.io

    with scipy.io.netcdf_file(path, "r", mmap=os.path.getsize(path) > CHUNK_MB * 2**20) as file:
        for held in file.variables.values():
            if len(held.shape) and 0 not in held.shape:
                held[(0,) * len(held.shape)].copy()
        held = None


LOOKS: dict[str, Callable[[str], None]] = {"hdf5": _hdf5, "netcdf3": _classic}
"""How to look at a file, by the library that reads it."""


def _limit(seconds: float) -> None:
    """Seconds of the processor for the next file; a slow disk costs none."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    until = math.ceil(used.ru_utime + used.ru_stime + seconds)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (_least(until, hard), hard))


def _least(wanted: int, hard: int) -> int:
    """A limit that may be set; -1 stands for none."""
    return wanted if hard < 0 else min(wanted, hard)


def _confine(with_parent: bool) -> None:
    """Little memory, no core file, and an end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # An interrupt is for the parent.
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm") as stream:
            held = int(stream.read().split()[0]) * resource.getpagesize()
        # Whoever started us may have less: nobody can raise such a limit.
        room = _least(held + ROOM, resource.getrlimit(resource.RLIMIT_AS)[1])
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        if with_parent:
            import ctypes

            set_death_signal = 1
            ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


def main() -> None:
    """Examine the files named on standard input, one JSON line each, until it is closed."""
    import h5py  # noqa: F401

    answers = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    limited = os.name == "posix"
    if limited:
        _confine(with_parent=sys.argv[-1] == "with parent")
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        task = json.loads(line)
        answer: dict[str, str] = {}
        try:
            if limited:
                _limit(task["seconds"])
            examine(task["path"], task["kind"])
        except OpsplitError as reason:
            answer = {"refused": str(reason)}
        except MemoryError:
            answer = {"memory": "yes"}
        except Exception as reason:
            answer = {"failed": str(reason) or type(reason).__name__}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
