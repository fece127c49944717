"""How much memory there is, and a refusal before more than that is asked for."""

from __future__ import annotations

import ctypes
import math
import sys
from functools import cache
from pathlib import Path

from opsplit.errors import OpsplitError


def room() -> float:
    """Bytes that this process can still take, as far as the system says."""
    left = math.inf
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                left = int(line.split()[1]) * 1024.0
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            left = min(left, limit - pages * float(resource.getpagesize()))
    except (ImportError, OSError, ValueError, IndexError):
        pass  # Not every system says it.
    return left


def peak_memory_mb() -> float | None:
    """The most memory this process has held so far, where the system says."""
    try:
        import resource
    except ImportError:
        return None
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / (2**20 if sys.platform == "darwin" else 2**10)


@cache
def keep_freed_memory() -> None:
    """Let the C library keep up to a gigabyte that was freed, for the rest of the process.

    Otherwise every large array is asked of the system and given back, page by page, which takes
    as long as the arithmetic on it. Other systems than Linux with glibc decide for themselves.
    """
    trim, largest = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of <malloc.h>
    try:
        adjust = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for setting in (trim, largest):
        adjust(setting, 2**30)


def check_room(what: str, size: float, remedy: str = "use a part of it") -> None:
    """Refuse what does not fit into memory, with the number of bytes that it takes."""
    left = room()
    if size > left:
        raise OpsplitError(
            f"{what} takes {size / 1e9:.3g} GB of memory, of which {max(0.0, left) / 1e9:.3g} GB "
            f"are free; {remedy}."
        )
