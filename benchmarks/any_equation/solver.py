"""An independent solver: numpy, double precision, exponential time differencing (ETDRK4).

Nothing here uses the package, so that what it learns is measured against other code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Nonlinear = Callable[[np.ndarray], np.ndarray]
"""Modes of the nonlinear part from modes `(trajectory, channel, *modes)`."""
CONTOUR = 16
"""Points on the circle over which the coefficients of ETDRK4 are averaged."""


def wavenumbers(shape: tuple[int, ...], extent: float) -> tuple[np.ndarray, ...]:
    """Wavenumbers of `numpy.fft.fftn`, one broadcastable array per axis."""
    out = []
    for axis, n in enumerate(shape):
        k = 2 * np.pi * np.fft.fftfreq(n, extent / n)
        out.append(k.reshape([-1 if a == axis else 1 for a in range(len(shape))]))
    return tuple(out)


def solve(
    initial: np.ndarray, symbol: np.ndarray, nonlinear: Nonlinear | None, dt: float,
    frames: int, substeps: int,
) -> np.ndarray:  # fmt: skip
    """Frames `(trajectory, time, channel, *space)` of `u_t = L u + N(u)`, initial fields first."""
    axes = tuple(range(2, initial.ndim))
    v = np.fft.fftn(initial, axes=axes)
    h = dt / substeps
    if nonlinear is None:
        growth = np.exp(symbol * dt)
        step = lambda v: growth * v  # noqa: E731
        substeps = 1
    else:
        step = _etdrk4(symbol, nonlinear, h)
    out = [initial]
    for _ in range(frames - 1):
        for _ in range(substeps):
            v = step(v)
        out.append(np.fft.ifftn(v, axes=axes).real)
    return np.stack(out, 1)


def _etdrk4(
    symbol: np.ndarray, nonlinear: Nonlinear, h: float
) -> Callable[[np.ndarray], np.ndarray]:
    """One step of Kassam and Trefethen's scheme."""
    e1, e2 = np.exp(h * symbol), np.exp(h * symbol / 2)
    roots = np.exp(2j * np.pi * (np.arange(1, CONTOUR + 1) - 0.5) / CONTOUR)
    z = h * symbol[..., None] + roots
    q = h * ((np.exp(z / 2) - 1) / z).mean(-1)
    f1 = h * ((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3).mean(-1)
    f2 = h * ((2 + z + np.exp(z) * (-2 + z)) / z**3).mean(-1)
    f3 = h * ((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3).mean(-1)

    def step(v: np.ndarray) -> np.ndarray:
        n1 = nonlinear(v)
        a = e2 * v + q * n1
        n2 = nonlinear(a)
        b = e2 * v + q * n2
        n3 = nonlinear(b)
        c = e2 * a + q * (2 * n3 - n1)
        n4 = nonlinear(c)
        return e1 * v + f1 * n1 + 2 * f2 * (n2 + n3) + f3 * n4

    return step
