"""PySINDy on the observed frames of every test trajectory; forecasts by the independent solver.

Candidates are its strong form (PDELibrary, spectral derivatives in space, differences of order six
in time) and, on a line, its weak form (WeakPDELibrary), each with several thresholds, columns
normalised. The candidate that continues the first half of the observed frames best makes the
forecast. Its library: all products of powers up to degree 3 with one derivative.
"""

from __future__ import annotations

import time
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from common import ALL, OBSERVED, PREDICTED, TESTS, Row, nrmse, summary, test_data
from equations import Equation
from solver import irfftn, rfftn, solve, wavenumbers

THRESHOLDS = {"strong": (0.0005, 0.005, 0.05), "weak": (0.005, 0.05)}
"""Terms below these shares of the rate are dropped."""
DEGREE = 3
SUBDOMAINS = 300


def work(out: Path, name: str, tests: int = 0) -> Row:
    """Discover and forecast; failures are counted."""
    equation = ALL[name]
    data, truth = test_data(out, name, tests or TESTS)
    terms = Features(equation)
    errors, found, seconds, right, reasons = [], [], [], 0, {}
    for u in data.astype(np.float64):
        began = time.monotonic()
        try:
            weights, kind = discover(equation, terms, u[:OBSERVED])
        except Exception as reason:
            reasons[f"{type(reason).__name__}: {reason}"[:200]] = True
            errors.append(float("inf"))
            found.append({})
            continue
        seconds.append(time.monotonic() - began)
        future = terms.simulate(weights, u[OBSERVED - 1], PREDICTED + 1)
        errors.append(nrmse(future[1:], u[OBSERVED:]))
        reasons[kind] = True
        read = terms.read(weights)
        found.append(read)
        right += bool(read) and bool(np.array_equal(weights != 0, terms.support))
    return {
        **summary(errors, found, truth),
        "representable": terms.signatures is not None,
        "right_terms": right / len(errors),
        "seconds": float(np.median(seconds)) if seconds else None,
        "forms": sorted(reasons),
    }


