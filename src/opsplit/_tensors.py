"""Weights on disk (safetensors, read only if they are what they should be), and threads."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from opsplit._files import atomic, inside, regular
from opsplit.errors import OpsplitError, named
from opsplit.settings import shown

LARGEST = 2_000_000_000
"""Bytes that the numbers of one model, or of all its operators, may take."""
LARGEST_HEADER = 5_000_000
DTYPES = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8}
"""What numbers may be stored as, and their bytes."""

Shapes = Mapping[str, tuple[int, ...]]
P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use `count` threads for a while: the order of its sums depends on them."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def usual_defaults() -> Iterator[None]:
    """Single precision on the CPU for tensors of which nothing else is said.

    A user may have set other defaults of torch for the whole process. Public functions that make
    tensors are decorated with it.
    """
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    if dtype is torch.float32 and device.type == "cpu":
        yield
        return
    torch.set_default_dtype(torch.float32)
    try:
        with torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A function that people call: with the usual defaults, and sentences for unknown arguments."""
    return named(usual_defaults()(function))


def dense(given: Tensor) -> Tensor:
    """A tensor of plain numbers as it is; other kinds are refused in a sentence."""
    odd = given.is_nested or given.layout is not torch.strided or given.is_quantized
    if odd or given.device.type == "meta":
        raise OpsplitError(
            "Fields must be a dense tensor that holds numbers, not a sparse, nested, quantised or "
            "meta one; use to_dense() or dequantize()."
        )
    return given.to(torch.complex64) if given.dtype is torch.complex32 else given


def as_numpy(given: Tensor) -> np.ndarray:
    """The numbers of a tensor; numpy has no short ones such as bfloat16."""
    whole = dense(given).detach().cpu()
    short = whole.is_floating_point() and whole.element_size() < 4
    found: np.ndarray = (whole.float() if short else whole).numpy()
    return found


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file, whole or not at all."""
    with atomic(path) as partial:
        try:
            save_file(dict(tensors), partial, metadata)
        except SafetensorError as reason:
            raise OSError(_first_line(reason)) from None


def read_tensors(folder: Path, name: str, check: Callable[[Shapes], None]) -> dict[str, Tensor]:
    """The tensors of a file in `folder`; `check` sees their shapes before any of them is read."""
    path = inside(folder, name)
    try:
        size = regular(path).st_size
        with open(path, "rb") as stream:
            (header,) = struct.unpack("<Q", stream.read(8))
        if header > min(LARGEST_HEADER, size):
            raise ValueError(f"a header of {header} bytes")
        with safe_open(path, "pt") as file:
            facts: dict[str, Any] = {key: file.get_slice(key) for key in file.keys()}  # noqa: SIM118
            for key, held in facts.items():
                if held.get_dtype() not in DTYPES:
                    raise ValueError(f"{key} has the type {held.get_dtype()}")
            check({key: tuple(held.get_shape()) for key, held in facts.items()})
            tensors = {key: file.get_tensor(key) for key in facts}
    except FileNotFoundError:
        raise OpsplitError(f"{folder} has no {name}.") from None
    except OpsplitError as reason:
        raise OpsplitError(f"{path}: {reason}") from None
    except (SafetensorError, ValueError, RuntimeError, OSError, struct.error) as reason:
        raise OpsplitError(
            f"{path} cannot be read ({_first_line(reason)}). "
            "The file is damaged or belongs to another configuration."
        ) from None
    for key, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise OpsplitError(f"{path}: {key} holds values that are NaN or infinite.")
    return tensors


def about_as_many(numbers: int, found: Shapes) -> None:
    """Refuse a file that holds far fewer numbers than what it is said to fill."""
    held = sum(math.prod(shape) for shape in found.values())
    if numbers > 4 * held + 100_000:
        raise ValueError(f"it holds {held} numbers instead of about {numbers}")


def same_shapes(expected: Shapes) -> Callable[[Shapes], None]:
    """A check that a file holds these tensors and no others."""

    def check(found: Shapes) -> None:
        for name in sorted(expected.keys() ^ found.keys()):
            raise ValueError(f"{name} is {'missing' if name in expected else 'not expected'}")
        for name, shape in expected.items():
            if found[name] != shape:
                raise ValueError(f"{name} has shape {found[name]}, not {shape}")

    return check


def _first_line(reason: Exception) -> str:
    return (str(reason).strip().splitlines() or [type(reason).__name__])[0]


def chosen_numbers(index: Any, count: int, what: str) -> Tensor:
    """The numbers that an index, a list, a mask or a slice chooses out of so many.

    Raises:
        OpsplitError: if there is no such number.

    Examples:
        >>> from opsplit._tensors import chosen_numbers
        >>> chosen_numbers(-1, 3, "trajectories"), chosen_numbers([0, 2], 3, "trajectories")
        (tensor([2]), tensor([0, 2]))
    """
    try:
        if isinstance(index, Tensor):
            index = index.numpy(force=True)
        kept = index if isinstance(index, slice) else np.array(index)
        if isinstance(kept, np.ndarray) and not kept.size:
            kept = slice(0)
        return torch.from_numpy(np.atleast_1d(np.arange(count)[kept]))
    except (IndexError, ValueError, TypeError):
        raise OpsplitError(
            f"There are {count} {what}, numbered from 0; {shown(index)} is none of them."
        ) from None
