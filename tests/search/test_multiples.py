"""Operators that are multiples of others: found where they are, and only there."""

from __future__ import annotations

import pytest
import torch

import opsplit
from opsplit.dictionary.multiples import Multiples, find_multiples
from opsplit.dictionary.prepared import PreparedDictionary
from opsplit.physics import get_physics

DEVICE = torch.device("cpu")


@pytest.mark.parametrize("name", ["advection-diffusion", "combined", "gray-scott"])
def test_rates_are_the_multiples_that_are_claimed(name: str) -> None:
    model = opsplit.load_model(name)
    data = get_physics(name).generate("train", 1, seed=3, frames=2)
    operators = model.dictionary.prepare(data.grid, data.data)
    held = operators.multiples
    some = torch.arange(0, len(operators), 7)
    rates = operators.rates(some, data.data[0, 1:].to(data.data))
    first = operators.rates(held.basis[held.place[some]], data.data[0, 1:].to(data.data))
    wanted = held.factor[some].reshape(-1, *[1] * (rates.ndim - 1)) * first
    torch.testing.assert_close(rates.double(), wanted.double(), rtol=1e-4, atol=1e-4)


def test_operators_of_one_coefficient_share_one_rate() -> None:
    model = opsplit.load_model("advection-diffusion")
    held = model.dictionary.prepare(model.config.grid, torch.zeros(1)).multiples
    assert len(held.basis) == 2 and len(held.place) == 256


def test_proportional_parameters_are_not_enough() -> None:
    """Rates that grow with the square of the parameters are no multiples."""
    parameters = torch.tensor([[1.0, 2.0], [2.0, 4.0], [0.5, 1.0], [2.0, 1.0]])
    state = torch.randn(2, 9, generator=torch.Generator().manual_seed(1))

    def linear(index: torch.Tensor) -> torch.Tensor:
        return parameters[index] @ state

    def mixed(index: torch.Tensor) -> torch.Tensor:
        return parameters[index] @ state + parameters[index].square() @ state.flip(0)

    assert find_multiples([parameters], linear, DEVICE).place.tolist() == [0, 0, 0, 1]
    assert find_multiples([parameters], linear, DEVICE).factor.tolist() == [1, 2, 0.5, 1]
    assert find_multiples([parameters], mixed, DEVICE).place.tolist() == [0, 1, 2, 3]
    # Parts have families of their own: the same parameters mean something else there.
    both = find_multiples([parameters[:2], parameters[2:]], linear, DEVICE)
    assert both.place.tolist() == [0, 0, 1, 2]


def test_an_operator_without_effect_stands_for_itself() -> None:
    parameters = torch.tensor([[0.0], [0.0], [1.0], [3.0]])
    found = find_multiples([parameters], lambda index: parameters[index], DEVICE)
    assert found.place.tolist() == [0, 1, 2, 2]


def test_a_search_finds_the_same_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    data = get_physics("advection-diffusion").generate("A+D", 1, seed=5, frames=16)
    model = opsplit.load_model("advection-diffusion")

    def found() -> opsplit.OperatorSplitter:
        return opsplit.OperatorSplitter(model).fit(data.data[0], data.dt, data.grid.extent)

    usual = found()
    monkeypatch.setattr(
        PreparedDictionary, "multiples", property(lambda self: Multiples.none(len(self), DEVICE))
    )
    alone = found()
    assert alone.coefficients_ == pytest.approx(usual.coefficients_, rel=1e-4)
    torch.testing.assert_close(alone.predict(8), usual.predict(8), rtol=1e-4, atol=1e-5)
