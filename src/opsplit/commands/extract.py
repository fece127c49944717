"""`opsplit extract`: a dictionary of operators from trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from opsplit.commands.common import Common, model_files, once


@dataclass(frozen=True)
class Extract(Common):
    """Read one operator from every trajectory and store the dictionary.

    Example: opsplit extract --model advection-diffusion --n 64 --out dictionary

    From your own trajectories: opsplit extract --model runs/ad --data data/trajectories.npz
    """

    model: str = "advection-diffusion"
    """A bundled name or a model directory."""
    family: Literal["spectral", "unet"] | None = None
    """Which of the bundled models."""
    data: Path | None = None
    """Trajectories (.npz); without them the model's equation is simulated."""
    split: str = "train"
    """Coefficients to simulate."""
    n: int = 256
    """Operators to extract."""
    out: Path | None = Path("dictionary")
    """Folder for the dictionary."""

    def run(self) -> None:
        from opsplit.model import load_model, locate

        def work() -> dict[str, Any]:
            from opsplit.io import load_trajectories
            from opsplit.physics import get_physics
            from opsplit.pretrain.extract import extract

            assert self.out is not None
            model = load_model(self.model, self.family)
            if self.data is not None:
                examples = load_trajectories(self.data)[: self.n]
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

        source = model_files(locate(self.model, self.family))
        inputs = (*source, self.data) if self.data else source
        once(self, work, lambda r: f"{r['folder']}: {r['description']}", inputs)
