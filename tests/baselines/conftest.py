"""Waves that move one point per frame to the right or to the left: a problem of seconds."""

from __future__ import annotations

import math

import pytest
import torch

from opsplit.grid import Grid
from opsplit.trajectories import Trajectories

POINTS, FRAMES = 32, 40


@pytest.fixture(scope="session")
def waves() -> Trajectories:
    draw = torch.Generator().manual_seed(0)
    n = 32
    number = torch.randint(1, 4, (n, 1, 1), generator=draw)
    phase = 2 * math.pi * torch.rand(n, 1, 1, generator=draw)
    speed = torch.ones(n)
    speed[1::2] = -1
    x, t = torch.arange(POINTS)[None, None], torch.arange(FRAMES)[None, :, None]
    moved = x - speed[:, None, None] * t
    data = torch.sin(2 * math.pi * number * moved / POINTS + phase)[:, :, None]
    grid = Grid((POINTS,), (float(POINTS),))
    return Trajectories(data, torch.arange(FRAMES).double(), grid, ("u",), {"c": speed.double()})


@pytest.fixture(scope="session")
def blinking() -> Trajectories:
    """Three waves that change their sign with every frame."""
    n = 24
    number, sign = torch.arange(n) % 3 + 1, 1 - 2 * (torch.arange(n) // 3 % 2)
    x, t = torch.arange(POINTS)[None, None], torch.arange(FRAMES)[None, :, None]
    shape = torch.sin(2 * math.pi * number[:, None, None] * x / POINTS)
    data = (sign[:, None, None] * (1 - 2 * (t % 2)) * shape)[:, :, None]
    grid = Grid((POINTS,), (float(POINTS),))
    return Trajectories(data, torch.arange(FRAMES).double(), grid, ("u",))
