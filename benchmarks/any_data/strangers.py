"""Systems that a stranger may bring: some the road dictionary can say, some that it cannot.

Every system is simulated here, by pseudo-spectral exponential time differencing, in numbers near
one. `blind` gives them units, orientation, noise and grids at random.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray
Waves = tuple[Array, ...]


@dataclass(frozen=True)
class Film:
    """Frames in numbers near one.

    Arguments:
        u: `(time, *space)`, twice as many frames as are observed, or more.
        dt: time between frames.
        length: of every axis.
        true: coefficients, if the road dictionary can say the system.
        shift: whether a mean may be added.
    """

    u: Array
    dt: float
    length: float
    true: Mapping[str, float] = field(default_factory=dict)
    shift: bool = False


@dataclass(frozen=True)
class Plan:
    """How a film is made."""

    frames: int
    points: int
    rng: np.random.Generator


Maker = Callable[[Plan], Film]


def waves(shape: tuple[int, ...], length: float) -> Waves:
    """Wavenumbers of a real transform, one array per axis."""
    each = [2 * np.pi * np.fft.fftfreq(n, length / n) for n in shape[:-1]]
    each.append(2 * np.pi * np.fft.rfftfreq(shape[-1], length / shape[-1]))
    return tuple(np.meshgrid(*each, indexing="ij"))


def smooth(plan: Plan, ndim: int = 1, modes: int = 5, points: int | None = None) -> Array:
    """A random field of so many modes, of deviation one."""
    shape = (points or plan.points,) * ndim
    number = waves(shape, 2 * np.pi)
    size = np.sqrt(sum(k**2 for k in number))
    spectrum = np.fft.rfftn(plan.rng.standard_normal(shape))
    spectrum = spectrum * ((size > 0) & (size <= modes)) / np.maximum(size, 1) ** 0.5
    u = np.fft.irfftn(spectrum, shape, axes=range(ndim))
    return u / u.std()


def evolved(
    u: Array,
    length: float,
    linear: Callable[[Waves], Array],
    nonlinear: Callable[[Array, Waves, float], Array] | None,
    dt: float,
    frames: int,
    steps: int = 20,
) -> Array:
    """Frames by ETDRK4 (Cox and Matthews, Kassam and Trefethen), 2/3 dealiased.

    Arguments:
        nonlinear: the spectrum of the nonlinear part, from the field, the wavenumbers and time.
    """
    k = waves(u.shape, length)
    h = dt / steps
    symbol = linear(k).astype(complex) * h
    e, e2 = np.exp(symbol), np.exp(symbol / 2)
    ring = np.exp(1j * np.pi * (np.arange(32) + 0.5) / 16)
    z = symbol[..., None] + ring
    q = h * ((np.exp(z / 2) - 1) / z).mean(-1)
    f1 = h * ((-4 - z + np.exp(z) * (4 - 3 * z + z**2)) / z**3).mean(-1)
    f2 = h * ((2 + z + np.exp(z) * (z - 2)) / z**3).mean(-1)
    f3 = h * ((-4 - 3 * z - z**2 + np.exp(z) * (4 - z)) / z**3).mean(-1)
    keep = np.ones(k[0].shape, dtype=bool)
    for each in k:
        keep &= np.abs(each) <= 2 / 3 * np.abs(each).max()
    axes = tuple(range(u.ndim))
    now = np.fft.rfftn(u)
    out, t = [u], 0.0

    def push(spectrum: Array, when: float) -> Array:
        if nonlinear is None:
            return np.zeros_like(spectrum)
        return keep * nonlinear(np.fft.irfftn(spectrum, u.shape, axes=axes), k, when)

    for _ in range(frames - 1):
        for _ in range(steps if nonlinear else 1):
            if nonlinear is None:
                now = now * np.exp(symbol * steps)
                continue
            n0 = push(now, t)
            a = e2 * now + q * n0
            na = push(a, t + h / 2)
            b = e2 * now + q * na
            nb = push(b, t + h / 2)
            c = e2 * a + q * (2 * nb - n0)
            nc = push(c, t + h)
            now = e * now + f1 * n0 + 2 * f2 * (na + nb) + f3 * nc
            t += h
        out.append(np.fft.irfftn(now, u.shape, axes=axes))
    return np.stack(out)


def ft(u: Array) -> Array:
    return np.fft.rfftn(u)


def dx(u: Array, k: Array) -> Array:
    found: Array = np.fft.irfftn(1j * k * ft(u), u.shape, axes=range(u.ndim))
    return found


def _linear(c: Mapping[str, float]) -> Callable[[Waves], Array]:
    def symbol(k: Waves) -> Array:
        square = sum(x**2 for x in k)
        out = c.get("r", 0.0) - c.get("D", 0.0) * square - c.get("kappa", 0.0) * square**2 + 0j
        out = out + 1j * c.get("delta", 0.0) * k[0] ** 3 - 1j * c.get("c", 0.0) * k[0]
        for x, a in zip(k, "xyz", strict=False):
            out = out - 1j * c.get(f"c_{a}", 0.0) * x - c.get(f"D_{a}", 0.0) * x**2
        return out

    return symbol


def _nonlinear(c: Mapping[str, float]) -> Callable[[Array, Waves, float], Array] | None:
    names = set(c) & {"a", "a_x", "a_y", "b", "s", "q", "h"}

    def products(u: Array, k: Waves, t: float) -> Array:
        out = ft(c.get("s", 0.0) * u**2 + c.get("q", 0.0) * u**3)
        out = out - 1j * k[0] * ft(c.get("a", c.get("a_x", 0.0)) * u**2 / 2)
        out = out - 1j * k[0] * ft(c.get("b", 0.0) * u**3 / 3)
        if "a_y" in c:
            out = out - 1j * k[1] * ft(c["a_y"] * u**2 / 2)
        if "h" in c:
            out = out + ft(c["h"] * sum(dx(u, x) ** 2 for x in k))
        return out

    return products if names else None


def known(
    coefficients: Mapping[str, float], length: float = 10.0, dt: float = 0.1, ndim: int = 1,
    settle: int = 0, start: tuple[float, float] = (0.0, 1.0), points: int | None = None,
) -> Maker:  # fmt: skip
    """A system of the dictionary; every coefficient is changed by up to a third.

    Arguments:
        start: mean and deviation of the first field.
        settle: frames before the first one that is kept.
        points: the fewest per axis of the simulation; every so many are kept.
    """

    def make(plan: Plan) -> Film:
        true = {k: v * 1.33 ** plan.rng.uniform(-1, 1) for k, v in coefficients.items()}
        fine = plan.points
        while fine < (points or (128 if ndim == 1 else 0)):
            fine *= 2
        modes = min(5, plan.points // 6)
        u = start[0] + start[1] * smooth(plan, ndim, modes, fine)
        nonlinear = _nonlinear(true)
        made = evolved(u, length, _linear(true), nonlinear, dt, plan.frames + settle)
        every = (slice(settle, None), *[slice(None, None, fine // plan.points)] * ndim)
        derivatives = nonlinear is None and "r" not in true
        return Film(made[every], dt, length, true, derivatives)

    return make


KNOWN: dict[str, Maker] = {
    "advection": known({"c": 0.7}),
    "heat": known({"D": 0.1}),
    "advection-diffusion": known({"c": -0.6, "D": 0.06}),
    "dispersion": known({"c": 0.3, "delta": 0.1}),
    "hyperdiffusion": known({"kappa": 0.03}),
    "decay and diffusion": known({"r": -0.4, "D": 0.08}),
    "Burgers": known({"a": 1.0, "D": 0.1}, dt=0.05),
    "Burgers, traffic": known({"c": 1.0, "a": -1.5, "D": 0.1}, dt=0.05, start=(0.4, 0.2)),
    "Burgers, steep": known({"a": 1.0, "D": 0.04}, dt=0.05, points=512),
    "KdV": known({"a": 6.0, "delta": 1.0}, 20.0, 0.02, points=256, start=(0.0, 0.4)),
    "KdV, depression": known({"a": -1.0, "delta": 0.03}, 8.0, 0.05, points=256),
    "modified KdV": known({"b": 3.0, "delta": 0.3}, 20.0, 0.04, points=256, start=(0, 0.6)),
    "KdV-Burgers": known({"a": 1.0, "delta": 0.05, "D": 0.05}, dt=0.05),
    "Fisher": known({"r": 1.0, "s": -1.0, "D": 0.05}, start=(0.4, 0.12)),
    "Fisher, capacity 50": known({"r": 1.0, "s": -0.02, "D": 0.05}, start=(20.0, 6.0)),
    "Allen-Cahn": known({"r": 1.0, "q": -1.0, "D": 0.02}),
    "Nagumo": known({"r": -0.3, "s": 1.3, "q": -1.0, "D": 0.05}, dt=0.2, start=(0.4, 0.3)),
    "Kuramoto-Sivashinsky": known({"a": 1.0, "D": -1.0, "kappa": 1.0}, 40.0, 0.2, settle=200),
    "KS, slope": known({"h": -0.5, "D": -1.0, "kappa": 1.0}, 30.0, 0.2, settle=60),
    "Swift-Hohenberg": known({"r": -0.7, "D": -2.0, "kappa": 1.0, "q": -1.0}, 30.0, 0.2),
    "Burgers with growth": known({"a": 1.0, "r": 0.3, "D": 0.1}, dt=0.05),
    "thin film, slope": known({"h": 0.5, "D": 0.1}, dt=0.05, start=(0.0, 0.5)),
    "advection-diffusion 2-D": known({"c_x": 0.5, "c_y": -0.3, "D": 0.05}, ndim=2),
    "anisotropic 2-D": known({"c_x": 0.5, "D_x": 0.1, "D_y": 0.02}, ndim=2),
    "Burgers 2-D": known({"a_x": 1.0, "a_y": 1.0, "D": 0.1}, ndim=2, dt=0.05),
    "Allen-Cahn 2-D": known({"r": 1.0, "q": -1.0, "D": 0.05}, ndim=2),
    "Fisher 2-D": known({"r": 1.0, "s": -1.0, "D": 0.05}, ndim=2, start=(0.4, 0.12)),
    "Swift-Hohenberg 2-D": known(
        {"r": -0.7, "D": -2.0, "kappa": 1.0, "q": -1.0}, 25.0, 0.2, 2, settle=5
    ),
    "heat 3-D": known({"D": 0.1}, ndim=3),
}  # fmt: skip
"""Systems that the dictionary can say."""
