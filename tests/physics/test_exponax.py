"""Our solvers against those of exponax, on fields smooth enough for both."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from opsplit.grid import Grid
from opsplit.physics import AdvectionDiffusion, Combined, GrayScott, NavierStokes

pytestmark = pytest.mark.slow
ex = pytest.importorskip("exponax")
jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)


def follow(stepper: object, initial: Tensor, steps: int) -> Tensor:
    """Exponax's field after many short steps."""
    run = jax.jit(ex.repeat(stepper, steps))
    return torch.from_numpy(np.array(run(jax.numpy.asarray(initial.numpy()))))


def ours(
    physics: AdvectionDiffusion | Combined | GrayScott | NavierStokes,
    u: Tensor,
    time: float,
    **mu: float,
) -> Tensor:
    coefficients = {k: torch.tensor([v], dtype=torch.float64) for k, v in mu.items()}
    return physics.solve(u[None], coefficients, torch.tensor([time], dtype=torch.float64))[0, 0]


def distance(found: Tensor, expected: Tensor, record: pytest.FixtureRequest) -> float:
    error = float((found - expected).norm() / expected.norm())
    print(f"{record.node.name}: relative difference {error:.1e}")
    return error


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_advection_diffusion(request: pytest.FixtureRequest) -> None:
    physics = AdvectionDiffusion()
    u = physics.initial_fields(1, seeded(0), "A+D")[0]
    stepper = ex.stepper.AdvectionDiffusion(1, 16.0, 256, 0.1, velocity=0.7, diffusivity=0.3)
    expected = follow(stepper, u, 30)
    assert distance(ours(physics, u, 3.0, c=0.7, D=0.3), expected, request) < 1e-6


@pytest.mark.parametrize("alpha, beta, gamma", [(0.5, 0.2, 0.0), (0.5, 0.0, 0.5), (1.0, 0.2, 0.3)])
def test_combined(alpha: float, beta: float, gamma: float, request: pytest.FixtureRequest) -> None:
    physics = Combined(Grid((512,), (16.0,)))
    u = 0.5 * physics.initial_fields(1, seeded(1))[0]

    def run(steps: int) -> Tensor:
        stepper = ex.stepper.generic.GeneralConvectionStepper(
            1, 16.0, 512, 2 / steps, linear_coefficients=(0.0, 0.0, beta, -gamma),
            convection_scale=2 * alpha, single_channel=True, conservative=True, order=4,
        )  # fmt: skip
        return follow(stepper, u, steps)

    # Exponax 0.2 takes real parts of its coefficients, which with dispersion makes it first order.
    expected = 2 * run(8000) - run(4000)
    found = ours(physics, u, 2.0, alpha=alpha, beta=beta, gamma=gamma)
    assert distance(found, expected, request) < 1e-4


def test_gray_scott(request: pytest.FixtureRequest) -> None:
    points, side = 64, 0.5
    x = 2 * math.pi * torch.arange(points, dtype=torch.float64) / points
    wave = torch.sin(x)[:, None] * torch.cos(x)
    u = torch.stack([0.6 + 0.2 * wave, 0.3 - 0.2 * wave])
    stepper = ex.stepper.reaction.GrayScott(
        2, side, points, 0.05, feed_rate=0.04, kill_rate=0.06, order=4
    )
    expected = follow(stepper, u, 400)
    physics = GrayScott(Grid((points, points), (side, side)))
    found = ours(physics, u, 20.0, F=0.04, k=0.06, reaction=1.0, diffusion=1.0)
    assert distance(found, expected, request) < 1e-3


@pytest.mark.parametrize("scheme", ["rk4", "midpoint"])
def test_navier_stokes(scheme: str, request: pytest.FixtureRequest) -> None:
    points, side = 96, 2 * math.pi
    physics = NavierStokes(Grid((points, points), (side, side)), fine=128, scheme=scheme)
    u = 0.5 * physics.initial_fields(1, seeded(2))[0]
    stepper = ex.stepper.NavierStokesVorticity(2, side, points, 1e-3, diffusivity=0.02, order=4)
    expected = follow(stepper, u, 500)
    found = ours(physics, u, 0.5, nu=0.02, advection=1.0)
    assert distance(found, expected, request) < {"rk4": 1e-6, "midpoint": 1e-3}[scheme]
