"""Several files of one system as one recording: trajectories one file after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from opsplit.errors import OpsplitError
from opsplit.io.guard import check_small
from opsplit.io.recording import Recording

ALIKE = 1e-3
"""Times between frames may differ by this share: stored times are rounded."""
OF_WELL = (".hdf5", ".h5")
"""Names of files that may be parts of a data set of The Well, which has a reader of its own."""


def files_in(folder: Path, suffixes: Sequence[str]) -> list[Path]:
    """The files of a folder that can be read, in the order of their names.

    None of them if the folder is a data set of The Well, or has nothing but files of HDF5. Files
    whose name begins with a dot are not the user's but the system's.
    """
    there = (p for p in folder.iterdir() if p.suffix.lower() in suffixes)
    found = sorted(p for p in there if p.is_file() and not p.name.startswith("."))
    whole = (folder / "data").is_dir() or all(p.suffix.lower() in OF_WELL for p in found)
    return [] if whole else found


def joined(source: str, count: int, opened: Callable[[int], Recording]) -> Recording:
    """All trajectories of recordings that have the same grid, channels and time between frames.

    A coefficient that a file does not name is zero there: its mechanism does not act. The frames
    are as many as the shortest file has. Of the files, the first and one other are open at a time:
    what was inflated of one is given back before the next is read.

    Arguments:
        count: number of files.
        opened: the recording of a file.
    """
    first = opened(0)
    frames, shapes = first.shape[1], []
    known: list[dict[str, np.ndarray]] = []
    terms: dict[str, str] = {}
    guessed: dict[str, str] = {}
    for i in range(count):
        part = opened(i)
        _check_alike(first, part, terms)
        frames = min(frames, part.shape[1])
        shapes.append(part.shape)
        known.append(dict(part.coefficients))
        terms |= part.terms
        guessed |= part.guessed
    lengths = [shape[0] for shape in shapes]
    begin = np.cumsum([0, *lengths])
    names = dict.fromkeys(name for held in known for name in held)
    check_small(f"{source}: coefficients of all trajectories", len(names) * int(begin[-1]))
    recent = lru_cache(maxsize=1)(opened)

    def fetch(trajectory: int, chosen: slice) -> np.ndarray:
        which = int(np.searchsorted(begin, trajectory, "right")) - 1
        part = recent(which)
        if part.shape != shapes[which]:
            raise OpsplitError(f"{part.source} was changed while it was read.")
        return part.fetch(trajectory - int(begin[which]), chosen)

    said = [f"Trajectories of {count} files, one after the other."]
    if frames < max(shape[1] for shape in shapes):
        said.append(f"Of every file the first {frames} frames, as many as the shortest has.")
    if any(names.keys() - held.keys() for held in known):
        said.append("A coefficient that a file does not name is taken as 0 there.")
    each = list(zip(known, lengths, strict=True))
    return replace(
        first,
        source=source,
        shape=(int(begin[-1]), frames, *first.shape[2:]),
        times=first.times[:frames],
        coefficients={
            name: np.concatenate([held.get(name, np.zeros(n)) for held, n in each])
            for name in names
        },
        terms=terms,
        facts=(*said, *first.facts),
        guessed=guessed,
        fetch=fetch,
    )


def _check_alike(first: Recording, other: Recording, terms: Mapping[str, str]) -> None:
    """Refuse a file that does not belong to the same system.

    Arguments:
        terms: of the coefficients of the files before it.
    """
    short = min(first.shape[1], other.shape[1])
    steps = np.diff(first.times[:short]), np.diff(other.times[:short])
    reason = ""
    if first.grid != other.grid:
        reason = f"their grids differ, {first.grid} and {other.grid}"
    elif first.channels != other.channels:
        reason = f"their channels differ, {first.channels} and {other.channels}"
    elif not np.allclose(*steps, rtol=ALIKE, atol=0):
        reason = f"the times between frames differ, {first.dt:.6g} and {other.dt:.6g}"
    for name in terms.keys() & other.terms.keys():
        if terms[name] != other.terms[name]:
            reason = f"the terms of {name} differ, {terms[name]} and {other.terms[name]}"
    if reason:
        raise OpsplitError(f"{first.source} and {other.source} do not belong together: {reason}.")
