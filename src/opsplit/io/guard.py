"""Files are not trusted: every failure of a library becomes a sentence, every size is checked."""

from __future__ import annotations

import math
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from opsplit.errors import OpsplitError

SMALL = 10_000_000
"""Most numbers of times, coordinates or coefficients."""
CHUNK_MB = 512
"""Largest piece that must be held in memory to read one number of it."""
HDF5 = b"\x89HDF\r\n\x1a\n"
"""What an HDF5 file begins with."""
PAIR = ("real", "imag")
"""Fields of the numbers that MATLAB stores as complex ones in HDF5."""


@contextmanager
def reading(path: Path, words: str) -> Iterator[None]:
    """Whatever goes wrong inside ends in one sentence about the file.

    Arguments:
        words: such as `"as HDF5"` or `"by numpy"`.
    """
    try:
        yield
    except OpsplitError:
        raise
    except FileNotFoundError:
        raise OpsplitError(f"No such file: {path}") from None
    except PermissionError:
        raise OpsplitError(f"{path} may not be read by you; look at its permissions.") from None
    except MemoryError:
        raise OpsplitError(f"{path} asks for more memory than there is.") from None
    # Parsers of foreign files raise whatever they meet: KeyError, struct.error, zlib.error, ...
    except Exception as reason:
        said = " ".join(str(reason).strip("'\"").split())[:300] or type(reason).__name__
        raise OpsplitError(
            f"{path} cannot be read {words} ({said}); the file is damaged or of another kind."
        ) from None


@contextmanager
def opened(path: Path, words: str = "as HDF5") -> Iterator[Any]:
    """An open HDF5 file."""
    import h5py

    with reading(path, words), h5py.File(path, "r") as file:
        yield file


def dataset(path: Path, file: Any, name: str) -> Any:
    """A dataset of real numbers that lies in this very file."""
    import h5py

    place = file
    for word in name.split("/"):
        link = place.get(word, getlink=True)
        if link is None:
            raise KeyError(f"it has no {name}")
        if isinstance(link, h5py.ExternalLink):
            raise OpsplitError(f"{path}: {name} points into another file, which is not followed.")
        place = place[word]
    if not isinstance(place, h5py.Dataset):
        raise OpsplitError(f"{path}: {name} is not an array.")
    if place.is_virtual or place.external:
        raise OpsplitError(f"{path}: {name} keeps its numbers in another file; copy them into it.")
    check_kind(f"{path}: {name}", place.dtype)
    if place.chunks and math.prod(place.chunks) * place.dtype.itemsize > CHUNK_MB * 2**20:
        raise OpsplitError(
            f"{path}: {name} has chunks of {place.chunks} numbers; write it with smaller ones."
        )
    return place


def check_kind(what: str, dtype: np.dtype) -> None:
    """Refuse what are no numbers; complex ones may turn out to be real up to rounding."""
    if dtype.kind not in "fiu" and not is_complex(dtype):
        raise OpsplitError(f"{what}: Fields must be real numbers, got {dtype}.")


def is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c" or dtype.names == PAIR


def check_small(what: str, count: int) -> None:
    if count > SMALL:
        raise OpsplitError(f"{what} claims {count} numbers; at most {SMALL} are believed.")


def small(path: Path, file: Any, name: str) -> np.ndarray:
    """Coordinates or coefficients, read at once."""
    held = dataset(path, file, name)
    check_small(f"{path}: {name}", held.size)
    return np.asarray(held[()], dtype=np.float64)


PATIENCE = 8.0
"""Seconds that opening a file may take."""


def try_first(path: str, attempt: Callable[[], object]) -> None:
    """Let a child process open a file before we do.

    HDF5 can turn in circles on a damaged file and scipy's parser of MATLAB files can crash; in a
    child that costs us nothing. What the child raises does not matter: we shall raise it, too.
    """
    if not hasattr(os, "fork"):
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        try:
            # What it would say we say ourselves.
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            attempt()
        finally:
            os._exit(0)
    until, pause = time.monotonic() + PATIENCE, 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise OpsplitError(
                f"{path} cannot be opened in {PATIENCE:g} s: the file is damaged, or its disk slow."
            )
        time.sleep(pause)
        pause = min(0.05, 2 * pause)
    if os.WIFSIGNALED(status):
        raise OpsplitError(f"{path} crashes the library that reads such files: it is damaged.")


def plain(words: str, most: int = 600) -> str:
    """A message in printable characters and of reasonable length, whatever names a file holds."""
    seen = "".join(c if c.isprintable() else "?" for c in words)
    return seen if len(seen) <= most else f"{seen[: most - 40]} ... {seen[-35:]}"
