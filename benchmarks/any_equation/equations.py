"""Equations that nobody tuned anything for, each a sum of mechanisms with coefficients.

A mechanism is a linear symbol, a nonlinear function of fields and derivatives, or both; training
data hold one mechanism at a time, test data all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from solver import irfftn, rfftn, solve, wavenumbers

Symbol = Callable[..., np.ndarray]
"""Of the wavenumbers of all axes: symbols `(channel, *modes)`."""
Terms = Callable[..., np.ndarray]
"""Of fields `(channel, trajectory, *space)` and a function `d(field, axes)`: rates alike."""


AT_ONCE = 65_536
"""Numbers of one frame of the trajectories that are moved together: they fit into a cache."""
ROUNDING = 3e-8
"""Frames are stored in single precision; a smaller difference is none."""


@dataclass(frozen=True)
class Mechanism:
    """What one coefficient multiplies."""

    text: str
    low: float
    high: float
    linear: Symbol | None = None
    nonlinear: Terms | None = None


@dataclass(frozen=True)
class Equation:
    """An equation with the box, the times and the initial fields of its data."""

    name: str
    mechanisms: Mapping[str, Mechanism]
    points: int | tuple[int, ...]
    extent: float | tuple[float, ...]
    """Points and lengths: of every axis, or one number for all."""
    dt: float
    size: tuple[float, float] = (-1.0, 1.0)
    """Initial fields lie between these two."""
    ndim: int = 1
    channels: tuple[str, ...] = ("u",)
    modes: int = 5
    frames: int = 40
    substeps: int = 20
    values: int = 10
    """Training values of every coefficient."""
    trajectories: int = 8
    """Training trajectories of every value."""
    test: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Ranges of test coefficients, where they are not those of training."""
    noise: float = 0.0
    """White noise on training frames, as a share of the deviation of their channel."""
    units: tuple[float, ...] = ()
    """Initial fields of every channel are multiplied by these."""
    offset: tuple[float, ...] = ()
    """Added to the initial fields of every channel."""
    mixed: int = 0
    """Training environments in which all coefficients act, instead of one at a time."""
    walls: str = "periodic"
    """Between `neumann` or `dirichlet` walls, half of the box is stored: the other half mirrors it,
    evenly or oddly."""
    file: str = "npz"
    """Training data are given as `npz`, `netcdf`, or a folder of `csv` of different lengths."""
    told: bool = False
    """Whether the training file says the terms."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in np.broadcast_to(self.points, self.ndim))

    @property
    def lengths(self) -> tuple[float, ...]:
        return tuple(float(x) for x in np.broadcast_to(self.extent, self.ndim))

    @property
    def box(self) -> tuple[float, ...]:
        """Lengths of what is stored."""
        return self.lengths if self.walls == "periodic" else tuple(x / 2 for x in self.lengths)

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        """Random smooth fields `(channel, *space)` stretched to the range of the equation."""
        square = sum(x**2 for x in wavenumbers(self.shape, 2 * np.pi))
        keep = (square <= self.modes**2) / (1 + square) ** 0.5
        out = []
        for _ in self.channels:
            u = irfftn(rfftn(rng.standard_normal(self.shape)) * keep, s=self.shape)
            low, high = np.sort(rng.uniform(*self.size, 2))
            low, high = (low, high) if high - low > 0.5 * np.ptp(self.size) else self.size
            out.append(self._mirrored(low + (high - low) * (u - u.min()) / np.ptp(u)))
        units = np.reshape(self.units or [1.0] * len(out), (-1, *[1] * self.ndim))
        offset = np.reshape(self.offset or [0.0] * len(out), units.shape)
        return np.stack(out) * units + offset

    def _mirrored(self, u: np.ndarray) -> np.ndarray:
        """The field with the symmetry of the walls, which lie between points."""
        if self.walls == "periodic":
            return u
        back = np.flip(u, tuple(range(self.ndim)))
        return (u + back) / 2 if self.walls == "neumann" else (u - back) / 2

    def stored(self, data: np.ndarray) -> np.ndarray:
        """What a file holds of fields `(..., x)`: all, or those between the walls."""
        return data if self.walls == "periodic" else data[..., : data.shape[-1] // 2]

    def simulate(
        self, coefficients: Mapping[str, np.ndarray], initial: np.ndarray, frames: int,
        substeps: int = 0,
    ) -> np.ndarray:  # fmt: skip
        """Frames `(trajectory, time, channel, *space)`, one value of every coefficient each.

        Without `substeps` a comparison on a few trajectories says how many are needed.
        """
        substeps = substeps or self._enough(coefficients, initial, frames)
        most = max(1, AT_ONCE // initial[0].size)
        parts = []
        for start in range(0, len(initial), most):
            some = slice(start, start + most)
            chosen = {k: np.asarray(v)[some] for k, v in coefficients.items()}
            parts.append(self._simulate(chosen, initial[some], frames, substeps))
        return np.concatenate(parts)

    def rate(self, name: str, fields: np.ndarray) -> np.ndarray:
        """What a coefficient of one adds to the rate of fields `(frame, channel, *space)`."""
        k, axes = wavenumbers(self.shape, self.lengths), tuple(range(-self.ndim, 0))
        mechanism = self.mechanisms[name]

        def filtered(w: np.ndarray, symbol: np.ndarray) -> np.ndarray:
            return irfftn(symbol * rfftn(w, axes=axes), s=self.shape, axes=axes)

        def d(w: np.ndarray, along: str) -> np.ndarray:
            return filtered(w, math.prod(1j * k["xyz".index(axis)] for axis in along))

        total = np.zeros(fields.shape)
        if mechanism.linear is not None:
            total = total + filtered(fields, mechanism.linear(*k))
        if mechanism.nonlinear is not None:
            total = total + np.moveaxis(mechanism.nonlinear(np.moveaxis(fields, 1, 0), d), 0, 1)
        return total

    def _enough(
        self, coefficients: Mapping[str, np.ndarray], initial: np.ndarray, frames: int
    ) -> int:
        """The fewest substeps whose frames agree with those of all substeps to rounding."""
        size = sum(abs(np.asarray(v)) / self.mechanisms[k].high for k, v in coefficients.items())
        order = np.argsort(size)
        some = order[[0, len(order) // 2, -1]] if len(order) > 3 else order
        chosen = {k: np.asarray(v)[some] for k, v in coefficients.items()}
        best = self._simulate(chosen, initial[some], frames, self.substeps)
        for share in (10, 5, 2):
            steps = self.substeps // share
            found = self._simulate(chosen, initial[some], frames, steps)
            if abs(found - best).max() < ROUNDING * abs(best).max():
                return steps
        return self.substeps

    def _simulate(
        self, coefficients: Mapping[str, np.ndarray], initial: np.ndarray, frames: int,
        substeps: int,
    ) -> np.ndarray:  # fmt: skip
        k = wavenumbers(self.shape, self.lengths)
        wide = (-1, 1, *[1] * self.ndim)
        symbol = np.zeros((*initial.shape[:-1], self.shape[-1] // 2 + 1), complex)
        active: list[tuple[np.ndarray, Terms]] = []
        for name, values in coefficients.items():
            mechanism, value = self.mechanisms[name], np.reshape(values, wide)
            if value.any() and mechanism.linear is not None:
                symbol = symbol + value * mechanism.linear(*k)
            if value.any() and mechanism.nonlinear is not None:
                active.append((np.moveaxis(value, 1, 0), mechanism.nonlinear))
        keep = np.ones(symbol.shape[2:])
        for x, points, length in zip(k, self.shape, self.lengths, strict=True):
            keep = keep * (abs(x) < 2 / 3 * np.pi * points / length)
        axes = tuple(range(-self.ndim, 0))

        def modes(v: np.ndarray) -> np.ndarray:
            kept = np.moveaxis(v * keep, 1, 0)
            u = irfftn(kept, s=self.shape, axes=axes)

            def d(w: np.ndarray, along: str) -> np.ndarray:
                s = kept if w is u else rfftn(w, axes=axes)
                for axis in along:
                    s = s * (1j * k["xyz".index(axis)])
                return irfftn(s, s=self.shape, axes=axes)

            total = sum(value * rate(u, d) for value, rate in active)
            return np.moveaxis(rfftn(total, axes=axes), 0, 1) * keep

        run = modes if active else None
        with np.errstate(all="ignore"):
            return solve(initial, symbol, run, self.dt, frames, substeps)


def _stack(*rates: np.ndarray) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*rates))


def lap(*k: np.ndarray) -> np.ndarray:
    return -sum(x**2 for x in k)


EQUATIONS: dict[str, Equation] = {
    e.name: e
    for e in (
        Equation(
            "fisher-kpp",
            {
                "r": Mechanism("u - u^2", 0.5, 3.0, nonlinear=lambda u, d: u - u**2),
                "D": Mechanism("u_xx", 0.05, 0.6, lambda k: -(k**2)),
            },
            128, 20.0, 0.1, (0.0, 1.0),
        ),
        Equation(
            "allen-cahn",
            {
                "r": Mechanism("u - u^3", 0.5, 3.0, nonlinear=lambda u, d: u - u**3),
                "D": Mechanism("u_xx", 0.002, 0.03, lambda k: -(k**2)),
            },
            128, 4.0, 0.05,
        ),
        Equation(
            "nagumo",
            {
                "r": Mechanism(
                    "u (1 - u) (u - 0.3)", 1.0, 8.0,
                    nonlinear=lambda u, d: u * (1 - u) * (u - 0.3),
                ),
                "D": Mechanism("u_xx", 5.0, 60.0, lambda k: -(k**2)),
                "c": Mechanism("-u_x", 10.0, 80.0, lambda k: -1j * k),
            },
            128, 200.0, 0.1, (0.0, 1.0),
        ),
        Equation(
            "kuramoto-sivashinsky",
            {
                "a": Mechanism("-u u_x", 0.3, 1.5, nonlinear=lambda u, d: -d(u**2 / 2, "x")),
                "s": Mechanism("-(u_xx + u_xxxx)", 0.3, 1.5, lambda k: k**2 - k**4),
            },
            128, 40.0, 0.1, modes=8,
        ),
        Equation(
            "gardner",
            {
                "a": Mechanism("-u u_x", 0.5, 3.0, nonlinear=lambda u, d: -d(u**2 / 2, "x")),
                "b": Mechanism("-u^2 u_x", 0.5, 3.0, nonlinear=lambda u, d: -d(u**3 / 3, "x")),
                "g": Mechanism("-u_xxx", 0.01, 0.08, lambda k: 1j * k**3),
            },
            128, 10.0, 0.02, modes=4,
        ),
        Equation(
            "cahn-hilliard",
            {
                "m": Mechanism("(u^3)_xx", 0.3, 1.5, nonlinear=lambda u, d: d(u**3, "xx")),
                "s": Mechanism("-(u_xx + 0.3 u_xxxx)", 0.3, 1.5, lambda k: k**2 - 0.3 * k**4),
            },
            128, 16.0, 0.02, modes=6, substeps=40,
        ),
        Equation(
            "swift-hohenberg",
            {
                "s": Mechanism("-(1 + lap)^2 u", 0.3, 1.5, lambda *k: -((1 + lap(*k)) ** 2)),
                "r": Mechanism("u", 0.1, 1.0, lambda *k: 1 + 0 * lap(*k)),
                "g": Mechanism("-u^3", 0.3, 2.0, nonlinear=lambda u, d: -(u**3)),
            },
            48, 30.0, 0.1, ndim=2, modes=6, trajectories=4,
        ),
        Equation(
            "fitzhugh-nagumo",
            {
                "r": Mechanism(
                    "(u - u^3 - v, 0)", 0.5, 3.0,
                    nonlinear=lambda u, d: _stack(u[0] - u[0] ** 3 - u[1], 0 * u[0]),
                ),
                "e": Mechanism(
                    "(0, u - 0.5 v)", 0.1, 1.0,
                    nonlinear=lambda u, d: _stack(0 * u[0], u[0] - 0.5 * u[1]),
                ),
                "D": Mechanism(
                    "(lap u, 0.2 lap v)", 0.05, 0.5,
                    lambda *k: np.stack([lap(*k), 0.2 * lap(*k)]),
                ),
            },
            48, 20.0, 0.1, ndim=2, channels=("u", "v"), trajectories=4,
        ),
        Equation(
            "brusselator",
            {
                "k": Mechanism(
                    "(1 - 3.5 u + u^2 v, 2.5 u - u^2 v)", 0.3, 1.5,
                    nonlinear=lambda u, d: _stack(
                        1 - 3.5 * u[0] + u[0] ** 2 * u[1], 2.5 * u[0] - u[0] ** 2 * u[1]
                    ),
                ),
                "D": Mechanism(
                    "(lap u, 2 lap v)", 0.05, 0.5, lambda *k: np.stack([lap(*k), 2 * lap(*k)])
                ),
            },
            48, 20.0, 0.05, (0.5, 3.0), ndim=2, channels=("u", "v"), trajectories=4,
        ),
        Equation(
            "burgers-2d",
            {
                "a": Mechanism(
                    "-(u . grad) u", 0.3, 1.5,
                    nonlinear=lambda u, d: -(u[0] * d(u, "x") + u[1] * d(u, "y")),
                ),
                "nu": Mechanism("lap u", 0.005, 0.05, lambda *k: lap(*k)),
            },
            64, 2 * np.pi, 0.02, ndim=2, channels=("u", "v"), modes=3, trajectories=4,
        ),
    )
}  # fmt: skip


def training_set(equation: Equation, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Trajectories `(trajectory, time, channel, *space)` of one mechanism each."""
    rng = np.random.default_rng(seed)
    data, known = [], []
    if equation.mixed:
        drawn = {
            name: np.repeat(rng.uniform(m.low, m.high, equation.mixed), equation.trajectories)
            for name, m in equation.mechanisms.items()
        }
        count = equation.mixed * equation.trajectories
        initial = np.stack([equation.initial(rng) for _ in range(count)])
        data, known = [equation.simulate(drawn, initial, equation.frames)], [drawn]
    for name, mechanism in equation.mechanisms.items() if not equation.mixed else ():
        values = np.linspace(mechanism.low, mechanism.high, equation.values)
        values = np.repeat(values, equation.trajectories)
        initial = np.stack([equation.initial(rng) for _ in values])
        data.append(equation.simulate({name: values}, initial, equation.frames))
        known.append({k: values if k == name else 0 * values for k in equation.mechanisms})
    joined = {k: np.concatenate([one[k] for one in known]) for k in equation.mechanisms}
    whole = np.concatenate(data)
    if equation.noise:
        deviation = whole.std((0, 1, *range(3, whole.ndim)), keepdims=True)
        whole = whole + equation.noise * deviation * rng.standard_normal(whole.shape)
    return _finite(equation.stored(whole), joined)


def test_set(
    equation: Equation, n: int, seed: int, frames: int = 50
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Trajectories of all mechanisms together, with coefficients that were not trained on."""
    rng = np.random.default_rng(seed)
    drawn = {
        name: rng.uniform(*equation.test.get(name, (m.low, m.high)), n)
        for name, m in equation.mechanisms.items()
    }
    initial = np.stack([equation.initial(rng) for _ in range(n)])
    return _finite(equation.stored(equation.simulate(drawn, initial, frames)), drawn)


def _finite(
    data: np.ndarray, known: dict[str, np.ndarray]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Trajectories that stay finite, in single precision."""
    good = np.isfinite(data).reshape(len(data), -1).all(1)
    return data[good].astype(np.float32), {k: v[good] for k, v in known.items()}
