"""Explicit Runge-Kutta steps for `du/dt = f(u)`."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

RK4_WEIGHTS = (1 / 8, 3 / 8, 3 / 8, 1 / 8)
"""What each of the four stages has in a step."""


def rk4(f: Callable[[Tensor], Tensor], u: Tensor, duration: Tensor, steps: int) -> Tensor:
    """`steps` equal steps of Kutta's 3/8 rule, the fourth-order method of the paper's code."""
    h = duration / steps
    for _ in range(steps):
        k1 = f(u)
        k2 = f(u + h / 3 * k1)
        k3 = f(u + h * (k2 - k1 / 3))
        k4 = f(u + h * (k1 - k2 + k3))
        u = u + h / 8 * (k1 + 3 * (k2 + k3) + k4)
    return u
