"""Files of The Well as one lazy recording."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from opsplit.io.assemble import Raw
from opsplit.io.guard import dataset, opened
from opsplit.io.parts import Part, hdf5_part
from opsplit.io.well import WellHead, check_alike, check_field, read_head, well_files
from opsplit.terms import terms_from


def of_well(source: str, paths: Sequence[str | Path]) -> Raw:
    """One file, several, or a folder: trajectories one file after the other."""
    files = [file for path in paths for file in well_files(path)]
    heads = [read_head(file, irregular=True) for file in files]
    first = heads[0]
    for head in heads[1:]:
        check_alike(first, head)
    parts = [_parts(head) for head in heads]
    ends = np.cumsum([head.n for head in heads])

    def place(trajectory: int) -> tuple[Sequence[Part], int]:
        i = int(np.searchsorted(ends, trajectory, side="right"))
        return parts[i], trajectory - int(ends[i]) + heads[i].n

    letters = "xyz"[: first.grid.ndim]
    return Raw(
        source, "well", "ntc" + letters, (int(ends[-1]), *first.shape[1:]), place, first.channels,
        times=first.times, extent=first.grid.extent, coordinates={},
        boundary=tuple(first.grid.boundary),
        coefficients={
            name: np.concatenate([head.coefficients[name] for head in heads])
            for name in first.coefficients
        },
        terms=terms_from(first.facts["terms"], str(first.path)) if "terms" in first.facts else {},
        said=(f"Trajectories of {len(files)} files, one after the other.",) * (len(files) > 1),
    )  # fmt: skip


def _parts(head: WellHead) -> list[Part]:
    """Every field with the axes it varies along; shapes are checked here, values never read."""
    found, channels = [], iter(head.channels)
    with opened(head.path, "as HDF5 of The Well") as file:
        for group, name in head.fields:
            order = int(group[1])
            used = check_field(head, dataset(head.path, file, f"{group}/{name}"), name, order)
            letters = "nt" + "xyz"[: head.grid.ndim]
            axes = "".join(a for a, use in zip(letters, used, strict=True) if use) + "cd"[:order]
            names = tuple(itertools.islice(channels, head.grid.ndim**order))
            found.append(hdf5_part(head.path, f"{group}/{name}", axes, names))
    return found
