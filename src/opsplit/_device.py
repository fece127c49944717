"""Where to compute: a name that torch knows, of a device that is there."""

from __future__ import annotations

import re

from opsplit.errors import OpsplitError


def check_device(name: str) -> None:
    """Raise in a sentence if this machine has no such device."""
    if not isinstance(name, str) or not re.fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise OpsplitError(f"Unknown --device {name!r:.60}; choose cpu, cuda, cuda:1 or mps.")
    kind, _, number = name.partition(":")
    if kind == "cpu":
        return
    import torch

    there = torch.cuda if kind == "cuda" else torch.backends.mps
    if not there.is_available():
        raise OpsplitError(f"This machine has no {kind} device; use --device cpu.")
    if number and int(number) >= torch.cuda.device_count():
        raise OpsplitError(
            f"This machine has {torch.cuda.device_count()} cuda device(s), counted from 0; there "
            f"is no {name}."
        )
