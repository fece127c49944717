"""Which baselines are trained on which data, and the few settings that depend on the equation."""

from __future__ import annotations

from pathlib import Path

from opsplit.baselines import TRAINED
from opsplit.baselines.trained import FOLDER

RUNS = FOLDER
DATA = Path("runs/data")
METHODS = tuple(TRAINED)
FLAGS: dict[tuple[str, str], list[str]] = {
    # Codes as long as the paper's.
    ("advection-diffusion", "geps"): ["--model.code", "2"],
    ("advection-diffusion", "disco"): ["--model.encoder.code", "2"],
    # 64 x 64 points: as many tokens as 128 x 128 points have with the usual patch.
    ("gray-scott", "mpp"): ["--model.patch", "8"],
}
