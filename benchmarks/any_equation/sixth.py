"""A sixth round of equations, all written down before any of them was run.

The example of the first paragraph of the task, and what a sceptical outsider would add: diffusion
by the density of a rival, a velocity by half an inverse Laplacian, phase-field crystals, an inverse
derivative, reactions that saturate with a square, traffic in kilometres and hours with jams,
diffusion that grows exponentially, a complex field with a flux, lakes with two large means, three
dimensions, a power of the Laplacian that no list holds, walls, inverses of differential operators;
grids of 90, 101 or 45 by 27 points, and 8 environments of 2 trajectories.
"""

from __future__ import annotations

import numpy as np
from equations import Equation, Mechanism, _stack, lap
from fourth import Derivative, _smoothed
from solver import irfftn, rfftn, wavenumbers


def _quasi_geostrophic(u: np.ndarray, d: Derivative) -> np.ndarray:
    """`-v . grad u` with the velocity `(-psi_y, psi_x)` of the stream function `-|k|^-1 u`."""
    k = wavenumbers(u.shape[2:], (8.0, 6.0))
    size = np.sqrt(sum(x**2 for x in k))
    inverse = np.where(size > 0, 1 / np.where(size > 0, size, 1), 0)
    psi = irfftn(-inverse * rfftn(u, axes=(-2, -1)), s=u.shape[2:], axes=(-2, -1))
    return d(psi, "y") * d(u, "x") - d(psi, "x") * d(u, "y")


def _crossed(u: np.ndarray, d: Derivative) -> np.ndarray:
    """`(u (0.1 + v))_xx`, `(v (0.1 + 0.5 u))_xx`."""
    return _stack(d(u[0] * (0.1 + u[1]), "xx"), d(u[1] * (0.1 + 0.5 * u[0]), "xx"))


def _soil(u: np.ndarray, d: Derivative) -> np.ndarray:
    return d(np.exp(u), "xx")


def _complex_flux(u: np.ndarray, d: Derivative) -> np.ndarray:
    return -d((u[0] ** 2 + u[1] ** 2) * u, "x")


def _autocatalysis(u: np.ndarray) -> np.ndarray:
    made = u[0] ** 2 * u[1]
    return _stack(1 - 4 * u[0] + made, 3 * u[0] - made)


