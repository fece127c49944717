"""`opsplit extract`: a dictionary of operators from trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from opsplit.commands.common import Common, model_files, once


@dataclass(frozen=True)
class Extract(Common):
    """Read one operator from every trajectory and store the dictionary.

    Example: opsplit extract --model runs/mine --data mine.npz --out dictionary
    """

    model: str | None = None
    """A bundled name or a model directory (default: the first bundled model)."""
    family: str | None = None
    """Which of the bundled models of that name, such as spectral or unet."""
    data: Path | None = None
    """Trajectories: any file that `opsplit describe` reads. Without them the model's equation is
    simulated."""
    axes: str | None = None
    """Names of the axes of an array in --data, such as n,t,x."""
    dt: float | None = None
    """Time between the frames of --data, if the file does not say it."""
    extent: Annotated[tuple[float, ...] | None, tyro.conf.arg(metavar="LENGTH ...")] = None
    """Length of every space axis of --data, if the file does not say it."""
    split: str = "train"
    """Coefficients to simulate."""
    n: int = 256
    """Operators to extract."""
    out: Path | None = Path("dictionary")
    """Folder for the dictionary."""

    def run(self) -> None:
        from opsplit.model import bundled, load_model, locate

        name = self.model or next(iter(bundled()))

        def work() -> dict[str, Any]:
            from opsplit.io.read import read
            from opsplit.physics import get_physics
            from opsplit.pretrain.data import load
            from opsplit.pretrain.extract import extract

            assert self.out is not None
            model = load_model(name, self.family)
            if self.data is not None:
                recording = read(self.data, axes=self.axes, dt=self.dt, extent=self.extent)
                examples = load(recording)[: self.n]
            else:
                physics = get_physics(model.config.physics)
                physics.check_split(self.split)
                examples = physics.dictionary_trajectories(self.split, self.n, self.seed)
            dictionary = extract(model.disco, examples, seed=self.seed)
            dictionary.save(self.out)
            return {
                "folder": str(self.out),
                "operators": len(dictionary),
                "description": repr(dictionary),
            }

        source = model_files(locate(name, self.family))
        inputs = (*source, self.data) if self.data else source
        once(self, work, lambda r: f"{r['folder']}: {r['description']}", inputs)
