"""Readers and writers of files users have."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opsplit.io.load import load_trajectories as load_trajectories
    from opsplit.io.well import read_well as read_well
    from opsplit.io.well import write_well as write_well

# Imported on first use: the process that examines files needs none of it.
_HOME = {"load_trajectories": "load", "read_well": "well", "write_well": "well"}

__all__ = ["load_trajectories", "read_well", "write_well"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'opsplit.io' has no attribute {name!r}")
    return getattr(import_module(f"opsplit.io.{_HOME[name]}"), name)
