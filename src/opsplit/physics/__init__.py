"""Equations, by name.

A new equation is one file with one subclass of `Physics`, and one line below. A package adds its
own by an entry point of the group `opsplit.physics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opsplit.errors import OpsplitError
from opsplit.registry import Registry

if TYPE_CHECKING:
    from opsplit.physics.advection_diffusion import AdvectionDiffusion as AdvectionDiffusion
    from opsplit.physics.base import Physics as Physics
    from opsplit.physics.combined import Combined as Combined
    from opsplit.physics.gray_scott import GrayScott as GrayScott
    from opsplit.physics.gray_scott_3d import GrayScott3D as GrayScott3D
    from opsplit.physics.line import Line as Line
    from opsplit.physics.navier_stokes import NavierStokes as NavierStokes

_OURS = {
    "advection-diffusion": "opsplit.physics.advection_diffusion:AdvectionDiffusion",
    "combined": "opsplit.physics.combined:Combined",
    "gray-scott": "opsplit.physics.gray_scott:GrayScott",
    "gray-scott-3d": "opsplit.physics.gray_scott_3d:GrayScott3D",
    "navier-stokes": "opsplit.physics.navier_stokes:NavierStokes",
    "line": "opsplit.physics.line:Line",
}
PHYSICS: Registry[type[Physics]] = Registry("physics", "opsplit.physics", _OURS)

# Equations are imported on first use: the command line needs their names only.
_CLASSES = {"Physics": "opsplit.physics.base:Physics"} | {
    place.partition(":")[2]: place for place in _OURS.values()
}


def get_physics(name: str, preset: str = "cpu") -> Physics:
    """The equation of that name with the grid, times and counts of a preset.

    Returns:
        The equation, with its samplers and its solver.

    Raises:
        OpsplitError: if there is no such equation or preset.

    Examples:
        >>> import opsplit
        >>> opsplit.get_physics("gray-scott").channels
        ('A', 'B')
    """
    equation = PHYSICS[name]
    if preset not in equation.presets:
        raise OpsplitError(
            f"Unknown preset {preset!r} of {name}; choose from {sorted(equation.presets)}."
        )
    return equation(**equation.presets[preset])


def first_physics() -> str:
    """The name of the equation that commands take if none is given."""
    return next(iter(PHYSICS))


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module 'opsplit.physics' has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _CLASSES[name].partition(":")
    return getattr(import_module(module), attribute)


__all__ = ["PHYSICS", "Physics", "first_physics", "get_physics"]
