"""A user's own right-hand side or flow as an operator."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from building import LINE, waves
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.operators import OperatorFamily, UserFunction

ONE = torch.ones(1, 1, dtype=torch.float64)


def act(family: UserFunction, u: Tensor, t: float | Tensor, strength: Tensor = ONE) -> Tensor:
    return family.flow(family.prepare(strength, LINE), u, t)


def test_a_right_hand_side_is_integrated_with_order_four(
    fitted_order: Callable[..., float],
) -> None:
    u = torch.linspace(0.1, 0.9, 32, dtype=torch.float64)[None, None, None]
    counts = (2, 4, 8)
    errors = []
    for n in counts:
        family = UserFunction(1, 1, f=lambda u: u * (1 - u), max_step=2 / n)
        assert family.evaluations(2.0) == 4 * n
        grown = u * math.exp(2)
        errors.append(float((act(family, u, 2.0) - grown / (1 - u + grown)).norm()))
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(4, abs=0.3)


def test_a_step_is_called_as_it_is_with_states_in_one_row() -> None:
    seen = []

    def step(u: Tensor, dt: Tensor) -> Tensor:
        seen.append((tuple(u.shape), tuple(dt.shape)))
        return u * torch.exp(-dt)

    family = UserFunction(1, 1, step=step)
    u = torch.randn(2, 3, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    durations = torch.tensor([0.5, 2.0], dtype=torch.float64)
    found = act(family, u, durations, torch.tensor([[1.0], [3.0]], dtype=torch.float64))
    assert seen == [((6, 1, 32), (6, 1, 1))]
    decay = torch.exp(-torch.tensor([0.5, 6.0], dtype=torch.float64))
    torch.testing.assert_close(found, u * decay.reshape(2, 1, 1, 1))


def test_a_function_and_its_step_agree() -> None:
    u = torch.randn(2, 3, 1, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    durations = torch.tensor([0.05, 0.1], dtype=torch.float64)
    by_f = act(UserFunction(1, 1, f=lambda u: -u, max_step=0.01), u, durations, ONE.expand(2, 1))
    by_step = act(
        UserFunction(1, 1, step=lambda u, h: u * torch.exp(-h)), u, durations, ONE.expand(2, 1)
    )
    torch.testing.assert_close(by_f, by_step, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [lambda u: u[..., :-1], lambda u: u.mean(), lambda u: u[:, :1], lambda u: u[0]],
    ids=["space", "scalar", "channel", "state"],
)
def test_a_function_that_changes_the_shape_is_refused(wrong: Callable[[Tensor], Tensor]) -> None:
    u = torch.ones(1, 3, 2, 32, dtype=torch.float64)
    for family in (
        UserFunction(2, 1, f=wrong),
        UserFunction(2, 1, step=lambda u, dt: wrong(u)),
    ):
        with pytest.raises(OpsplitError, match=r"returned shape .* must agree"):
            act(family, u, 0.1)


def test_exactly_one_of_function_and_step_is_needed() -> None:
    for options in ({}, {"f": lambda u: u, "step": lambda u, h: u}):
        with pytest.raises(OpsplitError, match="exactly one of"):
            UserFunction(1, 1, **options)


def test_a_function_cannot_be_saved_and_says_what_to_do() -> None:
    with pytest.raises(OpsplitError, match="add it again after loading"):
        UserFunction(1, 1, f=lambda u: u).to_json()
    with pytest.raises(OpsplitError, match="Unknown operator family 'function'"):
        OperatorFamily.from_json({"kind": "function"})


@given(strength=st.floats(0.1, 3.0), decay=st.floats(0.1, 3.0))
def test_the_rate_of_a_flow_is_found_by_differences(
    smooth: Callable[..., Tensor], strength: float, decay: float
) -> None:
    family = UserFunction(1, 1, step=lambda u, h: u * torch.exp(-decay * h))
    prepared = family.prepare(torch.tensor([[strength], [2 * strength]]).double(), LINE)
    u = smooth(LINE, (2, 3, 1))
    expected = -decay * strength * u * torch.tensor([1.0, 2.0]).reshape(2, 1, 1, 1)
    torch.testing.assert_close(family.rate(prepared, u), expected, rtol=1e-3, atol=1e-12)


def test_the_rate_of_a_function_is_its_value_times_its_strength(
    smooth: Callable[..., Tensor],
) -> None:
    family = UserFunction(1, 1, f=waves)
    u = smooth(LINE, (2, 3, 1))
    found = family.rate(family.prepare(torch.tensor([[0.5], [2.0]]).double(), LINE), u)
    torch.testing.assert_close(found[0], 0.5 * waves(u[0]))
    torch.testing.assert_close(found[1], 2.0 * waves(u[1]))
