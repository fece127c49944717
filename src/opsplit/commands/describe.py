"""`opsplit describe`: what a file holds and which bundled models can take it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from opsplit._text import say, to_json
from opsplit.commands.common import Common
from opsplit.errors import OpsplitError


@dataclass(frozen=True)
class ReadFlags(Common):
    """Flags of commands that read fields over time."""

    files: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """A file (.h5 of The Well or PDEBench, .nc, .zarr, .npy, .npz, .mat, .csv), or files or a
    folder of The Well."""
    axes: str | None = None
    """Names of the array's axes in order, such as t,x or n,t,c,x,y."""
    channels: str | None = None
    """Names of the channels, or which to read of a file that names them: u,v."""
    dt: float | None = None
    """Time between frames."""
    extent: tuple[float, ...] | None = None
    """Physical length of every space axis."""
    boundary: str | None = None
    """periodic, dirichlet, dirichlet=300, neumann or open: one per axis with commas, with a colon
    between different ends."""
    ndim: int | None = None
    """Number of space axes, where an array does not tell."""

    def check(self) -> None:
        super().check()
        if not self.files:
            raise OpsplitError("Name a file to read, such as frames.npy.")

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

    explain: bool = True
    """Fit the models to the last frames and say how much of the change each explains."""

    def run(self) -> None:
        self.check()
        from opsplit.predict.describe import describe

        found = describe(self.source(), **self.said(), explain=self.explain)
        say(to_json(found.to_json()) if self.json else found)
