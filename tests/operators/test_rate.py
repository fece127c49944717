"""Rates are what flows begin with, and a batch does not feel its neighbours."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, Part
from opsplit.grid import Grid
from opsplit.operators import Linear, OperatorFamily, Spectral, UNet, UserFunction, make_family

Smooth = Callable[..., Tensor]
Order = Callable[..., float]
FEW = settings(max_examples=5)
LINE, PLANE = Grid((32,), (16.0,)), Grid((16, 32), (5.0, 7.0))
WALLS = Grid((32,), (16.0,), ("reflect",))

FLUX: dict[str, Any] = {
    "copies": 0, "shifts": 4, "products": 6, "constants": False, "absolute": True, "dealias": 1.0,
    "wavenumber_scale": 0.4, "spacing": 0.5, "quiet": True, "output_scale": 0.1,
}  # fmt: skip
FLOW: dict[str, Any] = {"degree": 2, "constants": False, "inverse": True, "output_scale": 2.0}
REACTION: dict[str, Any] = {
    "degree": 3, "derivatives": False, "dealias": 1.0, "centre": (0.7, 0.2), "spread": (0.3, 0.1)
}  # fmt: skip


def waves(u: Tensor) -> Tensor:
    return u.roll(1, -1) - u.roll(-1, -1) - u**3


FAMILIES: dict[str, tuple[OperatorFamily, Grid]] = {
    "linear": (Linear(2, 1), LINE),
    "linear on a plane": (Linear(1, 2), PLANE),
    "spectral": (Spectral(1, 1, max_step=0.05), LINE),
    "spectral without products": (Spectral(2, 1, max_step=0.05, copies=0), LINE),
    "spectral on a plane": (Spectral(2, 2, max_step=0.05, layers=2, inverse=True), PLANE),
    "spectral with fluxes": (Spectral(1, 1, max_step=0.05, **FLUX), LINE),
    "spectral with a polynomial": (Spectral(1, 2, max_step=0.05, **FLOW), PLANE),
    "spectral with a reaction": (Spectral(2, 2, max_step=0.05, **REACTION), PLANE),
    "unet": (UNet(1, 1, max_step=0.05), LINE),
    "unet on a plane": (UNet(2, 2, max_step=0.05), PLANE),
    "unet with walls": (UNet(1, 1, max_step=0.05, boundary=("reflect",)), WALLS),
    "function": (UserFunction(1, 1, f=waves, max_step=0.05), LINE),
}
every = pytest.mark.parametrize("name", FAMILIES)


def parameters(family: OperatorFamily, n: int, seed: int) -> Tensor:
    """Random operators; a diffusion is never negative."""
    generator = torch.Generator().manual_seed(seed)
    begin = family.initialisation(generator)
    noise = torch.randn(n, family.n_parameters, generator=generator)
    if isinstance(family, Linear | UserFunction):
        return (0.1 + 0.3 * noise.abs()).double()
    return (begin.start + 0.3 * begin.scale * noise).double()


def draw(name: str, n: int, smooth: Smooth, seed: int) -> tuple[OperatorFamily, Any, Tensor]:
    family, grid = FAMILIES[name]
    prepared = family.prepare(parameters(family, n, seed), grid)
    return family, prepared, smooth(grid, (n, 2, family.channels), seed=seed, size=2.0)


# Rates


@every
@pytest.mark.parametrize("seed", [0, 1])
def test_a_rate_is_what_the_flow_begins_with(
    name: str, seed: int, smooth: Smooth, fitted_order: Order
) -> None:
    family, prepared, u = draw(name, 2, smooth, seed)
    rate = family.rate(prepared, u)
    assert rate.shape == u.shape
    steps = [1e-3, 5e-4, 2.5e-4]
    quotients = [(family.flow(prepared, u, h) - u) / h for h in steps]
    errors = [float((q - rate).norm() / rate.norm()) for q in quotients]
    assert errors[-1] < 0.02
    assert fitted_order(steps, errors) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("name", [name for name in FAMILIES if "spectral" in name])
def test_a_family_from_its_stored_configuration_flows_alike(name: str, smooth: Smooth) -> None:
    family, prepared, u = draw(name, 3, smooth, 0)
    again = make_family(family.name, **json.loads(json.dumps(family.config())))
    assert again.config() == family.config()
    theta = parameters(family, 3, 0)
    together = family.flow(prepared, u, 0.1)
    assert torch.equal(again.flow(again.prepare(theta, prepared.grid), u, 0.1), together)
    for e in range(3):
        alone = family.flow(family.prepare(theta[e : e + 1], prepared.grid), u[e : e + 1], 0.1)
        torch.testing.assert_close(together[e : e + 1], alone, rtol=1e-10, atol=1e-12)


@given(strength=st.floats(0.1, 3.0), decay=st.floats(0.1, 3.0))
def test_the_rate_of_a_flow_is_found_by_differences(
    smooth: Smooth, strength: float, decay: float
) -> None:
    family = UserFunction(1, 1, step=lambda u, h: u * torch.exp(-decay * h))
    prepared = family.prepare(torch.tensor([[strength], [2 * strength]]).double(), LINE)
    u = smooth(LINE, (2, 3, 1))
    expected = -decay * strength * u * torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1)
    torch.testing.assert_close(family.rate(prepared, u), expected, rtol=1e-3, atol=1e-12)


def test_the_rate_of_a_function_is_its_value_times_its_strength(smooth: Smooth) -> None:
    family = UserFunction(1, 1, f=waves)
    u = smooth(LINE, (2, 3, 1))
    found = family.rate(family.prepare(torch.tensor([[0.5], [2.0]]).double(), LINE), u)
    torch.testing.assert_close(found[0], 0.5 * waves(u[0]))
    torch.testing.assert_close(found[1], 2.0 * waves(u[1]))


@every
def test_rates_of_a_batch_equal_each_alone(name: str, smooth: Smooth) -> None:
    family, prepared, u = draw(name, 3, smooth, 0)
    together = family.rate(prepared, u)
    for e in range(3):
        alone = family.rate(prepared.take(torch.tensor([e])), u[e : e + 1])
        torch.testing.assert_close(together[e], alone[0], rtol=0, atol=1e-11)
    assert float((together[0] - together[1]).abs().max()) > 1e-6


def several(seed: int, scale: float = 1.0) -> OperatorDictionary:
    """Five operators of four families on a line; the first ones see fields divided by a scale."""
    names = ("spectral", "unet", "function")
    families = [FAMILIES[name][0] for name in names]
    parts = [Part(f, parameters(f, 1, seed + i)) for i, f in enumerate(families)]
    parts[0] = Part(families[0], parameters(families[0], 2, seed), None, scale)
    exact = Linear(1, 1)
    return OperatorDictionary((*parts, Part(exact, parameters(exact, 1, seed))))


@FEW
@given(index=st.lists(st.integers(0, 4), min_size=1, max_size=7), seed=st.integers(0, 99))
def test_rates_of_several_families_equal_each_alone(
    smooth: Smooth, index: list[int], seed: int
) -> None:
    u = smooth(LINE, (len(index), 2, 1), seed=seed)
    operators = several(seed, scale=3.0).prepare(LINE, u)
    together = operators.rate(torch.tensor(index), u)
    for e, i in enumerate(index):
        alone = operators.rate(torch.tensor([i]), u[e : e + 1])
        torch.testing.assert_close(together[e], alone[0], rtol=0, atol=1e-11)
        flow = operators.flow(torch.tensor([i]), u[e : e + 1], 1e-5)
        torch.testing.assert_close((flow - u[e : e + 1]) / 1e-5, alone, rtol=1e-2, atol=1e-3)


# Durations


@FEW
@given(
    entries=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from([0.0, 0.01, 0.05, 0.07, 0.2])),
        min_size=1,
        max_size=8,
    ),
    seed=st.integers(0, 99),
)
def test_entries_of_different_durations_equal_each_alone(
    smooth: Smooth, entries: list[tuple[int, float]], seed: int
) -> None:
    index, durations = (torch.tensor(x) for x in zip(*entries, strict=True))
    u = smooth(LINE, (len(index), 2, 1), seed=seed)
    operators = several(seed, scale=2.0).prepare(LINE, u)
    together = operators.flow(index, u, durations.double())
    for e in range(len(index)):
        for h in (float(durations[e]), durations[[e]].double()):
            alone = operators.flow(index[[e]], u[[e]], h)
            torch.testing.assert_close(together[e], alone[0], rtol=0, atol=1e-7)


@every
def test_durations_within_one_family_equal_each_alone(name: str, smooth: Smooth) -> None:
    family, grid = FAMILIES[name]
    dictionary = OperatorDictionary((Part(family, parameters(family, 3, 0)),))
    u = smooth(grid, (5, 2, family.channels))
    operators, index = dictionary.prepare(grid, u), torch.tensor([0, 2, 1, 0, 2])
    durations = torch.tensor([0.2, 0.05, 0.0, 0.01, 0.13]).double()
    together = operators.flow(index, u, durations)
    for e in range(5):
        alone = operators.flow(index[[e]], u[[e]], float(durations[e]))
        torch.testing.assert_close(together[e], alone[0], rtol=0, atol=1e-11)


@pytest.mark.parametrize("duration", [0.1, torch.tensor([0.1, 0.1], dtype=torch.float64)], ids=type)
def test_strong_functions_do_not_refine_the_steps_of_weak_ones(
    duration: float | Tensor, smooth: Smooth
) -> None:
    """A strength makes a flow longer, so it counts when steps are counted."""
    family = UserFunction(1, 1, f=lambda u: u - u**3, max_step=0.1)
    codes = torch.tensor([[1.0], [5.0]]).double()
    u = smooth(LINE, (2, 1, 1))
    operators = OperatorDictionary((Part(family, codes),)).prepare(LINE, u)
    together = operators.flow(torch.tensor([0, 1]), u, duration)
    for e in range(2):
        alone = operators.flow(torch.tensor([e]), u[[e]], 0.1)
        torch.testing.assert_close(together[e], alone[0], rtol=0, atol=1e-14)


def test_the_evaluations_of_several_durations_are_their_mean() -> None:
    family = Spectral(1, 1, max_step=0.1)
    dictionary = OperatorDictionary((Part(family, parameters(family, 1, 0)),))
    operators = dictionary.prepare(LINE, torch.zeros(1).double())
    assert operators.evaluations(0.1) == 4
    assert operators.evaluations(torch.tensor([0.0, 0.1, 0.2, 0.5])) == (4 + 4 + 8 + 20) / 4
