"""Where to compute: a device that is there, and which process of several this is."""

from __future__ import annotations

import os
import re

from opsplit._text import plain
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


def rank() -> int:
    """Which of the processes of one training this is; torchrun and SLURM say so."""
    if "LOCAL_RANK" in os.environ:
        return _number("RANK", 0)
    return _number("SLURM_PROCID", 0) if _number("SLURM_NTASKS", 1) > 1 else 0


def _number(name: str, usual: int) -> int:
    """A whole number from the environment."""
    said = os.environ.get(name, str(usual))
    try:
        return int(said)
    except ValueError:
        raise OpsplitError(
            f"The environment variable {name} must be a whole number, got {plain(repr(said), 60)}."
        ) from None
