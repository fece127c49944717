"""A fifth round of equations, all written down before any of them was run.

Three channels in one and three dimensions, precession, waves of matter, nanometres, a rate that is
constant, a cube of the slope, an exponential, a reaction with a distant neighbourhood, chaos, a
mean of 300 with noise of 1 %, a denominator on a plane, few trajectories, and walls.
"""

from __future__ import annotations

import numpy as np
from equations import Equation, Mechanism, _stack, lap
from fourth import Derivative
from solver import irfftn, rfftn, wavenumbers


def _precession(m: np.ndarray, d: Derivative) -> np.ndarray:
    return -np.cross(m, d(m, "xx"), axis=0)


def _carried(u: np.ndarray, d: Derivative) -> np.ndarray:
    return -sum(u[i] * d(u, axis) for i, axis in enumerate("xyz"))


def _eaten(u: np.ndarray) -> np.ndarray:
    meal = u[0] * u[1] / (0.4 + u[0])
    return _stack(-meal, 0.5 * meal)


def _turned(u: np.ndarray) -> np.ndarray:
    square = u[0] ** 2 + u[1] ** 2
    return _stack(-square * u[1], square * u[0])


def _neighbourhood(u: np.ndarray) -> np.ndarray:
    """The mean of a field with weights of a bell of width 1, on a line of length 20."""
    n = u.shape[-1]
    (k,) = wavenumbers((n,), 20.0)
    return irfftn(rfftn(u, axes=(-1,)) * np.exp(-(k**2) / 2), s=(n,), axes=(-1,))


