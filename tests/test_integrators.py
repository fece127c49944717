"""The Runge-Kutta step behind every learned operator."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from opsplit.integrators import rk38

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
