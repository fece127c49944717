"""Equations, by name."""

from __future__ import annotations

from opsplit.errors import OpsplitError
from opsplit.physics.advection_diffusion import AdvectionDiffusion
from opsplit.physics.base import Physics
from opsplit.physics.combined import Combined
from opsplit.physics.gray_scott import GrayScott
from opsplit.physics.navier_stokes import NavierStokes

PHYSICS: dict[str, type[Physics]] = {
    equation.name: equation for equation in (AdvectionDiffusion, Combined, GrayScott, NavierStokes)
}


def get_physics(name: str, preset: str = "cpu") -> Physics:
    """The equation of that name with the grid, times and counts of a preset."""
    if name not in PHYSICS:
        raise OpsplitError(f"Unknown physics {name!r}; choose from {sorted(PHYSICS)}.")
    presets = PHYSICS[name].presets
    if preset not in presets:
        raise OpsplitError(f"Unknown preset {preset!r} of {name}; choose from {sorted(presets)}.")
    return PHYSICS[name](**presets[preset])


__all__ = [
    "PHYSICS",
    "AdvectionDiffusion",
    "Combined",
    "GrayScott",
    "NavierStokes",
    "Physics",
    "get_physics",
]
