"""Pictures of fields in space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from opsplit import Grid, Trajectories
from opsplit.report.figures import Rollout
from opsplit.report.space import sliced, space_figure, surface


def ball(radius: float, points: int = 24) -> torch.Tensor:
    x = torch.linspace(-1, 1, points)
    squares = x[:, None, None] ** 2 + x[:, None] ** 2 + x**2
    return radius - squares.sqrt()


def test_the_surface_of_a_ball_is_a_disc() -> None:
    pixels = 81
    image = surface(ball(0.6), 0.0, pixels)
    blue = (image[..., 2] > image[..., 0] + 0.02) & (image[..., 2] < 1)
    # Rays are parallel, and the picture is 2 sqrt(3) wide.
    found = blue.sum() * (2 * np.sqrt(3) / (pixels - 1)) ** 2
    assert abs(found / (np.pi * 0.6**2) - 1) < 0.1
    rows, columns = np.nonzero(blue)
    assert abs(rows.mean() - 40) < 1.5 and abs(columns.mean() - 40) < 1.5


def test_a_level_that_no_point_reaches_shows_the_edges_only() -> None:
    image = surface(ball(0.6), 5.0, 41)
    assert np.unique(image).tolist() == pytest.approx([0.6, 1.0])


def test_slices_and_surfaces_are_drawn(tmp_path: Path) -> None:
    grid = Grid((24, 24, 24), (1.0, 1.0, 1.0))
    frames = torch.stack([ball(0.5 + 0.05 * i) for i in range(6)])[None, :, None]
    times = torch.arange(6, dtype=torch.float64)
    whole = Trajectories(frames, times, grid, ("B",))
    seen, after = whole.windows(2, 0), whole.windows(4, 2)
    rollout = Rollout(seen, after, {"pursuit": after.data[0] + 0.01}, "words")
    plane = sliced(rollout)
    assert plane.observed.grid.shape == (24, 24)
    torch.testing.assert_close(plane.observed.data, seen.data[..., 12])
    space_figure(rollout, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
