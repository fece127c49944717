"""A seventh round of equations, all written down before any of them was run.

What a careful and somewhat hostile reviewer would bring: small viscosity, stiff kinetics with a
denominator, a flux that saturates, a sine of one channel in the rate of the other, derivatives of
sixth order, drift waves and magnetic fields on a plane, four channels, pascals and millimetres
around an atmosphere with one trajectory per value, ten coarse frames, noise on an odd number of
points, a folder of text files of different lengths, and mixtures on a plane that is not square.
"""

from __future__ import annotations

import numpy as np
from equations import Equation, Mechanism, _stack, lap
from fourth import Derivative
from solver import irfftn, rfftn, wavenumbers


def _through(u: np.ndarray, extent: tuple[float, float], kind: str) -> np.ndarray:
    """`(1 - lap)^-1 u` (kind `screened`) or `lap^-1 u` without its mean, on a plane."""
    k = wavenumbers(u.shape[-2:], extent)
    square = k[0] ** 2 + k[1] ** 2
    if kind == "screened":
        symbol = 1 / (1 + square)
    else:
        symbol = np.where(square > 0, -1 / np.where(square > 0, square, 1), 0)
    return irfftn(symbol * rfftn(u, axes=(-2, -1)), s=u.shape[-2:], axes=(-2, -1))


def _bracket(f: np.ndarray, g: np.ndarray, d: Derivative) -> np.ndarray:
    return d(f, "x") * d(g, "y") - d(f, "y") * d(g, "x")


def _drift(u: np.ndarray, d: Derivative) -> np.ndarray:
    """`(1 - lap)^-1 [u, lap u]`."""
    curvature = d(u, "xx") + d(u, "yy")
    return _through(_bracket(u, curvature, d), (14.0, 10.0), "screened")


def _carried(u: np.ndarray, d: Derivative) -> np.ndarray:
    """Vorticity and magnetic potential, carried by the velocity of the vorticity."""
    psi = _through(u[0], (6.0, 6.0), "poisson")
    return _stack(-_bracket(psi, u[0], d), -_bracket(psi, u[1], d))


def _lorentz(u: np.ndarray, d: Derivative) -> np.ndarray:
    current = d(u[1], "xx") + d(u[1], "yy")
    return _stack(_bracket(u[1], current, d), 0 * u[0])


def _oregonator(u: np.ndarray) -> np.ndarray:
    x, z = u
    return _stack(5 * (x - x**2 - 1.2 * z * (x - 0.05) / (x + 0.05)), x - z)


