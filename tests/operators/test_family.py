"""What all families promise: rates begin flows, batches do not mix, durations do not either."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from building import EVERY, LINE, parameters
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from opsplit.dictionary import OperatorDictionary, Part
from opsplit.errors import OpsplitError
from opsplit.operators import (
    FAMILIES,
    GatedProducts,
    Initialisation,
    Linear,
    OperatorFamily,
    Spectral,
    UserFunction,
)

Smooth = Callable[..., Tensor]
Order = Callable[..., float]
FEW = settings(max_examples=5)
every = pytest.mark.parametrize("name", EVERY)
stored = pytest.mark.parametrize("name", [name for name in EVERY if name != "function"])


def draw(name: str, n: int, smooth: Smooth, seed: int) -> tuple[OperatorFamily, Any, Tensor]:
    family, grid = EVERY[name]
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


@stored
def test_a_family_from_json_is_the_same_and_flows_alike(name: str, smooth: Smooth) -> None:
    family, prepared, u = draw(name, 3, smooth, 0)
    again = OperatorFamily.from_json(json.loads(json.dumps(family.to_json())))
    assert again == family and hash(again) == hash(family)
    theta = parameters(family, 3, 0)
    assert theta.shape == (3, family.n_parameters) and len(prepared) == 3
    together = family.flow(prepared, u, 0.1)
    assert torch.equal(again.flow(again.prepare(theta, prepared.grid), u, 0.1), together)
    for e in range(3):
        alone = family.flow(family.prepare(theta[e : e + 1], prepared.grid), u[e : e + 1], 0.1)
        torch.testing.assert_close(together[e : e + 1], alone, rtol=1e-10, atol=1e-12)


@every
def test_the_start_has_a_number_for_every_parameter_within_its_bound(name: str) -> None:
    family, _ = EVERY[name]
    begin, again = (family.initialisation(torch.Generator().manual_seed(3)) for _ in range(2))
    assert len(begin) == len(begin.scale) == len(begin.bound) == family.n_parameters
    assert torch.equal(begin.start, again.start)
    assert bool((begin.start.abs() <= begin.bound).all() and (begin.scale > 0).all())
    if begin.variation is not None:
        assert len(begin.variation) == len(begin) and bool((begin.variation > 0).all())


@every
def test_durations_are_counted_in_whole_steps(name: str) -> None:
    family, grid = EVERY[name]
    for duration in (0.0, 0.01, 0.05, 0.0500001, 0.26):
        steps = family.steps(duration)
        assert family.evaluations(duration) in (1, 4 * steps)
        if family.max_step is not None and family.evaluations(duration) > 1:
            assert duration / steps <= family.max_step * (1 + 1e-5)
    assert family.flops(grid) > 0
    assert family.workspace(grid, 2) > family.workspace(grid, 1) > 0
    assert family.innermost.innermost is family.innermost


def test_joined_starts_are_one_after_the_other() -> None:
    one, two = torch.ones(2), 2 * torch.ones(3)
    joined = Initialisation(one, one, one).join(Initialisation(two, two, two, two))
    assert len(joined) == 5 and joined.variation is not None
    assert joined.start.tolist() == [1, 1, 2, 2, 2]
    assert joined.variation.tolist() == [1, 1, 2, 2, 2]
    assert Initialisation(one, one, one).join(Initialisation(two, two, two)).variation is None


def test_every_registered_family_is_named_by_its_kind() -> None:
    for name in FAMILIES:
        assert FAMILIES[name].kind == name
        family = FAMILIES[name]()
        assert OperatorFamily.from_json(family.to_json()) == family
    with pytest.raises(OpsplitError, match=r"Unknown operator family 'x'; choose from .*spectral"):
        OperatorFamily.from_json({"kind": "x"})
    with pytest.raises(OpsplitError, match="kind must be a name, got None"):
        OperatorFamily.from_json({})
    with pytest.raises(OpsplitError, match="must be of kind spectral, got 'unet'"):
        Spectral.from_json({"kind": "unet"})


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
    names = ("gated products", "unet", "function")
    families = [EVERY[name][0] for name in names]
    parts = [Part(f, parameters(f, 1, seed + i)) for i, f in enumerate(families)]
    parts[0] = Part(families[0], parameters(families[0], 2, seed), None, scale)
    exact = Linear(1, 1)
    return OperatorDictionary((*parts, Part(exact, parameters(exact, 1, seed))))


@FEW
@given(index=st.lists(st.integers(0, 4), min_size=1, max_size=7), seed=st.integers(0, 99))
def test_rates_of_several_families_equal_each_alone(
    smooth: Smooth, index: list[int], seed: int
) -> None:
    u = smooth(LINE, (2, 1), seed=seed)
    operators = several(seed, scale=3.0).prepare(LINE, u)
    together = operators.rates(torch.tensor(index), u)
    for e, i in enumerate(index):
        alone = operators.rates(torch.tensor([i]), u)
        torch.testing.assert_close(together[e], alone[0], rtol=0, atol=1e-11)
        flow = operators.flow(torch.tensor([i]), u[None], 1e-5)
        torch.testing.assert_close((flow - u) / 1e-5, alone, rtol=1e-2, atol=1e-3)


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
    family, grid = EVERY[name]
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
    family = Spectral(1, 1, 0.1, nonlinearity=GatedProducts())
    dictionary = OperatorDictionary((Part(family, parameters(family, 1, 0)),))
    operators = dictionary.prepare(LINE, torch.zeros(1).double())
    assert operators.evaluations(0.1) == 4
    assert operators.evaluations(torch.tensor([0.0, 0.1, 0.2, 0.5])) == (4 + 4 + 8 + 20) / 4
