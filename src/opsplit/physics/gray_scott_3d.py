"""Two species that diffuse and react in a periodic cube: the square's mechanisms in space."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from opsplit.grid import Grid
from opsplit.physics.gray_scott import GrayScott


@dataclass(frozen=True)
class GrayScott3D(GrayScott):
    """40^3 points at the spacing of the square, 48 frames one time unit apart.

    Nothing is trained on it: the operators of the square act in space as they are.
    """

    name = "gray-scott-3d"
    title = "Gray-Scott in space"
    remark = ""
    model = "gray-scott"
    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {}, "cpu": {}}

    grid: Grid = field(default_factory=lambda: Grid((40, 40, 40), (0.625, 0.625, 0.625)))
    frames: int = 48