class Features:
    """PySINDy's features in its order, evaluated on fields and in a solver."""

    def __init__(self, equation: Equation) -> None:
        self.equation = equation
        # Derivatives of fourth order in two channels would make the library too large.
        self.order = 4 if len(equation.channels) == 1 else 2
        self.library = self._library()
        powers = self.library.function_library.powers_
        self.powers = [tuple(int(p) for p in row) for row in powers]
        self.derivatives = [
            (tuple(int(x) for x in np.atleast_1d(index)), channel)
            for index in self.library.multiindices
            for channel in range(len(equation.channels))
        ]
        none = (0,) * len(equation.channels)
        self.names: list[tuple[tuple[int, ...], tuple[tuple[int, ...], int] | None]] = [
            (none, None),
            *((p, None) for p in self.powers),
            *((none, d) for d in self.derivatives),
            *((p, d) for d in self.derivatives for p in self.powers),
        ]
        self.k = wavenumbers(equation.shape, equation.extent)
        self.axes = tuple(range(-equation.ndim, 0))

    def _library(self) -> Any:
        import pysindy

        equation = self.equation
        x = np.arange(equation.points) * equation.extent / equation.points
        grid = np.stack(np.meshgrid(*[x] * equation.ndim, indexing="ij"), -1)
        library = pysindy.PDELibrary(
            function_library=pysindy.PolynomialLibrary(degree=DEGREE, include_bias=False),
            derivative_order=self.order,
            spatial_grid=x if equation.ndim == 1 else grid,
            include_bias=True,
            differentiation_method=pysindy.differentiation.SpectralDerivative,
        )
        library.fit(np.zeros((*equation.shape, OBSERVED, len(equation.channels))))
        return library

    @cached_property
    def weak(self) -> tuple[Any, int]:
        """The weak form of the same library, and by how many points to continue the line."""
        import pysindy

        equation = self.equation
        pad = equation.points // 4
        spacing = equation.extent / equation.points
        x = spacing * np.arange(equation.points + pad)
        t = equation.dt * np.arange(OBSERVED)
        np.random.seed(0)  # the library places its test functions with numpy's global generator
        library = pysindy.WeakPDELibrary(
            function_library=pysindy.PolynomialLibrary(degree=DEGREE, include_bias=False),
            derivative_order=self.order,
            spatiotemporal_grid=np.stack(np.meshgrid(x, t, indexing="ij"), -1),
            include_bias=True,
            K=SUBDOMAINS,
            H_xt=[equation.extent / 8, 0.49 * float(t[-1])],
            p=self.order + 2,
        )
        return library, pad

    def values(
        self, spectrum: np.ndarray, active: list[int], fields: np.ndarray
    ) -> dict[int, np.ndarray]:
        """Active features of spectra `(n, channel, *modes)` and their fields."""
        made: dict[Any, np.ndarray] = {}
        out = {}
        for j in active:
            power, derivative = self.names[j]
            value: np.ndarray | float = 1.0
            for channel, p in enumerate(power):
                if p:
                    value = value * fields[:, channel] ** p
            if derivative is not None:
                if derivative not in made:
                    symbol = self._symbol(derivative[0])
                    made[derivative] = irfftn(
                        symbol * spectrum[:, derivative[1]], s=self.equation.shape, axes=self.axes
                    )
                value = value * made[derivative]
            out[j] = np.broadcast_to(value, fields[:, 0].shape)
        return out

    def _symbol(self, index: tuple[int, ...]) -> np.ndarray:
        symbol = np.ones(1)
        for k, order in zip(self.k, index, strict=True):
            symbol = symbol * (1j * k) ** order
        return symbol

    def simulate(self, weights: np.ndarray, initial: np.ndarray, frames: int) -> np.ndarray:
        """Frames of what the weights `(channel, feature)` say, from one field."""
        equation = self.equation
        channels = len(equation.channels)
        symbol = np.zeros((channels, *np.broadcast_shapes(*[k.shape for k in self.k])), complex)
        rest = weights.copy()
        for j, (power, derivative) in enumerate(self.names):
            for c in range(channels):
                own = tuple(int(x == c) for x in range(channels))
                if derivative is None and power == own:
                    symbol[c] += weights[c, j]
                    rest[c, j] = 0
                elif derivative is not None and not any(power) and derivative[1] == c:
                    symbol[c] += weights[c, j] * self._symbol(derivative[0])
                    rest[c, j] = 0
        active = [int(j) for j in np.flatnonzero(rest.any(0))]
        limit = 2 / 3 * np.pi * equation.points / equation.extent
        keep = np.ones(symbol.shape[1:])
        for x in self.k:
            keep = keep * (abs(x) < limit)

        def modes(v: np.ndarray) -> np.ndarray:
            v = v * keep
            u = irfftn(v, s=equation.shape, axes=self.axes)
            values = self.values(v, active, u)
            total = np.zeros(u.shape)
            for j, value in values.items():
                for c in range(channels):
                    if rest[c, j]:
                        total[:, c] += rest[c, j] * value
            return rfftn(total, axes=self.axes) * keep

        with np.errstate(all="ignore"):
            found = solve(
                initial[None], symbol[None], modes if active else None, equation.dt, frames,
                equation.substeps // 2,
            )  # fmt: skip
        return found[0]

    @cached_property
    def signatures(self) -> np.ndarray | None:
        """Weights `(mechanism, channel, feature)` of the true terms, if they are features."""
        equation = self.equation
        rng = np.random.default_rng(0)
        fields = np.stack([equation.initial(rng) for _ in range(4 if equation.ndim > 1 else 40)])
        spectrum = rfftn(fields, axes=self.axes)
        values = self.values(spectrum, list(range(len(self.names))), fields)
        held = np.stack([v.ravel() for v in values.values()], 1)
        size = np.linalg.norm(held, axis=0)
        out = []
        for name in equation.mechanisms:
            rates = equation.rate(name, fields)
            rows = []
            for c in range(len(equation.channels)):
                target = rates[:, c].ravel()
                found = np.linalg.lstsq(held / size, target, rcond=None)[0]
                found[abs(found) < 1e-6 * (abs(found).max() + 1e-300)] = 0
                left = np.linalg.norm(held / size @ found - target)
                if left > 1e-5 * np.linalg.norm(target) + 1e-12:
                    return None
                rows.append(found / size if target.any() else 0 * found)
            out.append(np.stack(rows))
        self._size = size
        return np.stack(out)

    @property
    def support(self) -> np.ndarray:
        assert self.signatures is not None
        return (self.signatures != 0).any(0)

    def read(self, weights: np.ndarray) -> dict[str, float]:
        """Coefficients of the true terms in what was found."""
        if self.signatures is None:
            return {}
        on = self.support
        scale = np.broadcast_to(self._size, weights.shape)[on]
        columns = np.stack([s[on] * scale for s in self.signatures], 1)
        found = np.linalg.lstsq(columns, weights[on] * scale, rcond=None)[0]
        return dict(zip(self.equation.mechanisms, map(float, found), strict=True))


def discover(equation: Equation, terms: Features, window: np.ndarray) -> tuple[np.ndarray, str]:
    """Weights `(channel, feature)` of the candidate that continues the window best."""
    import pysindy

    x = np.moveaxis(np.moveaxis(window, 0, -1), 0, -1)  # (*space, time, channel)
    candidates = [("strong", terms.library, x)]
    if equation.ndim == 1:
        library, pad = terms.weak
        candidates.append(("weak", library, np.concatenate([x, x[:pad]])))
    best: tuple[float, np.ndarray, str] | None = None
    for kind, library, fields in candidates:
        for threshold in THRESHOLDS[kind]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                weights = _fit(pysindy, library, fields, equation.dt, threshold)
            if weights is None:
                continue
            half = OBSERVED // 2
            tried = terms.simulate(weights, window[half - 1], OBSERVED - half + 1)
            error = nrmse(tried[1:], window[half:])
            if best is None or error < best[0]:
                best = (error, weights, f"{kind} {threshold:g}")
    if best is None:
        raise ValueError("every threshold dropped all terms")
    return best[1], best[2]


def _fit(
    pysindy: Any, library: Any, fields: np.ndarray, dt: float, threshold: float
) -> np.ndarray | None:
    """Weights in physical units; none if all terms were dropped."""
    difference = pysindy.FiniteDifference(order=6, axis=-2)
    size = np.linalg.norm(np.diff(fields, axis=-2)) / dt
    if isinstance(library, pysindy.WeakPDELibrary):
        # Rows are subdomains there, not points.
        size *= np.sqrt(SUBDOMAINS / fields[..., 0].size)
    optimizer = pysindy.STLSQ(threshold=threshold * size, alpha=1e-10, normalize_columns=True)
    fit = pysindy.SINDy(
        feature_library=library, optimizer=optimizer, differentiation_method=difference
    )
    fit.fit(fields, t=dt)
    found = np.asarray(fit.coefficients())
    return found if found.any() else None
