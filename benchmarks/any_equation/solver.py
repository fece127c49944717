"""An independent solver: numpy, double precision, exponential time differencing (ETDRK4).

Nothing here uses the package, so that what it learns is measured against other code. Spectra are
those of real fields, `rfftn`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

try:
    from scipy.fft import irfftn, rfftn
except ImportError:
    from numpy.fft import irfftn, rfftn

Nonlinear = Callable[[np.ndarray], np.ndarray]
"""Modes of the nonlinear part from modes `(trajectory, channel, *modes)`."""
CONTOUR = 16
"""Points on the circle over which the coefficients of ETDRK4 are averaged."""

__all__ = ["irfftn", "rfftn", "solve", "wavenumbers"]


def wavenumbers(
    shape: tuple[int, ...], extent: float | tuple[float, ...]
) -> tuple[np.ndarray, ...]:
    """Wavenumbers of `rfftn`, one broadcastable array per axis."""
    out, lengths = [], np.broadcast_to(extent, len(shape))
    for axis, n in enumerate(shape):
        frequencies = np.fft.rfftfreq if axis == len(shape) - 1 else np.fft.fftfreq
        k = 2 * np.pi * frequencies(n, lengths[axis] / n)
        out.append(k.reshape([-1 if a == axis else 1 for a in range(len(shape))]))
    return tuple(out)


def solve(
    initial: np.ndarray, symbol: np.ndarray, nonlinear: Nonlinear | None, dt: float,
    frames: int, substeps: int,
) -> np.ndarray:  # fmt: skip
    """Frames `(trajectory, time, channel, *space)` of `u_t = L u + N(u)`, initial fields first."""
    axes = tuple(range(2, initial.ndim))
    v = rfftn(initial, axes=axes)
    symbol = symbol if np.any(symbol.imag) else symbol.real
    if nonlinear is None:
        growth = np.exp(symbol * dt)
        step = lambda v: growth * v  # noqa: E731
        substeps = 1
    else:
        step = _etdrk4(symbol, nonlinear, dt / substeps)
    out = np.empty((len(initial), frames, *initial.shape[1:]))
    out[:, 0] = initial
    for frame in range(1, frames):
        for _ in range(substeps):
            v = step(v)
        out[:, frame] = irfftn(v, s=initial.shape[2:], axes=axes)
    return out


def _etdrk4(
    symbol: np.ndarray, nonlinear: Nonlinear, h: float
) -> Callable[[np.ndarray], np.ndarray]:
    """One step of Kassam and Trefethen's scheme."""
    e1, e2 = np.exp(h * symbol), np.exp(h * symbol / 2)
    roots = np.exp(2j * np.pi * (np.arange(1, CONTOUR + 1) - 0.5) / CONTOUR)
    q, f1, f2, f3 = (np.zeros(symbol.shape, complex) for _ in range(4))
    for root in roots:
        z = h * symbol + root
        e = np.exp(z)
        q += (np.exp(z / 2) - 1) / z
        f1 += (-4 - z + e * (4 - 3 * z + z**2)) / z**3
        f2 += (2 + z + e * (-2 + z)) / z**3
        f3 += (-4 - 3 * z - z**2 + e * (4 - z)) / z**3
    q, f1, f2, f3 = (
        h / CONTOUR * (x if np.iscomplexobj(symbol) else x.real) for x in (q, f1, f2, f3)
    )
    f2 *= 2

    def step(v: np.ndarray) -> np.ndarray:
        n1 = nonlinear(v)
        half = e2 * v
        a = half + q * n1
        n2 = nonlinear(a)
        n3 = nonlinear(half + q * n2)
        n4 = nonlinear(e2 * a + q * (2 * n3 - n1))
        n2 += n3
        return e1 * v + f1 * n1 + f2 * n2 + f3 * n4

    return step