FIFTH: dict[str, Equation] = {
    e.name: e
    for e in (
        Equation(
            "hot-rod",
            {
                "k": Mechanism(
                    "(T T_x)_x / 300", 1e-5, 6e-5, nonlinear=lambda u, d: d(u**2, "xx") / 600
                ),
                "h": Mechanism("300 - T", 2e-3, 2e-2, nonlinear=lambda u, d: 300.0 - u),
                "c": Mechanism("-T_x", 3e-4, 3e-3, lambda k: -1j * k),
            },
            96, 0.2, 2.0, (280.0, 340.0), channels=("T",), values=4, trajectories=3, noise=0.01,
            substeps=200,
        ),
        Equation(
            "rosenzweig-macarthur",
            {
                "r": Mechanism(
                    "(n - n^2, 0)", 0.3, 2.0,
                    nonlinear=lambda u, d: _stack(u[0] - u[0] ** 2, 0 * u[0]),
                ),
                "a": Mechanism(
                    "(-n p / (0.4 + n), 0.5 n p / (0.4 + n))", 0.3, 1.5,
                    nonlinear=lambda u, d: _eaten(u),
                ),
                "m": Mechanism("(0, -p)", 0.1, 0.8, nonlinear=lambda u, d: _stack(0 * u[0], -u[1])),
                "D": Mechanism("(lap n, lap p)", 0.02, 0.2, lap),
            },
            (40, 32), (20.0, 14.0), 0.1, (0.1, 1.2), ndim=2, channels=("n", "p"), values=5,
            trajectories=2,
        ),
        Equation(
            "landau-lifshitz",
            {
                "g": Mechanism("-m x m_xx", 0.05, 0.4, nonlinear=_precession),
                "b": Mechanism(
                    "(-q, p, 0)", 0.3, 2.0, nonlinear=lambda u, d: _stack(-u[1], u[0], 0 * u[0])
                ),
                "D": Mechanism("(p_xx, q_xx, s_xx)", 0.05, 0.4, lambda k: -(k**2)),
            },
            64, 12.0, 0.05, channels=("p", "q", "s"), modes=3, values=5, trajectories=3,
            substeps=80,
        ),
        Equation(
            "schroedinger",
            {
                "h": Mechanism(
                    "(-q_xx, p_xx)", 0.1, 0.6,
                    nonlinear=lambda u, d: _stack(-d(u[1], "xx"), d(u[0], "xx")),
                ),
                "g": Mechanism(
                    "(p^2 + q^2) (-q, p)", 0.2, 1.5, nonlinear=lambda u, d: _turned(u)
                ),
            },
            64, 16.0, 0.2, channels=("p", "q"), frames=24, values=6, trajectories=3, substeps=200,
        ),
        Equation(
            "nano-mkdv",
            {
                "a": Mechanism("-phi^2 phi_x", 2e9, 1e10, nonlinear=lambda u, d: -d(u**3 / 3, "x")),
                "g": Mechanism("-phi_xxx", 1e-14, 8e-14, lambda k: 1j * k**3),
                "D": Mechanism("phi_xx", 1e-6, 1e-5, lambda k: -(k**2)),
            },
            128, 2e-7, 2e-13, channels=("phi",), modes=3, values=5, trajectories=2,
            units=(1e-3,),
        ),
        Equation(
            "growing-surface",
            {
                "f": Mechanism("1", 0.2, 2.0, nonlinear=lambda u, d: 1 + 0 * u),
                "l": Mechanism(
                    "(h_x^2 + h_y^2) / 2", -1.0, 1.0,
                    nonlinear=lambda u, d: (d(u, "x") ** 2 + d(u, "y") ** 2) / 2,
                ),
                "nu": Mechanism("lap h", 0.05, 0.4, lap),
            },
            48, 12.0, 0.05, ndim=2, channels=("h",), modes=4, values=6, trajectories=2,
        ),
        Equation(
            "epitaxy",
            {
                "m": Mechanism(
                    "(h_x^3)_x", 0.1, 0.6, nonlinear=lambda u, d: d(d(u, "x") ** 3, "x")
                ),
                "s": Mechanism(
                    "-(h_xx + 0.5 h_xxxx)", 0.1, 0.6, lambda k: k**2 - 0.5 * k**4
                ),
            },
            128, 24.0, 0.1, channels=("h",), modes=4, values=6, trajectories=3, walls="neumann",
            substeps=80,
        ),
        Equation(
            "burgers-3d",
            {
                "a": Mechanism("-(u . grad) u", 0.3, 1.2, nonlinear=_carried),
                "nu": Mechanism("lap u", 0.02, 0.1, lap),
            },
            (16, 20, 16), (6.0, 8.0, 6.0), 0.05, ndim=3, channels=("u", "v", "w"), modes=2,
            frames=24, values=4, trajectories=2,
        ),
        Equation(
            "ignition",
            {
                "k": Mechanism("exp(y)", 0.1, 0.6, nonlinear=lambda u, d: np.exp(u)),
                "l": Mechanism("-y", 0.3, 2.0, nonlinear=lambda u, d: -u),
                "D": Mechanism("y_xx", 0.02, 0.2, lambda k: -(k**2)),
            },
            96, 10.0, 0.02, (-1.0, 1.5), channels=("y",), values=5, trajectories=3,
        ),
        Equation(
            "distant-fisher",
            {
                "r": Mechanism(
                    "u (1 - K * u)", 0.3, 2.0,
                    nonlinear=lambda u, d: u * (1 - _neighbourhood(u)),
                ),
                "D": Mechanism("u_xx", 0.02, 0.2, lambda k: -(k**2)),
            },
            128, 20.0, 0.1, (0.0, 1.5), values=6, trajectories=3,
        ),
        Equation(
            "lorenz-line",
            {
                "s": Mechanism(
                    "(b - a, 0, 0)", 2.0, 12.0,
                    nonlinear=lambda u, d: _stack(u[1] - u[0], 0 * u[0], 0 * u[0]),
                ),
                "r": Mechanism(
                    "(0, 28 a - b - a c, a b - 2.7 c)", 0.2, 1.0,
                    nonlinear=lambda u, d: _stack(
                        0 * u[0], 28 * u[0] - u[1] - u[0] * u[2], u[0] * u[1] - 2.7 * u[2]
                    ),
                ),
                "D": Mechanism("(a_xx, b_xx, c_xx)", 0.2, 2.0, lambda k: -(k**2)),
            },
            64, 30.0, 0.01, (-15.0, 15.0), channels=("a", "b", "c"), modes=4, values=5,
            trajectories=3,
        ),
        Equation(
            "threshold-mixture",
            {
                "r": Mechanism("w (1 - w)", 0.2, 1.0, nonlinear=lambda u, d: u - u**2),
                "e": Mechanism("-w / (0.5 + w)", 0.2, 1.0, nonlinear=lambda u, d: -u / (0.5 + u)),
                "D": Mechanism("lap w", 0.01, 0.1, lap),
            },
            (36, 28), (9.0, 7.0), 0.1, (0.1, 1.5), ndim=2, channels=("w",), modes=4, mixed=12,
            trajectories=2,
        ),
    )
}  # fmt: skip
