"""Functions of work items that workers can import."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

LOADED = []
"""What was unpickled in this process."""


class Counted:
    """Something shared that notices when it is unpickled."""

    def __init__(self, offset: float) -> None:
        self.offset = offset

    def __getstate__(self) -> dict[str, Any]:
        return {"offset": self.offset}

    def __setstate__(self, state: dict[str, Any]) -> None:
        LOADED.append(os.getpid())
        self.__dict__.update(state)


def add(shared: Counted, item: float) -> float:
    """A value, or a failure where the item is negative."""
    if item < 0:
        raise KeyError(f"no {item}")
    return shared.offset + item


def trouble(shared: float, item: float | str) -> Any:
    """Words do what they say; numbers come back with the number of threads."""
    if item == "crash":
        os._exit(7)
    if item == "exit":
        sys.exit(3)
    if item == "hang":
        while True:
            pass
    if item == "unpicklable":
        return lambda: None
    if isinstance(item, str):
        raise ValueError(item)
    return item + shared, torch.get_num_threads()
