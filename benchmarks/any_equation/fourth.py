"""A fourth round of equations, all written down before any of them was run.

They are what a stranger may bring: few environments and few frames, tiny units, long grids that
are not square, a mean of 300 with noise, mixtures instead of single mechanisms, three channels,
negative coefficients, rational and nonlocal terms that no library of candidates holds, frames far
apart, and walls.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from equations import Equation, Mechanism, _stack, lap
from solver import irfftn, rfftn, wavenumbers

Derivative = Callable[..., np.ndarray]


def _smoothed(u: np.ndarray, extent: float, power: int) -> np.ndarray:
    """`(1 + (-d_xx)^(power / 2))^-1 u` on a line."""
    n = u.shape[-1]
    (k,) = wavenumbers((n,), extent)
    return irfftn(rfftn(u, axes=(-1,)) / (1 + k**power), s=(n,), axes=(-1,))


def _camassa_holm(u: np.ndarray, d: Derivative) -> np.ndarray:
    pressure = _smoothed(u**2 + d(u, "x") ** 2 / 2, 20.0, 2)
    return -d(u**2 / 2 + pressure, "x")


def _ring(u: np.ndarray) -> np.ndarray:
    square = u[0] ** 2 + u[1] ** 2
    return square * (1 - square) * u


FOURTH: dict[str, Equation] = {
    e.name: e
    for e in (
        Equation(
            "nanochannel",
            {
                "c": Mechanism("-u_x", 5.0, 60.0, lambda k: -1j * k),
                "D": Mechanism("u_xx", 1e-9, 2e-8, lambda k: -(k**2)),
                "k": Mechanism("-u", 1e6, 3e7, nonlinear=lambda u, d: -u),
            },
            32, 1e-6, 1e-9, (0.0, 2.0), units=(1e20,), modes=4, frames=12, values=4,
            trajectories=2,
        ),
        Equation(
            "grazing-2d",
            {
                "c": Mechanism("-(u_x + 0.4 u_y)", 0.1, 0.6, lambda k, m: -1j * (k + 0.4 * m)),
                "D": Mechanism("lap u", 0.002, 0.02, lap),
                "g": Mechanism("-u / (1 + u)", 0.2, 2.0, nonlinear=lambda u, d: -u / (1 + u)),
            },
            (24, 60), (2.0, 9.0), 0.05, (0.2, 3.0), ndim=2, modes=4, values=6, trajectories=2,
        ),
        Equation(
            "allee-front",
            {
                "r": Mechanism(
                    "u (u - 0.2) (1 - u)", 2.0, 10.0,
                    nonlinear=lambda u, d: u * (u - 0.2) * (1 - u),
                ),
                "c": Mechanism("-u_x", -0.8, 0.8, lambda k: -1j * k),
                "m": Mechanism("(u u_x)_x", 0.005, 0.05, nonlinear=lambda u, d: d(u**2 / 2, "xx")),
            },
            512, 10.0, 0.05, (0.0, 1.1), values=6, trajectories=2, substeps=80,
        ),
        Equation(
            "sir",
            {
                "b": Mechanism(
                    "(-s i, s i, 0)", 0.5, 3.0,
                    nonlinear=lambda u, d: _stack(-u[0] * u[1], u[0] * u[1], 0 * u[0]),
                ),
                "g": Mechanism(
                    "(0, -i, i)", 0.2, 1.5, nonlinear=lambda u, d: _stack(0 * u[0], -u[1], u[1])
                ),
                "D": Mechanism("(s_xx, i_xx, r_xx)", 0.01, 0.1, lambda k: -(k**2)),
            },
            64, 10.0, 0.1, (0.05, 1.0), channels=("s", "i", "r"), frames=20, values=5,
            trajectories=2,
        ),
        Equation(
            "mixture",
            {
                "r": Mechanism("u - u^2", 0.3, 2.0, nonlinear=lambda u, d: u - u**2),
                "c": Mechanism("-u_x", 0.3, 2.0, lambda k: -1j * k),
                "D": Mechanism("u_xx", 0.02, 0.3, lambda k: -(k**2)),
            },
            100, 12.0, 0.1, (0.0, 1.0), mixed=24, trajectories=1,
        ),
        Equation(
            "quintic-ring",
            {
                "D": Mechanism("(u_xx, v_xx)", 0.05, 0.5, lambda k: -(k**2)),
                "w": Mechanism("(-v, u)", 0.3, 2.0, nonlinear=lambda u, d: _stack(-u[1], u[0])),
                "q": Mechanism(
                    "(u^2 + v^2) (1 - u^2 - v^2) (u, v)", 0.3, 1.5,
                    nonlinear=lambda u, d: _ring(u),
                ),
            },
            64, 15.0, 0.1, channels=("u", "v"), values=4, trajectories=3, substeps=40,
        ),
        Equation(
            "gierer-meinhardt",
            {
                "k": Mechanism(
                    "(u^2 / v - u, u^2 - v)", 0.3, 1.5,
                    nonlinear=lambda u, d: _stack(u[0] ** 2 / u[1] - u[0], u[0] ** 2 - u[1]),
                ),
                "D": Mechanism(
                    "(u_xx, 10 v_xx)", 0.01, 0.1, lambda k: np.stack([-(k**2), -10 * k**2])
                ),
            },
            64, 10.0, 0.05, (0.5, 1.5), channels=("u", "v"), values=6, trajectories=3,
        ),
        Equation(
            "warm-plate",
            {
                "h": Mechanism("290 - u", 1e-3, 1e-2, nonlinear=lambda u, d: 290.0 - u),
                "D": Mechanism("lap u", 1e-6, 1e-5, lap),
                "c": Mechanism("-u_y", 2e-4, 2e-3, lambda k, m: -1j * m + 0 * k),
            },
            (40, 24), (0.4, 0.2), 1.0, (293.0, 303.0), ndim=2, modes=4, values=3, trajectories=2,
            noise=0.01,
        ),
        Equation(
            "camassa-holm",
            {
                "a": Mechanism(
                    "-u u_x - ((1 - d_xx)^-1 (u^2 + u_x^2 / 2))_x", 0.3, 1.5,
                    nonlinear=_camassa_holm,
                ),
                "nu": Mechanism("u_xx", 0.01, 0.1, lambda k: -(k**2)),
            },
            128, 20.0, 0.05, (0.0, 1.0), modes=3, values=6, trajectories=3,
        ),
        Equation(
            "rosenau",
            {
                "a": Mechanism(
                    "-(1 + d_xxxx)^-1 (u u_x)", 0.5, 3.0,
                    nonlinear=lambda u, d: -_smoothed(d(u**2 / 2, "x"), 20.0, 4),
                ),
                "b": Mechanism(
                    "-(1 + d_xxxx)^-1 u_x", 0.5, 3.0, lambda k: -1j * k / (1 + k**4)
                ),
            },
            128, 20.0, 0.1, modes=4, values=6, trajectories=3,
        ),
        Equation(
            "coarse-bistable",
            {
                "r": Mechanism("u - u^3", 0.5, 3.0, nonlinear=lambda u, d: u - u**3),
                "D": Mechanism("u_xx", 0.05, 0.3, lambda k: -(k**2)),
                "c": Mechanism("-u_x", 0.5, 3.0, lambda k: -1j * k),
            },
            128, 20.0, 0.5, frames=20, values=6, trajectories=3, substeps=100,
        ),
        Equation(
            "insulated-fisher",
            {
                "r": Mechanism("u - u^2", 0.3, 2.0, nonlinear=lambda u, d: u - u**2),
                "D": Mechanism("u_xx", 0.05, 0.5, lambda k: -(k**2)),
            },
            128, 24.0, 0.1, (0.0, 1.0), values=6, trajectories=3, walls="neumann",
        ),
        Equation(
            "clamped-allen-cahn",
            {
                "r": Mechanism("u - u^3", 0.5, 3.0, nonlinear=lambda u, d: u - u**3),
                "D": Mechanism("u_xx", 0.02, 0.2, lambda k: -(k**2)),
            },
            128, 16.0, 0.1, (-1.5, 1.5), values=6, trajectories=3, walls="dirichlet",
        ),
    )
}  # fmt: skip
