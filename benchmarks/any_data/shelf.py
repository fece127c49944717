"""Films on the shelf of other groups: what the dictionary can say, and what it cannot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from pens import (
    OBSERVED,
    Array,
    Pen,
    Told,
    burgers,
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


def _pinn_burgers(path: Path, rng: Random) -> Told:
    """-sin(pi x) on [-1, 1] with fixed ends, exact by Cole and Hopf, 256 points, dt .01."""
    nu, t, x = 0.01 / np.pi, 0.01 + 0.01 * np.arange(FRAMES), np.linspace(-1, 1, 256)
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    out = []
    for moment in t:
        y = x[:, None] - np.sqrt(4 * nu * moment) * nodes
        bell = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * nu))
        out.append(-(np.sin(np.pi * y) * bell).sum(1) / bell.sum(1))
    seen, future = halves(np.stack(out))
    held = mat(path, usol=seen.T, x=x[:, None], t=t[:OBSERVED, None])
    return Told(held, seen, future, {"a": 1.0, "D": nu})


def _find_burgers(path: Path, rng: Random) -> Told:
    """A bump that steepens, [-8, 8), 256 points, dt .1, complex numbers, t as a row."""
    x, t = -8 + np.arange(256) / 16, 0.1 * np.arange(FRAMES)
    seen, future = halves(burgers(np.exp(-((x + 2) ** 2)), 16.0, 0.1, t, 5e-3))
    held = mat(path, usol=seen.T + 0j, x=x[None], t=t[None, :OBSERVED])
    return Told(held, seen, future, {"a": 1.0, "D": 0.1})


def _find_kdv(path: Path, rng: Random) -> Told:
    """Two solitons, [-30, 30), 512 points, dt .1."""
    x, t = -30 + np.arange(512) * 60 / 512, 0.1 * np.arange(FRAMES)
    k = waves(512, 60.0)
    start = sum(c / 2 / np.cosh(np.sqrt(c) / 2 * (x - m)) ** 2 for c, m in ((5, -12), (2, -4)))
    u = rk4(start, 60.0, 1j * k**3, lambda v: -3j * k * np.fft.rfft(v * v), t, 5e-4)
    seen, future = halves(u)
    held = mat(path, usol=seen.T, x=x[None], t=t[None, :OBSERVED])
    return Told(held, seen, future, {"a": 6.0, "delta": 1.0})


def _find_ks(path: Path, rng: Random) -> Told:
    """Chaos on [0, 32 pi), 1024 points, dt .4, a table with one row per time."""
    length = 32 * np.pi
    x, k = np.arange(1024) * length / 1024, waves(1024, length)
    start = np.cos(x / 16) * (1 + np.sin(x / 16)) + 0.1 * gaussian(1024, rng, 20)
    t = np.concatenate([[0.0], 60 + 0.4 * np.arange(FRAMES)])
    u = rk4(start, length, k**2 - k**4, lambda v: -0.5j * k * np.fft.rfft(v * v), t, 0.02)[1:]
    seen, future = halves(u)
    held = wide(path, t[1 : 1 + OBSERVED], x, seen)
    return Told(held, seen, future, {"a": 1.0, "D": -1.0, "kappa": 1.0})


def _pinn_allen_cahn(path: Path, rng: Random) -> Told:
    """x^2 cos(pi x) on [-1, 1), 512 points, dt .005, a diffusion of 1e-4."""
    x, t, k = -1 + np.arange(512) / 256, 0.005 * np.arange(FRAMES), waves(512, 2.0)
    start = x**2 * np.cos(np.pi * x)
    u = rk4(start, 2.0, 5 - 1e-4 * k**2, lambda v: -5 * np.fft.rfft(v**3), t, 1e-3)
    seen, future = halves(u)
    held = mat(path, usol=seen.T, x=x[:, None], t=t[:OBSERVED, None])
    return Told(held, seen, future, {"r": 5.0, "q": -5.0, "D": 1e-4})


def _bench_fisher(path: Path, rng: Random) -> Told:
    """Reaction and diffusion of PDEBench: nu .5, rho 1, [0, 1], 1024 cells, dt .01."""
    x, t, k = (np.arange(1024) + 0.5) / 1024, 0.01 * np.arange(FRAMES), waves(1024, 1.0)
    start = np.abs(gaussian(1024, rng, 4))
    start = start / start.max()
    u = rk4(start, 1.0, 1 - 0.5 * k**2, lambda v: -np.fft.rfft(v * v), t, 5e-4)
    seen, future = halves(u)
    return Told(tensor(path, t[:OBSERVED], x, seen), seen, future, {"r": 1.0, "s": -1.0, "D": 0.5})


def _bench_advection(path: Path, rng: Random) -> Told:
    """beta .4, [0, 1], 1024 cells, dt .01, exact."""
    x, t = (np.arange(1024) + 0.5) / 1024, 0.01 * np.arange(FRAMES)
    number, phase = rng.integers(1, 9, 2), rng.uniform(0, 2 * np.pi, 2)
    size = rng.uniform(0, 1, 2)
    place = 2 * np.pi * (x - 0.4 * t[:, None])[..., None]
    seen, future = halves((size * np.sin(number * place + phase)).sum(-1))
    return Told(tensor(path, t[:OBSERVED], x, seen), seen, future, {"c": 0.4})


def _bench_burgers(path: Path, rng: Random) -> Told:
    """nu .1 / pi, [0, 1], 1024 cells, dt .01, in single precision."""
    x, t = (np.arange(1024) + 0.5) / 1024, 0.01 * np.arange(FRAMES)
    u = burgers(0.5 * gaussian(1024, rng, 4, 0.5), 1.0, 0.1 / np.pi, t, 5e-4)
    seen, future = halves(u)
    found = {"a": 1.0, "D": 0.1 / np.pi}
    return Told(tensor(path, t[:OBSERVED], x, seen), seen, future, found)


def _fno_burgers(path: Path, rng: Random) -> Told:
    """[0, 1), 8192 points, nu .1; an array with dt and extent said."""
    t = 0.002 * np.arange(FRAMES)
    seen, future = halves(burgers(gaussian(8192, rng, 12, 2.0), 1.0, 0.1, t, 1e-4)[:, :])
    np.save(path.with_suffix(".npy"), seen)
    more = {"dt": 0.002, "extent": 1.0}
    return Told(path.with_suffix(".npy"), seen, future, {"a": 1.0, "D": 0.1}, more)


def _fno_thin(path: Path, rng: Random) -> Told:
    """[0, 1), nu .001, 8192 points of which every eighth is kept, single precision."""
    t = 0.005 * np.arange(FRAMES)
    u = burgers(0.6 * gaussian(8192, rng, 3, 1.0), 1.0, 0.001, t, 2e-4)[:, ::8]
    seen, future = halves(u)
    np.save(path.with_suffix(".npy"), seen.astype(np.float32))
    more = {"dt": 0.005, "extent": 1.0}
    return Told(path.with_suffix(".npy"), seen, future, {"a": 1.0, "D": 0.001}, more)


def _deeponet_burgers(path: Path, rng: Random) -> Told:
    """101 places on [0, 1], both ends, 101 times, nu .01, one row per point."""
    x, t = np.linspace(0, 1, 101), 0.01 * np.arange(FRAMES)
    fine = burgers(0.5 * gaussian(800, rng, 3), 1.0, 0.01, t, 5e-4)[:, ::8]
    u = np.concatenate([fine, fine[:, :1]], 1)
    seen, future = halves(u)
    held = long(path, {"x": x, "t": t[:OBSERVED]}, "u", seen.T)
    return Told(held, seen, future, {"a": 1.0, "D": 0.01})


def _ape_kdv(path: Path, rng: Random) -> Told:
    """Box and time step of one, `(time, channel, x)`, 160 points."""
    k, t = waves(160, 20.0), 0.05 * np.arange(FRAMES)
    start = 0.6 * gaussian(160, rng, 5)
    u = rk4(start, 20.0, 1j * k**3, lambda v: -3j * k * np.fft.rfft(v * v), t, 5e-4)
    seen, future = halves(u[:, None])
    np.save(path.with_suffix(".npy"), seen.astype(np.float32))
    true = {"a": 6 * 0.05 / 20, "delta": 0.05 / 20**3}
    return Told(path.with_suffix(".npy"), seen, future, true, {"dt": 1.0, "extent": 1.0})


def _heat_plane(path: Path, rng: Random) -> Told:
    """A plate around 300 K, 48 x 80 cm, minutes, NetCDF in single precision, `(time, y, x)`."""
    ny, nx, d = 48, 80, 0.9
    y, x, t = 1.0 * np.arange(ny), 1.0 * np.arange(nx), 0.5 * np.arange(FRAMES)
    k2 = (2 * np.pi * np.fft.fftfreq(ny))[:, None] ** 2 + (2 * np.pi * np.fft.rfftfreq(nx)) ** 2
    start = rng.standard_normal((ny, nx))
    spectrum = np.fft.rfft2(start) * np.exp(-8 * k2)
    u = np.fft.irfft2(spectrum * np.exp(-d * k2 * t[:, None, None]), (ny, nx))
    seen, future = halves(300 + 40 * u)
    held = gridded(path, "nc", "temperature", seen.astype(np.float32),
                   {"time": (t[:OBSERVED], "min"), "y": (y, "cm"), "x": (x, "cm")})  # fmt: skip
    # Forecasts of files have the axes in the order x, y, z.
    return Told(held, seen.transpose(0, 2, 1), future.transpose(0, 2, 1), {"D": d})


def _dye(path: Path, rng: Random) -> Told:
    """A dye that drifts, 64 x 64 on a box of 5 km, `(x, y, time)`, Zarr."""
    n, c, d = 64, (0.4, -0.25), 12.0
    x, t = np.arange(n) * 5000 / n, 300.0 * np.arange(FRAMES)
    k, q = 2 * np.pi * np.fft.fftfreq(n, 5000 / n), waves(n, 5000.0)
    k2 = k[:, None] ** 2 + q**2
    rate = -1j * (c[0] * k[:, None] + c[1] * q) - d * k2
    first = np.fft.rfft2(rng.standard_normal((n, n))) * np.exp(-k2 * 200.0**2)
    u = np.fft.irfft2(first * np.exp(rate * t[:, None, None]), (n, n))
    seen, future = halves(u / u[0].std())
    held = gridded(path, "zarr", "dye", seen.transpose(1, 2, 0),
                   {"x": (x, "m"), "y": (x, "m"), "time": (t[:OBSERVED], "s")})  # fmt: skip
    return Told(held, seen, future, {"c_x": c[0], "c_y": c[1], "D": d})


def _airy(path: Path, rng: Random) -> Told:
    """Linear dispersion, exact, a wide table of 96 places."""
    x, t = np.arange(96) * 0.25, 0.2 * np.arange(FRAMES)
    k, start = waves(96, 24.0), gaussian(96, rng, 6)
    u = np.fft.irfft(np.fft.rfft(start) * np.exp(np.multiply.outer(t, 0.5j * k**3)), 96)
    seen, future = halves(u)
    return Told(wide(path, t[:OBSERVED], x, seen, "time"), seen, future, {"delta": 0.5})


def _swift(path: Path, rng: Random) -> Told:
    """Swift-Hohenberg on 24 pi, `(t, x)`, .mat with the name `u`."""
    length = 24 * np.pi
    x, k, t = np.arange(256) * length / 256, waves(256, length), 1 + 0.25 * np.arange(FRAMES)
    start = 0.4 * gaussian(256, rng, 18, 0.5)
    u = rk4(start, length, 0.4 - (1 - k**2) ** 2, lambda v: -np.fft.rfft(v**3),
            np.append(0.0, t), 0.02)[1:]  # fmt: skip
    seen, future = halves(u)
    held = mat(path, u=seen.astype(np.float32), x=x[None], t=t[None, :OBSERVED])
    return Told(held, seen, future, {"r": -0.6, "D": -2.0, "kappa": 1.0, "q": -1.0})


def _plate(path: Path, rng: Random) -> Told:
    """Allen-Cahn between insulated walls, cells of [0, 1]^2, single precision."""
    n, h, t = 48, 1 / 48, 0.02 * np.arange(FRAMES)
    one = np.zeros((n, n))
    x = (np.arange(n) + 0.5) / n
    for i in range(5):
        for j in range(5):
            wave = np.cos(np.pi * i * x)[:, None] * np.cos(np.pi * j * x)
            one += rng.standard_normal() * wave / (1 + i + j)
    from scipy.fft import dctn, idctn

    k2 = (np.pi * np.arange(n))[:, None] ** 2 + (np.pi * np.arange(n)) ** 2

    def rate(_: float, flat: Array) -> Array:
        v = flat.reshape(n, n)
        found: Array = (idctn(-4e-3 * k2 * dctn(v)) + 3 * (v - v**3)).ravel()
        return found

    from scipy.integrate import solve_ivp

    u = solve_ivp(rate, t[[0, -1]], (0.7 * one / one.std()).ravel(), "DOP853", t_eval=t, rtol=1e-8,
                  atol=1e-9, max_step=h).y.T.reshape(-1, n, n)  # fmt: skip
    seen, future = halves(u)
    np.savez(path.with_suffix(".npz"), u=seen.astype(np.float32), t=t[:OBSERVED], x=x, y=x)
    return Told(path.with_suffix(".npz"), seen, future, {"r": 3.0, "q": -3.0, "D": 4e-3})


def _rod(path: Path, rng: Random) -> Told:
    """A rod of 200 mm whose ends are held at 20 and 80 degrees, a long table, seconds."""
    x, t = np.linspace(0, 200, 81), 5.0 * np.arange(FRAMES)
    line = 20 + 60 * x / 200
    u = np.tile(line, (FRAMES, 1))
    for m in range(1, 7):
        size = 30 * rng.standard_normal() / m
        decay = np.exp(-4.2 * (m * np.pi / 200) ** 2 * t)
        u = u + size * decay[:, None] * np.sin(m * np.pi * x / 200)
    seen, future = halves(u)
    held = long(path, {"time_s": t[:OBSERVED], "x_mm": x}, "temperature", seen)
    return Told(held, seen, future, {"D": 4.2})


def _cube(path: Path, rng: Random) -> Told:
    """Heat on a periodic cube of 24^3, NetCDF, `(z, y, x, time)`."""
    n, d, t = 24, 2e-5, 4.0 * np.arange(FRAMES)
    x = np.arange(n) * 0.1 / n
    k, q = 2 * np.pi * np.fft.fftfreq(n, 0.1 / n), waves(n, 0.1)
    k2 = k[:, None, None] ** 2 + k[:, None] ** 2 + q**2
    first = np.fft.rfftn(rng.standard_normal((n, n, n))) * np.exp(-k2 * 4e-5)
    each = [np.fft.irfftn(first * np.exp(-d * k2 * m), (n,) * 3) for m in t]
    u = np.stack(each) / each[0].std()
    seen, future = halves(u)
    axes = {name: (x, "m") for name in "zyx"}
    held = gridded(path, "nc", "T", np.moveaxis(seen, 0, -1), axes | {"time": (t[:OBSERVED], "s")})
    return Told(held, seen.transpose(0, 3, 2, 1), future.transpose(0, 3, 2, 1), {"D": d})


def _nagumo(path: Path, rng: Random) -> Told:
    """Bistable fronts between insulated ends, finite differences, `(x, t)`, a long table."""
    n, length, t = 161, 40.0, 0.5 * np.arange(FRAMES)
    x = np.linspace(0, length, n)
    h = x[1]
    start = 0.5 * (np.tanh((x - 9) / 3) - np.tanh((x - 26) / 2)) + 0.15 * np.cos(np.pi * x / 8)

    def rate(_: float, v: Array) -> Array:
        wide = np.concatenate([v[2:0:-1], v, v[-2:-4:-1]])
        bend = (-wide[:-4] + 16 * wide[1:-3] - 30 * v + 16 * wide[3:-1] - wide[4:]) / (12 * h * h)
        found: Array = 0.8 * bend + v * (1 - v) * (v - 0.3)
        return found

    seen, future = halves(stiff(rate, start, t))
    held = long(path, {"x": x, "t": t[:OBSERVED]}, "v", seen.T)
    return Told(held, seen, future, {"r": -0.3, "s": 1.3, "q": -1.0, "D": 0.8})


KNOWN: dict[str, Pen] = {
    "Burgers with a shock to come (PINN), .mat": _pinn_burgers,
    "Burgers, a bump (PDE-FIND), complex .mat": _find_burgers,
    "KdV, two solitons (PDE-FIND), .mat": _find_kdv,
    "Kuramoto-Sivashinsky, 1024 points, wide CSV": _find_ks,
    "Allen-Cahn (PINN), .mat": _pinn_allen_cahn,
    "Fisher (PDEBench), HDF5": _bench_fisher,
    "advection (PDEBench), HDF5": _bench_advection,
    "Burgers (PDEBench), HDF5": _bench_burgers,
    "Burgers, 8192 points (FNO), .npy": _fno_burgers,
    "Burgers, nu .001 (FNO), .npy": _fno_thin,
    "Burgers, 101 x 101 (DeepONet), long CSV": _deeponet_burgers,
    "KdV, box and step of one (APEBench), .npy": _ape_kdv,
    "heat around 300 K, NetCDF": _heat_plane,
    "dye in a river, Zarr": _dye,
    "Airy, wide CSV": _airy,
    "Swift-Hohenberg, .mat": _swift,
    "Allen-Cahn between walls, .npz": _plate,
    "rod with fixed ends, long CSV": _rod,
    "heat in a cube, NetCDF": _cube,
    "bistable fronts, long CSV": _nagumo,
}