SIXTH: dict[str, Equation] = {
    e.name: e
    for e in (
        Equation(
            "my-equation",
            {
                "a": Mechanism("u - u^3", 0.3, 3.0, nonlinear=lambda u, d: u - u**3),
                "b": Mechanism("u_xx", 0.01, 0.1, lambda k: -(k**2)),
            },
            128, 10.0, 0.05, (-1.2, 1.2),
        ),
        Equation(
            "rival-diffusion",
            {
                "s": Mechanism(
                    "((u (0.1 + v))_xx, (v (0.1 + 0.5 u))_xx)", 0.05, 0.5, nonlinear=_crossed
                ),
                "r": Mechanism(
                    "(u (2 - u - 0.5 v), v (1 - 0.4 u - v))", 0.2, 1.5,
                    nonlinear=lambda u, d: _stack(
                        u[0] * (2 - u[0] - 0.5 * u[1]), u[1] * (1 - 0.4 * u[0] - u[1])
                    ),
                ),
            },
            90, 12.0, 0.05, (0.1, 1.8), channels=("u", "v"), values=6, trajectories=3, frames=33,
        ),
        Equation(
            "quasi-geostrophic",
            {
                "a": Mechanism("-v . grad t", 0.3, 1.5, nonlinear=_quasi_geostrophic),
                "e": Mechanism("-|k| t", 0.01, 0.1, lambda k, m: -np.sqrt(k**2 + m**2)),
            },
            (48, 36), (8.0, 6.0), 0.05, (-2.0, 2.0), ndim=2, channels=("t",), modes=4, values=6,
            trajectories=2,
        ),
        Equation(
            "phase-field-crystal",
            {
                "s": Mechanism(
                    "lap (1 + lap)^2 p", 0.3, 1.2, lambda k, m: lap(k, m) * (1 + lap(k, m)) ** 2
                ),
                "e": Mechanism("-lap p", 0.05, 0.4, lambda k, m: -lap(k, m)),
                "n": Mechanism(
                    "lap p^3", 0.2, 1.0, nonlinear=lambda u, d: d(u**3, "xx") + d(u**3, "yy")
                ),
            },
            (40, 32), (30.0, 24.0), 0.05, (-0.8, 0.6), ndim=2, channels=("p",), modes=5, values=4,
            trajectories=2, substeps=40,
        ),
        Equation(
            "rotating-waves",
            {
                "a": Mechanism("-u u_x", 0.3, 1.5, nonlinear=lambda u, d: -d(u**2 / 2, "x")),
                "b": Mechanism("-u_xxx", 0.02, 0.2, lambda k: 1j * k**3),
                "g": Mechanism(
                    "d_x^-1 u", 0.1, 1.0,
                    lambda k: np.where(k > 0, 1 / np.where(k > 0, 1j * k, 1), 0),
                ),
            },
            101, 15.0, 0.05, modes=4, values=5, trajectories=3, frames=27,
        ),
        Equation(
            "budworm",
            {
                "r": Mechanism("w (1 - w / 8)", 0.2, 1.2, nonlinear=lambda u, d: u * (1 - u / 8)),
                "p": Mechanism(
                    "-w^2 / (1 + w^2)", 0.2, 1.5, nonlinear=lambda u, d: -(u**2) / (1 + u**2)
                ),
                "D": Mechanism("w_xx", 0.02, 0.2, lambda k: -(k**2)),
            },
            90, 20.0, 0.1, (0.2, 7.0), channels=("w",), values=5, trajectories=4, noise=0.01,
        ),
        Equation(
            "traffic",
            {
                "v": Mechanism(
                    "-(q (1 - q / 120))_x + 0.05 q_xx", 40.0, 110.0, lambda k: -0.05 * k**2,
                    lambda u, d: -d(u - u**2 / 120, "x"),
                ),
                "nu": Mechanism("q_xx", 0.5, 5.0, lambda k: -(k**2)),
            },
            200, 12.0, 0.002, (10.0, 100.0), channels=("q",), modes=3, values=6, trajectories=3,
        ),
        Equation(
            "soil",
            {
                "k": Mechanism("(exp(w))_xx", 0.02, 0.2, nonlinear=_soil),
                "g": Mechanism("-(exp(w))_x", 0.05, 0.5, nonlinear=lambda u, d: -d(np.exp(u), "x")),
                "e": Mechanism("-w", 0.1, 1.0, nonlinear=lambda u, d: -u),
            },
            96, 8.0, 0.02, (-1.0, 1.0), channels=("w",), modes=4, values=5, trajectories=3,
            substeps=60,
        ),
        Equation(
            "light-pulse",
            {
                "h": Mechanism(
                    "(-q_xx, p_xx)", 0.05, 0.4,
                    nonlinear=lambda u, d: _stack(-d(u, "xx")[1], d(u, "xx")[0]),
                ),
                "d": Mechanism("-(|A|^2 A)_x", 0.1, 0.6, nonlinear=_complex_flux),
                "l": Mechanism("-A", 0.05, 0.5, lambda k: -1.0 + 0 * k),
            },
            100, 16.0, 0.04, channels=("p", "q"), modes=4, values=5, trajectories=3, substeps=80,
        ),
        Equation(
            "lake",
            {
                "c": Mechanism("-(T_x, S_x)", 20.0, 90.0, lambda k, m: -1j * k + 0 * m),
                "D": Mechanism(
                    "(lap T, 0.1 lap S)", 50.0, 400.0,
                    lambda k, m: np.stack([lap(k, m), 0.1 * lap(k, m)]),
                ),
            },
            (45, 27), (1000.0, 400.0), 0.5, (0.0, 1.0), ndim=2, channels=("T", "S"), modes=3,
            values=4, trajectories=2, offset=(287.0, 34.0), units=(3.0, 0.5),
        ),
        Equation(
            "prey-3d",
            {
                "a": Mechanism(
                    "(u - u v, u v - v)", 0.3, 1.5,
                    nonlinear=lambda u, d: _stack(u[0] - u[0] * u[1], u[0] * u[1] - u[1]),
                ),
                "D": Mechanism(
                    "(lap u, 0.3 lap v)", 0.02, 0.2,
                    lambda *k: np.stack([lap(*k), 0.3 * lap(*k)]),
                ),
            },
            (14, 18, 12), (7.0, 9.0, 6.0), 0.1, (0.3, 2.0), ndim=3, channels=("u", "v"), modes=2,
            frames=24, values=4, trajectories=2,
        ),
        Equation(
            "levy-flights",
            {
                "L": Mechanism("-|k|^1.3 u", 0.02, 0.2, lambda k: -(k**1.3)),
                "r": Mechanism("u^2 - u^3", 0.5, 4.0, nonlinear=lambda u, d: u**2 - u**3),
            },
            128, 20.0, 0.1, (0.0, 1.2), values=6, trajectories=4, noise=0.01, frames=36,
        ),
        Equation(
            "walled-autocatalysis",
            {
                "k": Mechanism(
                    "(1 - 4 u + u^2 v, 3 u - u^2 v)", 0.5, 2.0,
                    nonlinear=lambda u, d: _autocatalysis(u),
                ),
                "D": Mechanism(
                    "(u_xx, 8 v_xx)", 0.01, 0.1, lambda k: np.stack([-(k**2), -8 * k**2])
                ),
            },
            120, 24.0, 0.05, (0.5, 3.5), channels=("u", "v"), modes=5, values=6, trajectories=3,
            walls="neumann",
        ),
        Equation(
            "long-waves",
            {
                "c": Mechanism("-(1 - d_xx)^-1 u_x", 0.3, 2.0, lambda k: -1j * k / (1 + k**2)),
                "a": Mechanism(
                    "-(1 - d_xx)^-1 (u u_x)", 0.3, 2.0,
                    nonlinear=lambda u, d: -d(_smoothed(u**2, 20.0, 2), "x") / 2,
                ),
            },
            128, 20.0, 0.1, (-1.0, 2.0), modes=4, values=6, trajectories=3,
        ),
    )
}  # fmt: skip
