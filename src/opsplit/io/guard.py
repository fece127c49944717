"""Files are not trusted: every failure of a library becomes a sentence, every size is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from opsplit._deadline import check_time
from opsplit.errors import OpsplitError
from opsplit.io.examine import SMALL, check_storage
from opsplit.io.helper import examined

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
    check_time(path)
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

    with reading(path, words):
        examined(path, "hdf5", words)
        with h5py.File(path, "r") as file:
            yield file


def dataset(path: Path, file: Any, name: str) -> Any:
    """A dataset of real numbers that lies in this very file."""
    import h5py

    if name not in file:
        raise KeyError(f"it has no {name}")
    place = file[name]
    if not isinstance(place, h5py.Dataset):
        raise OpsplitError(f"{path}: {name} is not an array.")
    check_storage(str(path), name, place.id)
    check_kind(f"{path}: {name}", place.dtype)
    return place


def check_kind(what: str, dtype: np.dtype) -> None:
    """Refuse what are no numbers; complex ones may turn out to be real up to rounding."""
    if dtype.kind not in "fiu" and not is_complex(dtype):
        raise OpsplitError(f"{what}: Fields must be real numbers, got {dtype}.")


def is_complex(dtype: np.dtype) -> bool:
    pair = dtype.names == PAIR and all(dtype[name].kind == "f" for name in PAIR)
    return dtype.kind == "c" or pair


def check_small(what: str, count: int) -> None:
    if count > SMALL:
        raise OpsplitError(f"{what} claims {count} numbers; at most {SMALL} are believed.")


def small(path: Path, file: Any, name: str) -> np.ndarray:
    """Coordinates or coefficients, read at once."""
    held = dataset(path, file, name)
    check_small(f"{path}: {name}", held.size)
    return np.asarray(held[()], dtype=np.float64)
