"""Readers and writers of files users have."""

from opsplit.io.well import load_trajectories, read_well, write_well

__all__ = ["load_trajectories", "read_well", "write_well"]
