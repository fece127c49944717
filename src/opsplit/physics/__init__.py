"""Equations, by name."""

from __future__ import annotations

from opsplit.errors import OpsplitError
from opsplit.physics.advection_diffusion import AdvectionDiffusion
from opsplit.physics.base import Physics

PHYSICS: dict[str, type[Physics]] = {AdvectionDiffusion.name: AdvectionDiffusion}


def get_physics(name: str) -> Physics:
    """The equation of that name with its default grid and times."""
    if name not in PHYSICS:
        raise OpsplitError(f"Unknown physics {name!r}; choose from {sorted(PHYSICS)}.")
    return PHYSICS[name]()


__all__ = ["PHYSICS", "AdvectionDiffusion", "Physics", "get_physics"]
