"""Data sets of trajectories: many files, made by several processes, resumed where they stopped."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from opsplit._files import remove_parts
from opsplit._tensors import threads
from opsplit._text import say
from opsplit.errors import OpsplitError
from opsplit.io.well import read_head, write_well
from opsplit.io.well_statistics import FieldSums, field_sums
from opsplit.parallel import HERE, Where, run_items
from opsplit.physics.base import Physics
from opsplit.progress import Progress
from opsplit.trajectories import Trajectories

BATCH_BYTES = 2**28
"""Memory of the solutions that one process simulates together."""
PER_FILE = 64
"""Most trajectories in a file, where they do not belong to a listed dynamics."""


@dataclass(frozen=True)
class Work:
    """One file to be made, in whatever order and process; its seed and number decide it all.

    Arguments:
        environment: which training dynamics of the list; -1 for coefficients of the split.
    """

    physics: Physics
    preset: str
    split: str
    number: int
    environment: int
    n: int
    seed: int
    path: Path

    @property
    def shape(self) -> tuple[int, ...]:
        physics = self.physics
        return (self.n, physics.frames, len(physics.channels), *physics.grid.shape)

    @property
    def bytes(self) -> int:
        return 4 * math.prod(self.shape)

    def parts(self) -> Iterator[Trajectories]:
        most = max(1, BATCH_BYTES // (2 * self.bytes // self.n))
        for batch, begin in enumerate(range(0, self.n, most)):
            # The split is part of the seed: tests must not begin as training does.
            words = (self.seed, self.number, batch, *self.split.encode())
            (seed,) = np.random.SeedSequence(words).generate_state(1).tolist()
            count = min(most, self.n - begin)
            if self.environment < 0:
                yield self.physics.generate(self.split, count, seed)
            else:
                yield self.physics.generate_environment(self.environment, count, seed)

    def sums(self) -> FieldSums | None:
        """Those of the finished file, or nothing if it is missing, damaged or another one."""
        try:
            if read_head(self.path).shape == self.shape:
                return field_sums(self.path)
        except OpsplitError:
            pass
        return None


def plan(
    physics: Physics, preset: str, split: str, n: int | None, seed: int, folder: Path
) -> list[Work]:
    """The files of a split: those of the training dynamics, or `n` trajectories in equal files."""
    physics.check_split(split)
    if split == "train" and physics.per_environment:
        if n is not None:
            physics = replace(physics, per_environment=n)  # type: ignore[type-var]
        counts = [
            (environment, count)
            for environment in range(len(next(iter(physics.environments().values()))))
            for count in _shares(physics.trajectories_of(environment), physics.per_environment)
        ]
    else:
        counts = [(-1, count) for count in _shares(n or PER_FILE, PER_FILE)]
    return [
        Work(physics, preset, split, i, environment, count, seed, folder / f"{split}-{i:04d}.hdf5")
        for i, (environment, count) in enumerate(counts)
    ]


def _shares(total: int, most: int) -> list[int]:
    return [min(most, total - begin) for begin in range(0, total, most)]


def check_space(works: Iterable[Work], folder: Path) -> None:
    """Refuse to begin what the disk cannot hold."""
    # Chunks, names and checksums take a little more than the numbers.
    needed = 1.02 * sum(work.bytes for work in works if not work.path.exists())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OpsplitError(
            f"The files need {needed / 1e9:.3g} GB, but {folder} has {free / 1e9:.3g} GB left; "
            f"choose another --out, a smaller --n or --preset cpu."
        )


def make(work: Work) -> tuple[FieldSums, bool]:
    """The sums of a file, which is simulated unless it is there; and whether it was."""
    found = work.sums()
    if found is not None:
        return found, False
    # The same bytes, whoever makes them: in a process of many threads or in one of several.
    with threads(1):
        write_well(work.parts(), work.path, work.physics.name, {"preset": work.preset})
    made = work.sums()
    if made is None or not all(np.isfinite(total).all() for total in made.values()):
        work.path.unlink(missing_ok=True)
        raise OpsplitError(f"The simulation of {work.path.name} did not stay finite.")
    return made, True


def make_all(works: list[Work], where: Where = HERE, quiet: bool = False) -> tuple[FieldSums, int]:
    """Make what is missing; the sums of all files and how many were made.

    Interrupted, it keeps the files that are complete and says so.
    """
    sums: dict[Path, FieldSums] = {}
    reasons: list[str] = []
    made = done = 0
    total = sum(work.n for work in works)
    try:
        with Progress(f"simulating {works[0].physics.name}", enabled=not quiet) as bar:
            for outcome in run_items(_make, works, where=where):
                done += outcome.item.n
                if outcome.value is None:
                    reasons.append(f"{outcome.item.path.name}: {outcome.reason}")
                    continue
                sums[outcome.item.path], fresh = outcome.value
                made += fresh
                bar.update(done / total, f"{len(sums)} of {len(works)} files")
    except KeyboardInterrupt:
        for folder in {work.path.parent for work in works}:
            remove_parts(folder)
        complete = sum(work.path.exists() for work in works)
        say(
            f"opsplit: {complete} of {len(works)} files are complete and kept; "
            f"the same command makes the others.",
            sys.stderr,
        )
        raise
    if reasons:
        raise OpsplitError(
            f"{len(reasons)} of {len(works)} files were not made; the same command tries them "
            f"again. {reasons[0]}"
        )
    # In the order of the files, so that sums do not depend on which was finished first.
    whole: FieldSums = {}
    for work in works:
        for name, numbers in sums[work.path].items():
            whole[name] = whole.get(name, 0) + numbers
    return whole, made


def _make(shared: None, work: Work) -> tuple[FieldSums, bool]:
    return make(work)
