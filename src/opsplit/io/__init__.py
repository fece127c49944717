"""Readers and writers of files users have."""

from opsplit.io.load import load_trajectories
from opsplit.io.well import read_well, write_well

__all__ = ["load_trajectories", "read_well", "write_well"]