SEVENTH: dict[str, Equation] = {
    e.name: e
    for e in (
        Equation(
            "burgers-huxley",
            {
                "a": Mechanism("-u u_x", 0.2, 1.0, nonlinear=lambda u, d: -d(u**2 / 2, "x")),
                "r": Mechanism(
                    "u (1 - u) (u - 0.3)", 1.0, 6.0,
                    nonlinear=lambda u, d: u * (1 - u) * (u - 0.3),
                ),
                "nu": Mechanism("u_xx", 0.01, 0.06, lambda k: -(k**2)),
            },
            256, 10.0, 0.02, (0.0, 1.0), modes=4, values=6, trajectories=2,
        ),
        Equation(
            "oregonator",
            {
                "k": Mechanism(
                    "(5 (u - u^2 - 1.2 v (u - 0.05) / (u + 0.05)), u - v)", 0.3, 1.2,
                    nonlinear=lambda u, d: _oregonator(u),
                ),
                "D": Mechanism(
                    "(u_xx, 0.6 v_xx)", 0.05, 0.4, lambda k: np.stack([-(k**2), -0.6 * k**2])
                ),
            },
            96, 20.0, 0.05, (0.05, 0.9), channels=("u", "v"), values=6, trajectories=3,
            substeps=40,
        ),
        Equation(
            "keller-segel",
            {
                "x": Mechanism(
                    "(-(n c_x / (1 + n))_x, 0)", 0.1, 0.8,
                    nonlinear=lambda u, d: _stack(
                        -d(u[0] / (1 + u[0]) * d(u[1], "x"), "x"), 0 * u[0]
                    ),
                ),
                "g": Mechanism(
                    "(0, n - c)", 0.3, 2.0,
                    nonlinear=lambda u, d: _stack(0 * u[0], u[0] - u[1]),
                ),
                "D": Mechanism("(n_xx, c_xx)", 0.05, 0.4, lambda k: -(k**2)),
            },
            96, 12.0, 0.05, (0.2, 2.0), channels=("n", "c"), modes=4, values=6, trajectories=3,
            told=True,
        ),
        Equation(
            "sine-gordon",
            {
                "c": Mechanism(
                    "(v, u_xx)", 0.3, 1.5, nonlinear=lambda u, d: _stack(u[1], d(u[0], "xx"))
                ),
                "s": Mechanism(
                    "(0, -sin u)", 0.3, 2.0,
                    nonlinear=lambda u, d: _stack(0 * u[0], -np.sin(u[0])),
                ),
                "d": Mechanism("(0, -v)", 0.1, 1.0, nonlinear=lambda u, d: _stack(0 * u[0], -u[1])),
            },
            128, 20.0, 0.05, (-3.0, 3.0), channels=("u", "v"), modes=4, values=6, trajectories=3,
            substeps=60,
        ),
        Equation(
            "nikolaevskiy",
            {
                "a": Mechanism("-u u_x", 0.3, 1.5, nonlinear=lambda u, d: -d(u**2 / 2, "x")),
                "e": Mechanism("-u_xx", 0.05, 0.3, lambda k: k**2),
                "s": Mechanism(
                    "(1 + d_xx)^2 u_xx", 0.3, 1.2, lambda k: -(k**2) * (1 - k**2) ** 2
                ),
            },
            110, 45.0, 0.1, modes=8, values=5, trajectories=3,
        ),
        Equation(
            "hasegawa-mima",
            {
                "a": Mechanism("(1 - lap)^-1 [p, lap p]", 0.5, 2.5, nonlinear=_drift),
                "b": Mechanism(
                    "-(1 - lap)^-1 p_y", 0.3, 1.5, lambda k, m: -1j * m / (1 + k**2 + m**2)
                ),
                "D": Mechanism("lap p", 0.01, 0.1, lap),
            },
            (48, 36), (14.0, 10.0), 0.1, (-2.0, 2.0), ndim=2, channels=("p",), modes=4, values=4,
            trajectories=2, substeps=40,
        ),
        Equation(
            "magnetic-plane",
            {
                "c": Mechanism("(-v . grad w, -v . grad a)", 0.3, 1.2, nonlinear=_carried),
                "l": Mechanism("([a, lap a], 0)", 0.2, 1.0, nonlinear=_lorentz),
                "D": Mechanism("(lap w, 0.5 lap a)", 0.01, 0.08, lambda k, m: np.stack(
                    [lap(k, m), 0.5 * lap(k, m)]
                )),
            },
            36, 6.0, 0.05, ndim=2, channels=("w", "a"), modes=3, values=4, trajectories=2,
            frames=24, substeps=40,
        ),
        Equation(
            "seir",
            {
                "b": Mechanism(
                    "(-s i, s i, 0, 0)", 0.5, 3.0,
                    nonlinear=lambda u, d: _stack(-u[0] * u[2], u[0] * u[2], 0 * u[0], 0 * u[0]),
                ),
                "k": Mechanism(
                    "(0, -e, e, 0)", 0.3, 1.5,
                    nonlinear=lambda u, d: _stack(0 * u[0], -u[1], u[1], 0 * u[0]),
                ),
                "g": Mechanism(
                    "(0, 0, -i, i)", 0.2, 1.2,
                    nonlinear=lambda u, d: _stack(0 * u[0], 0 * u[0], -u[2], u[2]),
                ),
                "D": Mechanism("(s_xx, e_xx, i_xx, r_xx)", 0.01, 0.1, lambda k: -(k**2)),
            },
            64, 10.0, 0.1, (0.05, 1.0), channels=("s", "e", "i", "r"), frames=24, values=5,
            trajectories=2, file="netcdf",
        ),
        Equation(
            "pore-gas",
            {
                "K": Mechanism(
                    "(p^2)_xx / 2e5", 1e-9, 8e-9, nonlinear=lambda u, d: d(u**2, "xx") / 2e5
                ),
                "h": Mechanism("101325 - p", 2e-2, 2e-1, nonlinear=lambda u, d: 101325.0 - u),
                "c": Mechanism("-p_x", 2e-5, 2e-4, lambda k: -1j * k),
            },
            80, 2e-3, 0.2, (-1.0, 1.0), channels=("p",), modes=4, values=8, trajectories=1,
            offset=(1.02e5,), units=(2e3,), substeps=100,
        ),
        Equation(
            "coarse-prey",
            {
                "k": Mechanism(
                    "(u - u v, u v - v)", 0.3, 1.2,
                    nonlinear=lambda u, d: _stack(u[0] - u[0] * u[1], u[0] * u[1] - u[1]),
                ),
                "D": Mechanism(
                    "(u_xx, 0.2 v_xx)", 0.05, 0.4, lambda k: np.stack([-(k**2), -0.2 * k**2])
                ),
                "c": Mechanism("-(u_x, 0)", 0.2, 1.2, lambda k: np.stack([-1j * k, 0 * k])),
            },
            75, 15.0, 0.5, (0.3, 2.0), channels=("u", "v"), modes=4, frames=10, values=8,
            trajectories=1, substeps=100,
        ),
        Equation(
            "noisy-stripes",
            {
                "s": Mechanism("-(1 + d_xx)^2 u", 0.3, 1.2, lambda k: -((1 - k**2) ** 2)),
                "r": Mechanism("u", 0.1, 0.8, lambda k: 1 + 0 * k),
                "q": Mechanism("u^2 - u^3", 0.3, 1.5, nonlinear=lambda u, d: u**2 - u**3),
            },
            127, 40.0, 0.1, (-1.0, 1.2), modes=8, values=6, trajectories=4, noise=0.005,
        ),
        Equation(
            "counter-flow",
            {
                "c": Mechanism("(-u_x, v_x)", 0.3, 1.5, lambda k: np.stack([-1j * k, 1j * k])),
                "x": Mechanism(
                    "(v - u, u - v)", 0.2, 1.5,
                    nonlinear=lambda u, d: _stack(u[1] - u[0], u[0] - u[1]),
                ),
                "n": Mechanism(
                    "(-u v^2, u v^2)", 0.3, 2.0,
                    nonlinear=lambda u, d: _stack(-u[0] * u[1] ** 2, u[0] * u[1] ** 2),
                ),
            },
            60, 12.0, 0.05, (0.1, 1.5), channels=("u", "v"), modes=4, frames=36, values=8,
            trajectories=1, file="csv",
        ),
        Equation(
            "invasion",
            {
                "r": Mechanism("u - u^2", 0.3, 1.5, nonlinear=lambda u, d: u - u**2),
                "p": Mechanism(
                    "lap u^2", 0.01, 0.08, nonlinear=lambda u, d: d(u**2, "xx") + d(u**2, "yy")
                ),
                "c": Mechanism("-(u_x - 0.5 u_y)", 0.2, 1.0, lambda k, m: -1j * (k - 0.5 * m)),
            },
            (30, 50), (3.0, 11.0), 0.08, (0.1, 1.2), ndim=2, modes=3, mixed=14, trajectories=1,
        ),
    )
}  # fmt: skip
