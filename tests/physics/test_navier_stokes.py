"""The vorticity solver against exact solutions, orders and invariants."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.fourier import fit_modes
from opsplit.grid import Grid
from opsplit.physics import get_physics, navier_stokes
from opsplit.physics.navier_stokes import VISCOSITIES, NavierStokes

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
    start = torch.fft.irfft2(fit_modes(torch.fft.rfft2(u), (32, 32), (128, 128)), s=(128, 128))
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
        monkeypatch.setitem(navier_stokes.COURANT, "rk4", courant)
        return PHYSICS.solve(u, mu, torch.tensor([0.3]).double())

    finest = run(0.05)
    errors = [float((run(c) - finest).norm()) for c in (1.6, 0.8, 0.4)]
    assert math.log2(errors[0] / errors[1]) > 3 and math.log2(errors[1] / errors[2]) > 3


def invariants(w: Tensor) -> tuple[float, float]:
    """Enstrophy and energy of a field `(x, y)`, up to constants."""
    points = len(w)
    k = torch.fft.fftfreq(points, 1 / points).double()
    square = k[:, None] ** 2 + k**2
    square[0, 0] = torch.inf
    power = torch.fft.fft2(w).abs().square()
    return float(power.sum()), float((power / square).sum())


def whole(points: int) -> tuple[NavierStokes, NavierStokes]:
    """The midpoint rule and RK4 on the same modes, all of which the frames keep."""
    grid = Grid((points, points), (SIDE, SIDE))
    return (
        NavierStokes(grid, fine=points, scheme="midpoint"),
        NavierStokes(grid, fine=3 * points // 2),
    )


def test_the_midpoint_rule_keeps_energy_and_enstrophy(monkeypatch: pytest.MonkeyPatch) -> None:
    implicit, explicit = whole(32)
    # Steps of the same length: a cell of 32 points is as long as 1.5 cells of 48.
    monkeypatch.setitem(navier_stokes.COURANT, "rk4", 1.5 * navier_stokes.COURANT["midpoint"])
    u = implicit.initial_fields(1, torch.Generator().manual_seed(0))
    times = torch.linspace(0, 3, 13).double()
    drift = []
    for physics in (implicit, explicit):
        found = physics.solve(u, numbers(0.0, 1.0), times)[0, :, 0]
        begin, end = invariants(found[0]), invariants(found[-1])
        drift.append([abs(b / a - 1) for a, b in zip(begin, end, strict=True)])
        # Nothing is kept by standing still.
        assert float((found[-1] - found[0]).norm() / found[0].norm()) > 0.5
    assert max(drift[0]) < 1e-9
    assert min(drift[1]) > 1e3 * max(drift[0])


@pytest.mark.parametrize("nu", [0.0, 0.02])
def test_the_midpoint_rule_is_of_second_order_and_tends_to_rk4(
    nu: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    implicit, explicit = whole(32)
    monkeypatch.setitem(navier_stokes.COURANT, "rk4", 0.1)
    u = implicit.initial_fields(1, torch.Generator().manual_seed(1))
    time = torch.tensor([0.3]).double()
    exact = explicit.solve(u, numbers(nu, 1.0), time)
    errors = []
    for courant in (0.4, 0.2, 0.1):
        monkeypatch.setitem(navier_stokes.COURANT, "midpoint", courant)
        found = implicit.solve(u, numbers(nu, 1.0), time)
        errors.append(float((found - exact).norm() / exact.norm()))
    assert errors[0] < 0.02
    assert 1.8 < math.log2(errors[0] / errors[1]) < 2.2
    assert 1.8 < math.log2(errors[1] / errors[2]) < 2.2


def test_steps_too_long_for_the_iteration_and_unknown_schemes_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    implicit, _ = whole(32)
    monkeypatch.setitem(navier_stokes.COURANT, "midpoint", 50.0)
    u = implicit.initial_fields(1, torch.Generator().manual_seed(0))
    with pytest.raises(OpsplitError, match="did not converge"):
        implicit.solve(u, numbers(0.0, 1.0), torch.tensor([4.0]).double())
    with pytest.raises(OpsplitError, match=r"Unknown scheme 'leapfrog'; choose from \['midpoint'"):
        NavierStokes(scheme="leapfrog")


def test_doubling_the_resolution_changes_less_and_less() -> None:
    u = PHYSICS.initial_fields(1, torch.Generator().manual_seed(2))
    time = torch.tensor([0.3]).double()
    runs = [
        NavierStokes(PHYSICS.grid, fine=n).solve(u, numbers(0.01, 1.0), time) for n in (32, 64, 128)
    ]
    first, second = ((a - b).norm() / b.norm() for a, b in itertools.pairwise(runs))
    assert float(second) < 1e-4 and float(second) < 0.02 * float(first)


def test_resampling_there_and_back_changes_nothing() -> None:
    u = PHYSICS.initial_fields(1, torch.Generator().manual_seed(0))
    up = fit_modes(torch.fft.rfft2(u), (32, 32), (64, 64))
    back = torch.fft.irfft2(fit_modes(up, (64, 64), (32, 32)), s=(32, 32))
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


def test_the_list_of_dynamics_is_euler_and_sixteen_viscosities() -> None:
    table = PHYSICS.environments()
    assert table["advection"].tolist() == [1.0] + 16 * [0.0]
    assert table["nu"][0] == 0 and table["nu"][[1, 16]].tolist() == pytest.approx([1e-4, 1e-2])
    ratios = table["nu"][2:] / table["nu"][1:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, 100 ** (1 / 15)))
    for preset, count in (("cpu", 4), ("paper", 64)):
        physics = get_physics("navier-stokes", preset)
        counts = [physics.trajectories_of(i) for i in range(17)]
        assert counts == [16 * count] + 16 * [count]
    paper = get_physics("navier-stokes", "paper")
    assert isinstance(paper, NavierStokes)
    assert (paper.grid.shape, paper.fine, paper.scheme) == ((256, 256), 512, "midpoint")


def test_heat_begins_with_snapshots_of_euler_flows() -> None:
    short = replace(PHYSICS, frames=8)
    euler, heat = (short.generate_environment(i, 2, seed=5).data[:, 0, 0] for i in (0, 16))
    flow = short.generate_environment(0, 2, seed=5)
    assert torch.equal(flow.data[:, 0, 0], euler)
    # The same field before, of no mode above five, with a history for heat alone.
    high = [torch.fft.rfft2(u, norm="forward").abs()[:, 6:27, 6:].amax() for u in (euler, heat)]
    assert float(high[0]) < 1e-6 and float(high[1]) > 1e-4
    power = [u.double().square().mean((1, 2)) for u in (euler, heat)]
    torch.testing.assert_close(power[0], power[1], rtol=0.02, atol=0)


def test_a_batch_of_one_is_one_of_a_batch() -> None:
    u = PHYSICS.initial_fields(2, torch.Generator().manual_seed(0))
    times = torch.tensor([0.1, 0.2]).double()
    both = {"nu": torch.tensor([0.01, 0.0]).double(), "advection": torch.ones(2).double()}
    found = PHYSICS.solve(u, both, times)
    for i in range(2):
        alone = PHYSICS.solve(u[[i]], {k: v[[i]] for k, v in both.items()}, times)
        # Steps are shared by a batch; their error is all that differs.
        torch.testing.assert_close(found[[i]], alone, rtol=0, atol=1e-4)
