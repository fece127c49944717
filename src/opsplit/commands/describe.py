"""`opsplit describe`: what a file holds and which bundled models can take it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro

from opsplit._text import say, to_json
from opsplit.commands.common import Common
from opsplit.errors import OpsplitError

PATTERN = "*?["
"""Marks of a pattern that stands for many files."""


@dataclass(frozen=True)
class ReadFlags(Common):
    """Flags of commands that read fields over time."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="FILE ...")] = ()
    """A file (.npy, .npz, .csv, .nc, .zarr, .mat, .h5 of The Well or PDEBench), several, a folder
    or a pattern such as 'runs/*.h5'."""
    axes: str | None = None
    """Names of the array's axes in order, such as t,x or n,t,c,x,y."""
    channels: str | None = None
    """Names of the channels, or which to read of a file that names them: u,v."""
    dt: float | None = None
    """Time between frames."""
    extent: Annotated[tuple[float, ...] | None, tyro.conf.arg(metavar="LENGTH ...")] = None
    """Length of the box along every space axis; of a periodic one, points times spacing."""
    boundary: str | None = None
    """periodic, dirichlet, dirichlet=300, neumann or open: one per axis with commas, with a colon
    between different ends."""
    ndim: int | None = None
    """Number of space axes, where an array does not tell."""

    def check(self) -> None:
        if not self.files:
            raise OpsplitError("Name a file to read, such as frames.npy.")
        for file in self.files:
            if not file.exists() and not any(mark in str(file) for mark in PATTERN):
                from opsplit.commands.help import missing_file

                raise OpsplitError(missing_file(file))
        super().check()

    def source(self) -> Path | list[Path]:
        """The file, or several."""
        return self.files[0] if len(self.files) == 1 else list(self.files)

    def said(self) -> dict[str, Any]:
        """What the flags say about the data."""
        names = ("axes", "channels", "dt", "extent", "boundary", "ndim")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Describe(ReadFlags):
    """Say what a file holds: shape, times, grid, channels, ranges, and which models fit it.

    Example: opsplit describe frames.npy --axes t,x --dt 0.1
    """

    explain: Annotated[
        bool,
        tyro.conf.arg(help="Only compare shapes: do not fit the models, which takes seconds."),
    ] = True
    """Fit the models to the last frames and say how much of the change each explains."""
    without: ClassVar[tuple[str, ...]] = ("out", "seed", "device", "force")

    def run(self) -> None:
        self.check()
        from opsplit.predict.describe import describe

        found = describe(self.source(), **self.said(), explain=self.explain)
        say(to_json(found.to_json()) if self.json else found)
