"""The Gray-Scott solver against exact solutions, orders and invariants."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from opsplit.grid import Grid
from opsplit.physics import get_physics, gray_scott
from opsplit.physics.gray_scott import FEEDS, KILLS, GrayScott

PHYSICS = GrayScott(Grid((32, 32), (0.5, 0.5)))
NAMES = ("F", "k", "reaction", "diffusion")


def numbers(*values: float) -> dict[str, Tensor]:
    return {k: torch.tensor([v], dtype=torch.float64) for k, v in zip(NAMES, values, strict=True)}


def start(seed: int = 0) -> Tensor:
    return PHYSICS.initial_fields(1, torch.Generator().manual_seed(seed))


def test_diffusion_with_killing_is_exact() -> None:
    x = 0.5 * torch.arange(32, dtype=torch.float64) / 32
    wave = 0.5 + 0.2 * torch.cos(2 * math.pi * x / 0.5)[:, None].expand(32, 32)
    u = torch.stack([wave, wave])[None]
    found = PHYSICS.solve(u, numbers(0, 0.06, 0, 1), torch.tensor([7.0]).double())[0, 0]
    q = (2 * math.pi / 0.5) ** 2
    for channel, (rate, kill) in enumerate(((2e-5, 0.0), (1e-5, 0.06))):
        decayed = 0.5 + (wave - 0.5) * math.exp(-rate * q * 7)
        torch.testing.assert_close(found[channel], decayed * math.exp(-kill * 7), atol=1e-7, rtol=0)


def test_reaction_alone_is_a_differential_equation_in_every_point() -> None:
    u = start()
    found = PHYSICS.solve(u, numbers(0.03, 0, 1, 0), torch.tensor([5.0]).double())[0, 0]
    a, b = u[0, :, 3, 4].tolist()
    for _ in range(50_000):
        turned = a * b * b
        a, b = a + 1e-4 * (0.03 * (1 - a) - turned), b + 1e-4 * (turned - 0.03 * b)
    assert found[:, 3, 4].tolist() == pytest.approx([a, b], abs=1e-4)


def test_without_feeding_and_killing_mass_is_kept() -> None:
    u = start()
    mass = PHYSICS.solve(u, numbers(0, 0, 1, 1), torch.arange(10.0).double()).sum((2, 3, 4))
    torch.testing.assert_close(mass, mass[:, :1].expand_as(mass), rtol=1e-9, atol=0)


def test_strang_splitting_is_of_second_order(monkeypatch: pytest.MonkeyPatch) -> None:
    u, mu = start(), numbers(0.03, 0.06, 1, 1)

    def run(substep: float) -> Tensor:
        monkeypatch.setattr(gray_scott, "SUBSTEP", substep)
        return PHYSICS.solve(u, mu, torch.tensor([16.0]).double())

    finest = run(0.03125)
    errors = [float((run(h) - finest).norm()) for h in (1.0, 0.5, 0.25)]
    assert 1.7 < math.log2(errors[0] / errors[1]) < 2.4
    assert 1.7 < math.log2(errors[1] / errors[2]) < 2.4


def test_fields_stay_concentrations_and_samplers_on_their_grids() -> None:
    u = start(3)
    assert float(u.min()) > -0.05 and float(u.max()) < 1.5
    generator = torch.Generator().manual_seed(0)
    pure = PHYSICS.sample_coefficients("train", 50, generator)
    assert bool((pure["reaction"] + pure["diffusion"] == 1).all())
    assert bool((pure["F"] * pure["k"] == 0).all())
    both = PHYSICS.sample_coefficients("GS", 50, generator)
    assert set(both["F"].tolist()) <= set(FEEDS) and set(both["k"].tolist()) <= set(KILLS)


def test_least_squares_on_the_known_terms_finds_the_coefficients() -> None:
    mu = numbers(0.04, 0.06, 1, 1)
    window = PHYSICS.solve(start(1), mu, torch.arange(16.0).double())[0]
    found = PHYSICS.least_squares(window, 1.0)
    assert found["F"] == pytest.approx(0.04, abs=2e-3)
    assert found["k"] == pytest.approx(0.06, abs=4e-3)
    assert found["reaction"] == pytest.approx(1, abs=0.03)


def test_doubling_the_resolution_changes_little() -> None:
    """A smooth field on 32, 64 and 128 points: the points shared by all agree ever better."""
    mu, time = numbers(0.04, 0.06, 1, 1), torch.tensor([20.0]).double()

    def run(points: int) -> Tensor:
        x = 2 * math.pi * torch.arange(points, dtype=torch.float64) / points
        wave = torch.sin(x)[:, None] * torch.cos(x + 0.3 * torch.sin(x))
        u = torch.stack([0.6 + 0.2 * wave, 0.3 - 0.2 * wave])[None]
        found = GrayScott(Grid((points, points), (0.5, 0.5))).solve(u, mu, time)
        return found[..., :: points // 32, :: points // 32]

    coarse, middle, fine = (run(n) for n in (32, 64, 128))
    first, second = float((coarse - middle).norm()), float((middle - fine).norm())
    assert second < 1e-7 * float(fine.norm()) and second < 0.01 * first


def test_the_list_of_dynamics_is_diffusion_with_killing_then_reaction_with_feeding() -> None:
    table = PHYSICS.environments()
    assert all(len(values) == 40 for values in table.values())
    assert table["diffusion"].tolist() == [1.0] * 20 + [0.0] * 20
    assert table["reaction"].tolist() == [0.0] * 20 + [1.0] * 20
    assert table["k"].tolist() == pytest.approx([0.051 + 0.001 * i for i in range(20)] + [0] * 20)
    assert table["F"].tolist() == pytest.approx([0] * 20 + [0.005 * i for i in range(1, 21)])
    counts = {p: get_physics("gray-scott", p).trajectories_of(7) for p in ("paper", "cpu")}
    assert counts == {"paper": 512, "cpu": 8}
    paper, cpu = (get_physics("gray-scott", p).grid for p in ("paper", "cpu"))
    assert paper.shape == (128, 128) and paper.spacing == cpu.spacing


def test_training_is_reproducible_and_a_batch_of_one_is_one_of_a_batch() -> None:
    short = GrayScott(PHYSICS.grid, frames=3)
    made = short.generate_environment(25, 2, seed=3)
    assert torch.equal(made.data, short.generate_environment(25, 2, seed=3).data)
    assert not torch.equal(made.data, short.generate_environment(25, 2, seed=4).data)
    assert made.coefficients["F"].tolist() == [0.03, 0.03]
    times = torch.arange(3).double()
    u = made.data[:, 0].double()
    whole = short.solve(u, made.coefficients, times)
    alone = short.solve(u[1:], {k: v[1:] for k, v in made.coefficients.items()}, times)
    assert torch.equal(whole[1:], alone)
