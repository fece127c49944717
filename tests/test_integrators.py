"""The two Runge-Kutta schemes: their orders, their exactness, and where they agree."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from opsplit.integrators import RK38_WEIGHTS, integrating_factor_rk4, rk38

START = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)


def logistic(u: Tensor) -> Tensor:
    return 3 * u * (1 - u)


def grown(u: Tensor, t: float | Tensor) -> Tensor:
    """The exact logistic flow."""
    rise = torch.exp(3 * torch.as_tensor(t, dtype=torch.float64))
    return u * rise / (1 + u * (rise - 1))


def test_the_error_falls_with_the_fourth_power_of_the_step(
    fitted_order: Callable[..., float],
) -> None:
    counts = (4, 8, 16, 32)
    errors = [
        float((rk38(logistic, START, torch.tensor(1.0), n) - grown(START, 1.0)).norm())
        for n in counts
    ]
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(4, abs=0.2)


def test_one_step_is_the_taylor_polynomial_of_degree_four() -> None:
    """Every fourth-order method with four stages has this stability polynomial."""
    h = torch.tensor(0.7, dtype=torch.float64)
    one = torch.ones((), dtype=torch.float64)
    expected = 1 + h + h**2 / 2 + h**3 / 6 + h**4 / 24
    torch.testing.assert_close(rk38(lambda u: u, one, h, 1), expected, rtol=1e-15, atol=0)


def test_it_is_the_three_eighths_rule() -> None:
    """Classic RK4 differs from it in the fifth power of the step, which this resolves."""
    h, f, u = 0.5, logistic, START
    k1 = f(u)
    k2 = f(u + h / 3 * k1)
    k3 = f(u + h * (-k1 / 3 + k2))
    k4 = f(u + h * (k1 - k2 + k3))
    expected = u + h * (k1 / 8 + 3 / 8 * k2 + 3 / 8 * k3 + k4 / 8)
    torch.testing.assert_close(
        rk38(f, u, torch.tensor(h, dtype=u.dtype), 1), expected, rtol=0, atol=1e-14
    )


def test_steps_are_equal_parts_of_the_duration() -> None:
    whole = rk38(logistic, START, torch.tensor(0.9, dtype=torch.float64), 3)
    parts = START
    for _ in range(3):
        parts = rk38(logistic, parts, torch.tensor(0.3, dtype=torch.float64), 1)
    torch.testing.assert_close(whole, parts, rtol=0, atol=1e-14)


def test_every_state_may_have_its_own_duration() -> None:
    durations = torch.tensor([0.1, 0.4, 0.0], dtype=torch.float64)
    together = rk38(logistic, START, durations, 2)
    alone = torch.stack([rk38(logistic, u, h, 2) for u, h in zip(START, durations, strict=True)])
    assert torch.equal(together, alone)
    assert together[2] == START[2]


def test_the_weights_are_those_of_the_stages() -> None:
    """A rate that is another constant at every stage shows how much each counts."""
    for stage, weight in enumerate(RK38_WEIGHTS):
        stages = iter([torch.tensor(float(i == stage)) for i in range(4)])
        assert float(rk38(lambda u, s=stages: next(s), torch.tensor(0.0), 1.0, 1)) == weight
    assert sum(RK38_WEIGHTS) == 1


# With an integrating factor


def exponential(L: Tensor, h: float) -> Callable[[Tensor, float], Tensor]:
    return lambda v, share: torch.exp(share * h * L) * v


@given(L=st.floats(-1e4, 1), h=st.floats(1e-3, 2), steps=st.integers(1, 4))
def test_the_linear_part_is_exact_however_stiff(L: float, h: float, steps: int) -> None:
    rate = torch.tensor(L, dtype=torch.float64)
    found = integrating_factor_rk4(exponential(rate, h), torch.zeros_like, START, h, steps)
    expected = START * torch.exp(rate * h * steps)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("split", [0.0, 1.0, 3.0, -2.0])
def test_the_error_with_a_factor_falls_with_the_fourth_power_too(
    split: float, fitted_order: Callable[..., float]
) -> None:
    """`3 u - 3 u^2`, any share of whose linear part is in the factor."""
    L = torch.tensor(split, dtype=torch.float64)
    counts = (8, 16, 32, 64)
    errors = [
        float(
            (
                integrating_factor_rk4(
                    exponential(L, 1 / n), lambda u: logistic(u) - L * u, START, 1 / n, n
                )
                - grown(START, 1.0)
            ).norm()
        )
        for n in counts
    ]
    assert fitted_order([1 / n for n in counts], errors) == pytest.approx(4, abs=0.3)


@given(h=st.floats(0.01, 0.5), steps=st.integers(1, 4))
def test_without_a_linear_part_it_is_the_classical_method(h: float, steps: int) -> None:
    def identity(v: Tensor, share: float) -> Tensor:
        return v

    u = START
    for _ in range(steps):
        k1 = logistic(u)
        k2 = logistic(u + h / 2 * k1)
        k3 = logistic(u + h / 2 * k2)
        k4 = logistic(u + h * k3)
        u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    found = integrating_factor_rk4(identity, logistic, START, h, steps)
    torch.testing.assert_close(found, u, rtol=0, atol=1e-13)


@given(L=st.floats(-3, 3), h=st.floats(0.01, 0.5))
def test_a_factor_is_a_change_of_variables(L: float, h: float) -> None:
    """The scheme is the classical one for `v = exp(-t L) u`, whose time is that of a state."""
    rate = torch.tensor(L, dtype=torch.float64)

    def f(v: Tensor, t: float) -> Tensor:
        return torch.exp(-t * rate) * logistic(torch.exp(t * rate) * v)

    k1 = f(START, 0)
    k2 = f(START + h / 2 * k1, h / 2)
    k3 = f(START + h / 2 * k2, h / 2)
    k4 = f(START + h * k3, h)
    expected = torch.exp(h * rate) * (START + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    found = integrating_factor_rk4(exponential(rate, h), logistic, START, h, 1)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_both_schemes_agree_to_their_order(fitted_order: Callable[..., float]) -> None:
    """One step each of `u' = f(u)`: they differ by the fifth power of the step."""
    steps = (0.2, 0.1, 0.05)
    gaps = []
    for h in steps:
        classical = integrating_factor_rk4(lambda v, share: v, logistic, START, h, 1)
        gaps.append(float((classical - rk38(logistic, START, h, 1)).norm()))
    assert fitted_order(steps, gaps) == pytest.approx(5, abs=0.4)
