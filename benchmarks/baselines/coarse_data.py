"""A small training set of an equation whose own set takes hours: every training dynamics once,
simulated on the stored points (`Physics.coarse`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

from opsplit._tensors import threads
from opsplit.benchmark.tasks import join
from opsplit.physics import get_physics

FRAMES = 34
"""Enough for a window of 16 frames and the frames after it."""


def main(name: str, out: Path) -> None:
    physics = replace(get_physics(name).coarse(), frames=FRAMES)
    counts = [physics.trajectories_of(i) // physics.per_environment for i in
              range(len(next(iter(physics.environments().values()))))]  # fmt: skip
    parts = []
    with threads(1):
        for number, count in enumerate(counts):
            for one in range(count):
                # A seed that no test window has: those begin at multiples of 100,003.
                parts.append(physics.generate_environment(number, 1, 50_000 + 100 * number + one))
                print(f"dynamics {number + 1} of {len(counts)}, trajectory {one + 1} of {count}")
    together = join(parts)
    # Every eighth trajectory is held out: mixed, so that these are of all mechanisms.
    order = torch.randperm(len(together), generator=torch.Generator().manual_seed(0))
    out.parent.mkdir(parents=True, exist_ok=True)
    together[order].save(out)
    print(f"{out}: {together}")
