"""Several files of one system as one recording: trajectories one file after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.recording import Recording

ALIKE = 1e-3
"""Times between frames may differ by this share: stored times are rounded."""
OF_WELL = (".hdf5", ".h5")
"""Names of files that may be parts of a data set of The Well, which has a reader of its own."""


def files_in(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of a folder that can be read, in the order of their names.

    None of them if the folder is a data set of The Well, or has nothing but files of HDF5.
    """
    found = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix.lower() in suffixes)
    whole = (folder / "data").is_dir() or all(p.suffix.lower() in OF_WELL for p in found)
    return [] if whole else found


def joined(source: str, parts: Sequence[Recording]) -> Recording:
    """All trajectories of recordings that have the same grid, channels and time between frames.

    A coefficient that a file does not name is zero there: its mechanism does not act. The frames
    are as many as the shortest file has.
    """
    first = parts[0]
    for other in parts[1:]:
        _check_alike(first, other)
    frames = min(part.shape[1] for part in parts)
    names = dict.fromkeys(name for part in parts for name in part.coefficients)
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    begin = np.cumsum([0, *(len(part) for part in parts)])

    def fetch(trajectory: int, chosen: slice) -> np.ndarray:
        which = int(owner[trajectory])
        return parts[which].fetch(trajectory - int(begin[which]), chosen)

    said = [f"Trajectories of {len(parts)} files, one after the other."]
    if frames < max(part.shape[1] for part in parts):
        said.append(f"Of every file the first {frames} frames, as many as the shortest has.")
    if any(names.keys() - part.coefficients.keys() for part in parts):
        said.append("A coefficient that a file does not name is taken as 0 there.")
    return replace(
        first,
        source=source,
        shape=(len(owner), frames, *first.shape[2:]),
        times=first.times[:frames],
        coefficients={
            name: np.concatenate([p.coefficients.get(name, np.zeros(len(p))) for p in parts])
            for name in names
        },
        terms={name: text for part in parts for name, text in part.terms.items()},
        facts=(*said, *first.facts),
        guessed={what: text for part in parts for what, text in part.guessed.items()},
        fetch=fetch,
    )


def _check_alike(first: Recording, other: Recording) -> None:
    """Refuse a file that does not belong to the same system."""
    short = min(first.shape[1], other.shape[1])
    steps = np.diff(first.times[:short]), np.diff(other.times[:short])
    reason = ""
    if first.grid != other.grid:
        reason = f"their grids differ, {first.grid} and {other.grid}"
    elif first.channels != other.channels:
        reason = f"their channels differ, {first.channels} and {other.channels}"
    elif not np.allclose(*steps, rtol=ALIKE, atol=0):
        reason = f"the times between frames differ, {first.dt:.6g} and {other.dt:.6g}"
    if reason:
        raise OpsplitError(f"{first.source} and {other.source} do not belong together: {reason}.")
