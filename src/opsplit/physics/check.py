"""Do stored trajectories follow the equation and the coefficients that their file names?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.io.well import read_head, read_well
from opsplit.physics import PHYSICS, get_physics
from opsplit.physics.base import Physics
from opsplit.trajectories import Trajectories


def check_file(path: Path, n: int = 1) -> dict[str, Any]:
    """Simulate `n` trajectories of a file again, frame by frame, each from the frame before.

    Returns the file, the physics, the largest share of the allowed error (`worst`, above 1 is
    too much), whether all agree and, if not, `words` on what does not.
    """
    head = read_head(path)
    if head.name not in PHYSICS:
        raise OpsplitError(f"{path} is of {head.name!r}; known physics are {sorted(PHYSICS)}.")
    preset = str(head.facts.get("preset", "cpu"))
    physics = replace(get_physics(head.name, preset), grid=head.grid)  # type: ignore[type-var]
    result = {"file": str(path), "physics": physics.name}
    if set(head.channels) != set(physics.channels):
        words = f"fields {list(head.channels)}, where there should be {list(physics.channels)}"
        return {**result, "agrees": False, "worst": None, "words": words}
    order = [head.channels.index(channel) for channel in physics.channels]
    held = read_well(path)
    nothing = torch.zeros(len(held), dtype=torch.float64)
    worst, found = 0.0, []
    for i in torch.linspace(0, len(held) - 1, min(n, len(held))).long().tolist():
        frames = held.data[i][:, order].double()
        # A coefficient of which a file says nothing is taken for zero.
        one = {k: held.coefficients.get(k, nothing)[[i]] for k in physics.terms}
        error, allowed = physics.retrace(frames, one, held.dt)
        worst = max(worst, float((error / allowed).max()))
        if bool((error > allowed).any()):
            found.append(_words(physics, held, i, frames, error, allowed))
    return {**result, "agrees": not found, "worst": worst, "words": "; ".join(found)}


def _words(
    physics: Physics, held: Trajectories, i: int, frames: Tensor, error: Tensor, allowed: Tensor
) -> str:
    off = error > allowed
    first, last = int(off.nonzero().min()), int(off.nonzero().max())
    at = int((error / allowed).argmax())
    said = ", ".join(f"{k}={float(v[i]):.4g}" for k, v in held.coefficients.items())
    said = said or "the equation without coefficients"
    words = (
        f"trajectory {i} does not follow {said} in {int(off.sum())} of {len(off)} steps between "
        f"frames {first} and {last + 1}, worst to frame {at + 1}: off by {error[at]:.2g} of the "
        f"change, {allowed[at]:.2g} allowed"
    )
    if 2 * int(off.sum()) < len(off):
        return words
    fit = physics.least_squares(frames, held.dt)
    return f"{words} (least squares: {', '.join(f'{k}={v:.4g}' for k, v in fit.items())})"
