"""`opsplit generate`: simulate trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from opsplit.commands.common import Common, once
from opsplit.errors import OpsplitError


@dataclass(frozen=True)
class Generate(Common):
    """Simulate trajectories of an equation and store them.

    Example: opsplit generate advection-diffusion --split A+D --n 8 --out data
    """

    physics: Annotated[str, tyro.conf.Positional] = "advection-diffusion"
    """The equation."""
    split: str = "train"
    """Which coefficients; `opsplit info PHYSICS` lists the splits."""
    n: int = 64
    """Trajectories."""
    frames: int | None = None
    """Frames per trajectory (default: those of the benchmark)."""
    out: Path | None = Path("data")
    """Folder for trajectories.npz."""

    def run(self) -> None:
        def work() -> dict[str, Any]:
            from opsplit.physics import get_physics

            assert self.out is not None
            if self.frames == 1:
                raise OpsplitError("--frames 1 has no dynamics; at least 2 frames are needed.")
            made = get_physics(self.physics).generate(self.split, self.n, self.seed, self.frames)
            file = made.save(self.out / "trajectories.npz")
            ranges = {k: [float(v.min()), float(v.max())] for k, v in made.coefficients.items()}
            return {
                "file": str(file),
                "shape": list(made.data.shape),
                "dt": made.dt,
                "coefficients": ranges,
            }

        def words(result: dict[str, Any]) -> str:
            ranges = ", ".join(
                f"{k} in [{a:.4g}, {b:.4g}]" for k, (a, b) in result["coefficients"].items()
            )
            return (
                f"{result['file']}: (trajectory, time, channel, *space) {result['shape']}, "
                f"dt={result['dt']:.6g}, {ranges}"
            )

        once(self, work, words)
