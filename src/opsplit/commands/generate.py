"""`opsplit generate`: simulate trajectories, one file of them or a whole training set."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from opsplit._files import read_json, remove_parts, write_json
from opsplit._origin import origin
from opsplit._text import say, to_json
from opsplit.commands.common import once
from opsplit.commands.spread import Spread
from opsplit.display import span
from opsplit.errors import OpsplitError
from opsplit.physics import PHYSICS, first_physics

if TYPE_CHECKING:
    from opsplit.physics import Physics

ARCHIVE = "trajectories.npz"
NOT_STORED = {"device", "format", "verify"}
"""Flags that do not change what a data set holds."""


@dataclass(frozen=True)
class Generate(Spread):
    """Simulate trajectories of an equation and store them.

    The training set of an equation with a list of training dynamics goes to
    OUT/PHYSICS/data/train, one file per dynamics in the layout of The Well. The same command again
    makes the files that are missing.

    Example: opsplit generate --split train --n 64 --out data
    """

    physics: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(help=f"The equation: {', '.join(PHYSICS)}."),
    ] = first_physics()
    preset: str = "cpu"
    """Sizes of the paper or those that two cores can afford: paper, cpu."""
    split: str = "train"
    """Which coefficients; `opsplit info PHYSICS` lists the splits."""
    n: int | None = None
    """Trajectories (default 64), in training sets those of each dynamics (default: preset)."""
    frames: int | None = None
    """Frames per trajectory (default: those of the benchmark)."""
    format: Literal["hdf5", "npz"] | None = None
    """The Well's files in OUT/PHYSICS or OUT/trajectories.npz (default: hdf5 for training sets
    with a list of dynamics, else npz)."""
    workers: int | None = None
    """Processes that simulate files, one thread each (default: as many as cores)."""
    verify: Annotated[Path | None, tyro.conf.arg(name="check")] = None
    """Make nothing: simulate --n trajectories (default 1) of each of these HDF5 files again, a file
    or a folder, and say which do not follow their coefficients."""
    out: Path | None = Path("data")
    """Folder for what is made."""

    def replaces(self) -> tuple[Path, ...]:
        # Files of other equations may lie in the same folder.
        return () if self.out is None else (self.out / ARCHIVE,)

    def settings(self) -> dict[str, Any]:
        return {k: v for k, v in super().settings().items() if k not in NOT_STORED}

    def run(self) -> None:
        from opsplit.physics import get_physics

        if self.verify is not None:
            self._verify(self.verify)
            return
        self.check()
        physics = get_physics(self.physics, self.preset)
        physics.check_split(self.split)
        if self.frames == 1:
            raise OpsplitError("--frames 1 has no dynamics; at least 2 frames are needed.")
        if self.frames is not None:
            physics = replace(physics, frames=self.frames)  # type: ignore[type-var]
        listed = self.split == "train" and physics.per_environment > 0
        if self.format == "hdf5" or (self.format is None and listed):
            self._files(physics)
        else:
            self._archive(physics)

    def _archive(self, physics: Physics) -> None:
        """All trajectories in one `.npz`."""

        def work() -> dict[str, Any]:
            assert self.out is not None
            made = physics.generate(self.split, self.n or 64, self.seed)
            file = made.save(self.out / ARCHIVE)
            ranges = {k: [float(v.min()), float(v.max())] for k, v in made.coefficients.items()}
            return {
                "file": str(file),
                "shape": list(made.data.shape),
                "dt": made.dt,
                "coefficients": ranges,
            }

        def words(result: dict[str, Any]) -> str:
            ranges = ", ".join(f"{k} {span(*ends)}" for k, ends in result["coefficients"].items())
            return (
                f"{result['file']}: (trajectory, time, channel, *space) {result['shape']}, "
                f"dt={result['dt']:.6g}, {ranges}"
            )

        once(self, work, words)

    def _files(self, physics: Physics) -> None:
        """A data set in the layout of The Well."""
        from opsplit.io.well_statistics import write_statistics
        from opsplit.physics.dataset import check_space, make_all, plan

        assert self.out is not None
        began = time.monotonic()
        root = self.out / physics.name
        folder = root / "data" / ("train" if self.split == "train" else "test")
        folder.mkdir(parents=True, exist_ok=True)
        works = plan(physics, self.preset, self.split, self.n, self.seed, folder)
        record = folder / f"{self.split}.json"
        facts = {"settings": self.settings(), **origin(self.seed)}
        self._claim(record, facts)
        remove_parts(folder)
        check_space(works, folder)
        sums, made = make_all(works, self.where(os.cpu_count() or 1), quiet=self.json)
        if self.split == "train":
            write_statistics(sums, root / "stats.yaml")
        shape = works[0].shape[1:]
        result = {
            "folder": str(folder),
            "files": len(works),
            "made": made,
            "trajectories": sum(work.n for work in works),
            "shape": list(shape),
            "dt": physics.dt,
            "gigabytes": sum(work.path.stat().st_size for work in works) / 1e9,
            "minutes": (time.monotonic() - began) / 60,
        }
        if made:
            write_json(record, {**facts, "result": result})
        if self.json:
            say(to_json(result))
            return
        say(
            f"{folder}: {result['trajectories']} trajectories (time, channel, *space) "
            f"{result['shape']}, dt={physics.dt:.6g}, in {len(works)} files, "
            f"{result['gigabytes']:.3g} GB; {made} made now in {result['minutes']:.1f} min"
        )

    def _verify(self, place: Path) -> None:
        from opsplit.io.well import well_files
        from opsplit.physics.check import check_file
        from opsplit.progress import Progress

        if self.n is not None and self.n < 1:
            raise OpsplitError(f"--n must be a positive number, got {self.n}.")
        folders = sorted(place.glob("data/*/")) or [place]
        files = [file for folder in folders for file in well_files(folder)]
        results = []
        with Progress("checking", enabled=not self.json) as bar:
            for i, file in enumerate(files):
                results.append(check_file(file, self.n or 1))
                if not self.json:
                    say(_verdict(results[-1]))
                bar.update((i + 1) / len(files), f"{i + 1} of {len(files)} files")
        wrong = [result["file"] for result in results if not result["agrees"]]
        if self.json:
            say(to_json({"files": results, "disagree": len(wrong)}))
        if wrong:
            raise OpsplitError(
                f"{len(wrong)} of {len(files)} files do not hold what they say, the first "
                f"{wrong[0]}; delete them and run the command that made them again."
            )

    def _claim(self, record: Path, facts: dict[str, Any]) -> None:
        """Leave a record before the first file, and refuse a folder with files of another."""
        stored = sorted(record.parent.glob(f"{self.split}-*.hdf5"))
        if self.force:
            for file in stored:
                file.unlink()
        elif record.exists():
            held, mine = read_json(record).get("settings", {}), facts["settings"]
            other = [f"{k} {held.get(k)}, not {v}" for k, v in mine.items() if held.get(k) != v]
            if other:
                raise OpsplitError(
                    f"{record.parent} holds trajectories made with other settings "
                    f"({'; '.join(other)}); choose another --out, or --force to replace them."
                )
            return
        elif stored:
            raise OpsplitError(
                f"{stored[0]} is there without {record.name}, which says how it was made; "
                f"choose another --out, or --force to replace the files of {self.split}."
            )
        write_json(record, facts)


def _verdict(result: dict[str, Any]) -> str:
    if result["agrees"]:
        share = f"{result['worst']:.2g} of the allowed error"
        return f"{result['file']}: agrees with {result['physics']} ({share})"
    return f"{result['file']}: DISAGREES with {result['physics']}: {result['words']}"
