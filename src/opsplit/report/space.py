"""Pictures of fields in space: slices, and surfaces where a field has one value."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import grid_sample

from opsplit.grid import Grid
from opsplit.report.figures import Rollout, _error_curve, _figure, _frames, _note, _save
from opsplit.trajectories import Trajectories

PIXELS = 260
AZIMUTH, ELEVATION = math.radians(35), math.radians(25)
LIGHT = (0.3, -0.4, 0.85)
INK = (0.0, 0.45, 0.7)
"""Colour of a surface."""


def space_figure(rollout: Rollout, path: Path) -> None:
    """Slices of truth, forecast and error, and the surfaces of both at the last time."""
    channel = len(rollout.observed.channels) - 1
    name, predicted = list(rollout.predictions.items())[-1]
    truth = rollout.truth[-1, channel]
    level = (float(truth.max()) + float(truth.mean())) / 2
    figure = _figure(15.5, 6)
    slices, surfaces, side = figure.subfigures(1, 3, False, width_ratios=(2.3, 1, 1.2))[0]
    _frames(slices, sliced(rollout), channel, 4)
    label = rollout.observed.channels[channel]
    cells = surfaces.subplots(2, 1)
    shown = {"truth": truth, name: predicted[-1, channel]}
    for cell, (title, field) in zip(cells, shown.items(), strict=True):
        cell.imshow(surface(field.cpu(), level), origin="lower")
        cell.set_title(f"{title}: {label} = {level:.2g} at t = {rollout.moments[-1]:.3g}")
        cell.axis("off")
    curve, note = side.subplots(2, 1)
    _error_curve(curve, rollout)
    _note(note, rollout.words)
    _save(figure, path, whole=True)


def sliced(rollout: Rollout) -> Rollout:
    """The middle plane across the last axis."""

    def middle(u: Tensor) -> Tensor:
        return u[..., u.shape[-1] // 2]

    def plane(one: Trajectories) -> Trajectories:
        grid = Grid(one.grid.shape[:2], one.grid.extent[:2], one.grid.boundary[:2])
        return replace(one, data=middle(one.data), grid=grid)

    predictions = {name: middle(frames) for name, frames in rollout.predictions.items()}
    return replace(
        rollout, observed=plane(rollout.observed), future=plane(rollout.future),
        predictions=predictions,
    )  # fmt: skip


def surface(field: Tensor, level: float, pixels: int = PIXELS) -> np.ndarray:
    """An image `(pixels, pixels, 3)` of the surface where a field has this value.

    Parallel rays go through the box; the first point of each where the field rises above the level
    is lit by its gradient. Lines show the edges of the box.
    """
    right, up, ahead = _camera()
    reach = math.sqrt(3.0)
    line = torch.linspace(-reach, reach, pixels)
    start = line[None, :, None] * right + line[:, None, None] * up - reach * ahead
    steps = 3 * max(field.shape)
    depth = torch.linspace(0, 2 * reach, steps)
    inside = torch.zeros(pixels, pixels, dtype=torch.bool)
    first = torch.zeros(pixels, pixels)
    volume = field.float()[None, None]
    for row in range(0, pixels, 20):
        rays = start[row : row + 20, :, None] + depth[:, None] * ahead
        values = grid_sample(volume, _places(rays)[None], align_corners=True)[0, 0]
        box = (rays.abs() <= 1).all(-1)
        above = (values > level) & box
        inside[row : row + 20] = above.any(-1)
        first[row : row + 20] = depth[above.float().argmax(-1)]
    hit = start + first[..., None] * ahead
    normal = -_gradient(volume, hit)
    normal = normal / normal.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    light = torch.tensor(LIGHT) / torch.tensor(LIGHT).norm()
    shade = 0.35 + 0.65 * (normal * light).sum(-1).clamp_min(0)
    near = 1.15 - 0.3 * first / (2 * reach)
    colour = (shade * near)[..., None] * torch.tensor(INK) + 0.25 * (shade**8)[..., None]
    image = torch.where(inside[..., None], colour, torch.ones(3))
    image = torch.where((_edges(pixels, reach) & ~inside)[..., None], torch.tensor(0.6), image)
    return np.asarray(image.clamp(0, 1).numpy())


def _camera() -> tuple[Tensor, Tensor, Tensor]:
    """Unit vectors to the right, upwards and into the picture."""
    a, e = AZIMUTH, ELEVATION
    right = torch.tensor([-math.sin(a), math.cos(a), 0.0])
    ahead = -torch.tensor([math.cos(e) * math.cos(a), math.cos(e) * math.sin(a), math.sin(e)])
    return right, torch.linalg.cross(right, ahead), ahead


def _places(points: Tensor) -> Tensor:
    """Points in the box [-1, 1]^3 as `grid_sample` wants them: the last axis first."""
    return points.flip(-1)


def _gradient(volume: Tensor, at: Tensor) -> Tensor:
    step = 2 / max(volume.shape[2:])
    slopes = []
    for axis in range(3):
        shift = torch.zeros(3)
        shift[axis] = step
        ends = [
            grid_sample(volume, _places(at + sign * shift)[None, None], align_corners=True)[0, 0, 0]
            for sign in (1.0, -1.0)
        ]
        slopes.append(ends[0] - ends[1])
    return torch.stack(slopes, -1)


def _edges(pixels: int, reach: float) -> Tensor:
    """Pixels of the twelve edges of the box."""
    right, up, _ = _camera()
    out = torch.zeros(pixels, pixels, dtype=torch.bool)
    along = torch.linspace(-1, 1, 2 * pixels)
    for axis in range(3):
        for first in (-1.0, 1.0):
            for second in (-1.0, 1.0):
                points = torch.zeros(len(along), 3)
                others = [i for i in range(3) if i != axis]
                points[:, axis], points[:, others[0]], points[:, others[1]] = along, first, second
                place = [((points @ v + reach) / (2 * reach) * (pixels - 1)) for v in (up, right)]
                rows, columns = (p.round().long().clamp(0, pixels - 1) for p in place)
                out[rows, columns] = True
    return out
