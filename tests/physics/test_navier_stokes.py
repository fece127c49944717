"""The vorticity solver against exact solutions, orders and invariants."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from opsplit.grid import Grid
from opsplit.physics import navier_stokes
from opsplit.physics.navier_stokes import VISCOSITIES, NavierStokes, resample

SIDE = 2 * math.pi
PHYSICS = NavierStokes(Grid((32, 32), (SIDE, SIDE)), fine=64)


def numbers(nu: float, advection: float) -> dict[str, Tensor]:
    return {k: torch.tensor([v]).double() for k, v in (("nu", nu), ("advection", advection))}


def plane(points: int = 32) -> tuple[Tensor, Tensor]:
    x = SIDE * torch.arange(points, dtype=torch.float64) / points
    return torch.meshgrid(x, x, indexing="ij")


def test_taylor_green_vortices_only_decay() -> None:
    x, y = plane()
    u = (2 * torch.sin(2 * x) * torch.sin(2 * y))[None, None]
    nu = 0.05
    found = PHYSICS.solve(u, numbers(nu, 1.0), torch.tensor([1.0]).double())
    exact = u * math.exp(-8 * float(torch.tensor([nu])[0]) * 1.0)
    torch.testing.assert_close(found[:, 0], exact, rtol=0, atol=1e-9)


def test_heat_is_exact() -> None:
    x, y = plane()
    u = torch.sin(x + 2 * y)[None, None]
    found = PHYSICS.solve(u, numbers(0.25, 0.0), torch.tensor([2.0]).double())
    torch.testing.assert_close(found[:, 0], u * math.exp(-0.25 * 5 * 2.0), rtol=0, atol=1e-12)


def test_euler_keeps_energy_enstrophy_and_the_mean() -> None:
    u = 0.3 * PHYSICS.initial_fields(1, torch.Generator().manual_seed(0))
    whole = NavierStokes(Grid((128, 128), (SIDE, SIDE)), fine=128)
    start = torch.fft.irfft2(resample(torch.fft.rfft2(u), (32, 32), (128, 128)), s=(128, 128))
    found = whole.solve(start, numbers(0.0, 1.0), torch.tensor([0.0, 0.5]).double())[0, :, 0]
    spectrum = torch.fft.fft2(found).abs().square()
    k = torch.fft.fftfreq(128, 1 / 128).double()
    k2 = (k[:, None] ** 2 + k**2).clamp_min(1e-30)
    k2[0, 0] = torch.inf
    for invariant in (spectrum.sum((1, 2)), (spectrum / k2).sum((1, 2))):
        assert float(invariant[1] / invariant[0]) == pytest.approx(1, abs=1e-5)
    assert float(found.mean((1, 2)).abs().max()) < 1e-12


def test_steps_in_time_are_of_fourth_order(monkeypatch: pytest.MonkeyPatch) -> None:
    u = PHYSICS.initial_fields(1, torch.Generator().manual_seed(1))
    mu = numbers(0.01, 1.0)

    def run(courant: float) -> Tensor:
        monkeypatch.setattr(navier_stokes, "COURANT", courant)
        return PHYSICS.solve(u, mu, torch.tensor([0.3]).double())

    finest = run(0.05)
    errors = [float((run(c) - finest).norm()) for c in (1.6, 0.8, 0.4)]
    assert math.log2(errors[0] / errors[1]) > 3 and math.log2(errors[1] / errors[2]) > 3


def test_a_finer_simulation_agrees() -> None:
    u = PHYSICS.initial_fields(1, torch.Generator().manual_seed(2))
    time = torch.tensor([0.2]).double()
    coarse, fine = (
        NavierStokes(PHYSICS.grid, fine=n).solve(u, numbers(0.01, 1.0), time) for n in (64, 128)
    )
    assert float((coarse - fine).norm() / fine.norm()) < 1e-3


def test_resampling_there_and_back_changes_nothing() -> None:
    u = PHYSICS.initial_fields(1, torch.Generator().manual_seed(0))
    up = resample(torch.fft.rfft2(u), (32, 32), (64, 64))
    back = torch.fft.irfft2(resample(up, (64, 64), (32, 32)), s=(32, 32))
    torch.testing.assert_close(back, u, rtol=0, atol=1e-12)
    # Every other point of the finer grid is a point of the coarse one.
    torch.testing.assert_close(torch.fft.irfft2(up)[..., ::2, ::2], u, rtol=0, atol=1e-12)


def test_least_squares_on_the_known_terms_finds_the_viscosity() -> None:
    u = PHYSICS.initial_fields(1, torch.Generator().manual_seed(0))
    times = torch.arange(6).double() * 0.02
    window = PHYSICS.solve(u, numbers(0.01, 1.0), times)[0]
    found = PHYSICS.least_squares(window, 0.02)
    assert found["nu"] == pytest.approx(0.01, rel=0.05)
    assert found["advection"] == pytest.approx(1, rel=0.02)


def test_samplers() -> None:
    generator = torch.Generator().manual_seed(0)
    pure = PHYSICS.sample_coefficients("train", 40, generator)
    assert bool(((pure["nu"] == 0) == (pure["advection"] == 1)).all())
    both = PHYSICS.sample_coefficients("NS", 40, generator)
    assert set(both["nu"].tolist()) <= set(VISCOSITIES)
