"""Films on the shelf of other groups that have no right-hand side in the dictionary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pens import (
    OBSERVED,
    Array,
    Pen,
    Told,
    gaussian,
    gridded,
    halves,
    long,
    mat,
    rk4,
    stiff,
    tensor,
    waves,
    wide,
)

FRAMES = 2 * OBSERVED
Random = np.random.Generator


def _string(path: Path, rng: Random) -> Told:
    """`u_tt = u_xx` of a plucked string with fixed ends."""
    x, t = np.linspace(0, 1, 101), 0.03 * np.arange(FRAMES)
    u = np.zeros((FRAMES, 101))
    for m in range(1, 9):
        size = rng.standard_normal() / m
        u = u + size * np.multiply.outer(np.cos(m * np.pi * t), np.sin(m * np.pi * x))
    seen, future = halves(u)
    return Told(mat(path, usol=seen.T, x=x[:, None], t=t[:OBSERVED, None]), seen, future)


def _glass(path: Path, rng: Random) -> Told:
    """Mackey and Glass at every place: growth by the value a delay ago."""
    n, h, lag = 96, 0.05, 200
    past = list(0.9 + 0.2 * np.multiply.outer(np.ones(lag + 1), gaussian(n, rng, 5)))
    for _ in range(5000 + 40 * FRAMES):
        back = past[-1 - lag]
        past.append(past[-1] + h * (0.2 * back / (1 + np.abs(back) ** 10) - 0.1 * past[-1]))
    t, x = 2.0 * np.arange(FRAMES), np.arange(n) / n
    seen, future = halves(np.stack(past[-40 * FRAMES :: 40]))
    return Told(wide(path, t[:OBSERVED], x, seen), seen, future)


def _medium(path: Path, rng: Random) -> Told:
    """Heat in a medium of two layers, finite volumes."""
    n, t = 128, 0.02 * np.arange(FRAMES)
    x = (np.arange(n) + 0.5) / n
    face = np.where((np.arange(n) + 1) % n < n // 2, 0.002, 0.05)

    def rate(_: float, v: Array) -> Array:
        flow = face * (np.roll(v, -1) - v) * n
        found: Array = (flow - np.roll(flow, 1)) * n
        return found

    seen, future = halves(stiff(rate, gaussian(n, rng, 5), t))
    held = gridded(path, "nc", "u", seen, {"time": (t[:OBSERVED], ""), "x": (x, "")})
    return Told(held, seen, future)


def _pump(path: Path, rng: Random) -> Told:
    """Burgers' equation under a forcing that beats."""
    n, k, x = 256, waves(256, 2.0), -1 + np.arange(256) / 128
    t, clock = 0.02 * np.arange(FRAMES), [0.0]
    out, u = [], 0.3 * gaussian(n, rng, 4)
    for _ in range(FRAMES):
        out.append(u)
        for _ in range(20):
            push = 4 * np.cos(9 * clock[0]) * np.sin(np.pi * x) + 2 * np.cos(3 * np.pi * x)
            u = rk4(u, 2.0, -0.02 * k**2,
                    lambda v, p=push: np.fft.rfft(p) - 0.5j * k * np.fft.rfft(v * v),
                    np.array([0.0, 1e-3]), 1e-3)[-1]  # fmt: skip
            clock[0] += 1e-3
    seen, future = halves(np.stack(out))
    return Told(mat(path, u=seen, x=x[None], t=t[None, :OBSERVED]), seen, future)


def _camera(path: Path, rng: Random) -> Told:
    """A picture that decays while the camera swings over it."""
    n, t = 64, 0.1 * np.arange(FRAMES)
    k = 2 * np.pi * np.fft.fftfreq(n)
    k2 = k[:, None] ** 2 + k**2
    first = np.fft.fft2(rng.standard_normal((n, n))) * np.exp(-6 * k2)
    by = np.stack([12 * np.sin(2.5 * t), 8 * np.cos(3.1 * t)])
    each = [
        np.fft.ifft2(
            first * np.exp(-0.3 * k2 * m - 1j * (k[:, None] * by[0, i] + k * by[1, i]))
        ).real
        for i, m in enumerate(t)
    ]
    seen, future = halves(np.stack(each) / np.std(each[0]))
    np.save(path.with_suffix(".npy"), seen)
    more = {"dt": 0.1, "extent": (float(n), float(n))}
    return Told(path.with_suffix(".npy"), seen, future, {}, more)


def _static(path: Path, rng: Random) -> Told:
    """White noise on a plane."""
    x, t = np.arange(40.0), np.arange(FRAMES) * 1.0
    seen, future = halves(rng.standard_normal((FRAMES, 40, 40)))
    held = gridded(path, "zarr", "u", seen, {"t": (t[:OBSERVED], ""), "x": (x, ""), "y": (x, "")})
    return Told(held, seen, future)


def _sine_gordon(path: Path, rng: Random) -> Told:
    """`u_tt = u_xx - sin u`, of which only u is written."""
    n, length, t = 128, 30.0, 0.3 * np.arange(FRAMES)
    x, k = np.arange(n) * length / n, waves(n, length)

    def rate(_: float, both: Array) -> Array:
        v, w = both[:n], both[n:]
        bend = np.fft.irfft(-(k**2) * np.fft.rfft(v), n)
        return np.concatenate([w, bend - np.sin(v)])

    start = np.concatenate([2 * gaussian(n, rng, 4), gaussian(n, rng, 4)])
    seen, future = halves(stiff(rate, start, t)[:, :n])
    return Told(long(path, {"t": t[:OBSERVED], "x": x}, "u", seen), seen, future)


def _sorption(path: Path, rng: Random) -> Told:
    """Diffusion with retardation (PDEBench): a front enters through the left end."""
    n, d, por, rho, k_f, n_f = 256, 5e-4, 0.29, 2880.0, 3.5e-4, 0.874
    h, t = 1 / n, 5.0 * np.arange(1, FRAMES + 1)
    x = (np.arange(n) + 0.5) * h

    def rate(_: float, v: Array) -> Array:
        c = np.maximum(v, 1e-6)
        late = 1 + (1 - por) / por * rho * k_f * n_f * c ** (n_f - 1)
        wide = np.concatenate([[2.0 - v[0]], v, [v[-1]]])
        found: Array = d / late * (wide[2:] - 2 * v + wide[:-2]) / h**2
        return found

    u = stiff(rate, np.full(n, 0.1) * rng.uniform(0.5, 1), np.append(0.0, t))[1:]
    seen, future = halves(u)
    return Told(tensor(path, t[:OBSERVED], x, seen), seen, future)


UNKNOWN: dict[str, Pen] = {
    "plucked string, .mat": _string,
    "a delay (Mackey-Glass), wide CSV": _glass,
    "heat in two layers, NetCDF": _medium,
    "Burgers with a beating force, .mat": _pump,
    "a camera that swings, .npy": _camera,
    "white noise, Zarr": _static,
    "sine-Gordon without its velocity, long CSV": _sine_gordon,
    "diffusion and sorption (PDEBench), HDF5": _sorption,
}
