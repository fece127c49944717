"""Explicit Runge-Kutta steps of fourth order, plain and with an integrating factor."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Rate = Callable[[Tensor], Tensor]

RK38_WEIGHTS = (1 / 8, 3 / 8, 3 / 8, 1 / 8)
"""The weight of each of the four stages of a step of the 3/8 rule."""


def rk38(f: Rate, u: Tensor, duration: Tensor | float, steps: int) -> Tensor:
    """`du/dt = f(u)` by `steps` equal steps of Kutta's 3/8 rule, as in the paper's code."""
    h = duration / steps
    for _ in range(steps):
        k1 = f(u)
        k2 = f(u + h / 3 * k1)
        k3 = f(u + h * (k2 - k1 / 3))
        k4 = f(u + h * (k1 - k2 + k3))
        u = u + h / 8 * (k1 + 3 * (k2 + k3) + k4)
    return u


def integrating_factor_rk4(
    propagate: Callable[[Tensor, float], Tensor], f: Rate, u: Tensor, h: Tensor | float, steps: int
) -> Tensor:
    """`du/dt = L u + f(u)` by `steps` steps of length `h`, the linear part exact.

    Arguments:
        propagate: a share of a step of the linear part alone, `(v, share) -> exp(share h L) v`,
            for the shares 1/2 and 1. With the identity this is the classical method.
    """
    for _ in range(steps):
        k1 = f(u)
        k2 = f(propagate(u + h / 2 * k1, 0.5))
        k3 = f(propagate(u, 0.5) + h / 2 * k2)
        k4 = f(propagate(u, 1.0) + h * propagate(k3, 0.5))
        u = propagate(u + h / 6 * k1, 1.0) + h / 6 * (2 * propagate(k2 + k3, 0.5) + k4)
    return u
