"""Files of films as other groups write them: .mat, CSV, NetCDF, Zarr, HDF5, plain arrays.

Every film has a solver of its own here: exact solutions, modes with an integrating factor and
Runge-Kutta steps, or finite differences and volumes with stiff integration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Told:
    """A file and what is said besides it.

    Arguments:
        seen, future: frames `(time, *space)` as a forecast has them.
        true: the coefficients, where the dictionary has all terms.
        more: `dt` and `extent` for files that do not know them.
    """

    path: Path
    seen: Array
    future: Array
    true: Mapping[str, float] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)


Pen = Callable[[Path, np.random.Generator], Told]
OBSERVED = 16


def waves(n: int, length: float) -> Array:
    return 2 * np.pi * np.fft.rfftfreq(n, length / n)


def rk4(
    u: Array, length: float, symbol: Array, push: Callable[[Array], Array], times: Array, h: float
) -> Array:
    """Frames of `u_t = L u + N(u)` on a periodic line; `push` is the spectrum of N, dealiased."""
    n = len(u)
    keep = np.arange(n // 2 + 1) <= n // 3
    out, now = [u], np.fft.rfft(u)

    def slope(v: Array) -> Array:
        return keep * push(np.fft.irfft(v, n))

    for span in np.diff(times):
        steps = max(1, int(np.ceil(span / h)))
        d = span / steps
        e, e2 = np.exp(symbol * d), np.exp(symbol * d / 2)
        for _ in range(steps):
            a = slope(now)
            b = slope(e2 * (now + d / 2 * a))
            c = slope(e2 * now + d / 2 * b)
            g = slope(e * now + d * e2 * c)
            now = e * now + d / 6 * (e * a + 2 * e2 * (b + c) + g)
        out.append(np.fft.irfft(now, n))
    return np.stack(out)


def stiff(rate: Callable[[float, Array], Array], u: Array, times: Array) -> Array:
    """Frames by a stiff integrator, tight."""
    from scipy.integrate import solve_ivp

    found = solve_ivp(rate, times[[0, -1]], u.ravel(), "LSODA", t_eval=times, rtol=1e-8, atol=1e-10)
    made: Array = found.y.T.reshape(len(times), *u.shape)
    return made


def gaussian(n: int, rng: np.random.Generator, modes: int, fall: float = 1.0) -> Array:
    """A random periodic field of deviation one."""
    spectrum = np.zeros(n // 2 + 1, complex)
    weight = rng.standard_normal((2, modes)) / np.arange(1, modes + 1) ** fall
    spectrum[1 : modes + 1] = weight[0] + 1j * weight[1]
    u = np.fft.irfft(spectrum, n)
    return u / u.std()


def burgers(u: Array, length: float, nu: float, times: Array, h: float) -> Array:
    k = waves(len(u), length)
    return rk4(u, length, -nu * k**2, lambda v: -0.5j * k * np.fft.rfft(v * v), times, h)


def halves(u: Array) -> tuple[Array, Array]:
    return u[:OBSERVED], u[OBSERVED:]


def mat(path: Path, **held: Array) -> Path:
    from scipy.io import savemat

    savemat(path.with_suffix(".mat"), held)
    return path.with_suffix(".mat")


def wide(path: Path, t: Array, x: Array, u: Array, name: str = "t") -> Path:
    """One row per time, one column per place."""
    lines = [",".join([name, *(f"{p:.8g}" for p in x)])]
    lines += [",".join(f"{v:.10g}" for v in (m, *row)) for m, row in zip(t, u, strict=True)]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n")
    return path.with_suffix(".csv")


def long(path: Path, axes: Mapping[str, Array], name: str, u: Array) -> Path:
    """One row per point, the first axis slowest."""
    grid = np.meshgrid(*axes.values(), indexing="ij")
    rows = np.stack([*(g.ravel() for g in grid), u.ravel()], 1)
    np.savetxt(path.with_suffix(".csv"), rows, "%.10g", ",", header=",".join([*axes, name]),
               comments="")  # fmt: skip
    return path.with_suffix(".csv")


def tensor(path: Path, t: Array, x: Array, u: Array) -> Path:
    """HDF5 as PDEBench writes it: single precision, one more time than frames."""
    import h5py

    with h5py.File(path.with_suffix(".hdf5"), "w") as file:
        file["tensor"] = u[None].astype(np.float32)
        file["t-coordinate"] = np.append(t, 2 * t[-1] - t[-2]).astype(np.float32)
        file["x-coordinate"] = x.astype(np.float32)
    return path.with_suffix(".hdf5")


def gridded(
    path: Path, kind: str, name: str, u: Array, axes: Mapping[str, tuple[Array, str]]
) -> Path:
    """NetCDF or Zarr by xarray, with units."""
    import xarray

    coordinates = {k: (k, v, {"units": unit} if unit else {}) for k, (v, unit) in axes.items()}
    made = xarray.Dataset({name: (tuple(axes), u)}, coordinates)
    target = path.with_suffix(f".{kind}")
    if kind == "zarr":
        made.to_zarr(target)
    else:
        made.to_netcdf(target, engine="h5netcdf")
    return target
