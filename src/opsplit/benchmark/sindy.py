"""Sparse regression by PySINDy: an equation is discovered in the window and simulated.

Candidates are its weak form (`WeakPDELibrary`, the window continued periodically) and its strong
form (`PDELibrary`, spectral derivatives), each with several thresholds and normalised columns. The
candidate that continues the first half of the window best makes the forecast. The libraries hold
all powers up to degree three and all derivatives, and their products if there is one channel.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit.benchmark.baselines import Method, Outcome
from opsplit.errors import OpsplitError
from opsplit.fourier import field_of, lower_modes, odd_wavenumbers, spectrum_of, wavenumbers
from opsplit.integrators import integrating_factor_rk4
from opsplit.metrics import nrmse
from opsplit.physics import Physics
from opsplit.trajectories import Trajectories

DEGREE = 3
THRESHOLDS = {"weak": (0.0005, 0.005, 0.05), "strong": (0.0005, 0.005, 0.05)}
"""Terms below these shares of the rate are dropped."""
SUBDOMAINS = 300
SUBSTEPS = 8
"""Steps of a simulation per frame."""


def sindy(physics: Physics) -> Method:
    """Discovery from the observed frames alone."""
    try:
        import pysindy
    except ImportError:
        raise OpsplitError("The method sindy needs PySINDy: pip install 'opsplit[sindy]'") from None
    features = Features(physics)
    # To place the test functions takes longer than to fit.
    library_of = cache(features.library)

    def run(observed: Trajectories, horizon: int, seed: int) -> Outcome:
        began = time.perf_counter()
        frames, dt = observed.data[0].double(), observed.dt
        half = len(frames) // 2
        best: tuple[float, Tensor] | None = None
        for kind, thresholds in THRESHOLDS.items():
            library, fields = library_of(kind, len(frames), dt), features.fields(kind, frames)
            for threshold in thresholds:
                weights = discovered(pysindy, library, fields, dt, threshold)
                tried = features.simulate(weights, frames[half - 1], dt, len(frames) - half)
                error = float(nrmse(tried[None], frames[None, half:]))
                error = error if math.isfinite(error) else math.inf
                if best is None or error < best[0]:
                    best = (error, weights)
        assert best is not None
        future = features.simulate(best[1], frames[-1], dt, horizon)
        spent = time.perf_counter() - began
        return Outcome(future.float(), features.read(best[1]), best[0], 0, spent)

    return run


def discovered(
    pysindy: Any, library: Any, fields: np.ndarray, dt: float, threshold: float
) -> Tensor:
    """Weights `(channel, feature)` by sequentially thresholded least squares."""
    size = float(np.linalg.norm(np.diff(fields, axis=-2))) / dt
    if isinstance(library, pysindy.WeakPDELibrary):
        # Rows are subdomains there, not points.
        size *= math.sqrt(SUBDOMAINS / fields[..., 0].size)
    optimizer = pysindy.STLSQ(threshold=threshold * size, alpha=1e-10, normalize_columns=True)
    model = pysindy.SINDy(
        feature_library=library,
        optimizer=optimizer,
        differentiation_method=pysindy.FiniteDifference(order=6, axis=-2),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(fields, t=dt)
    return torch.from_numpy(np.array(model.coefficients(), dtype=np.float64))


@dataclass(frozen=True)
class Feature:
    """A product of powers of the channels with at most one derivative."""

    powers: tuple[int, ...]
    index: tuple[int, ...] = ()
    """Order of the derivative along every axis; empty without one."""
    channel: int = 0
    """Which channel is differentiated."""


@dataclass(frozen=True)
class Features:
    """The features of PySINDy's libraries in its order, evaluated on fields and in a solver."""

    physics: Physics

    @property
    def order(self) -> int:
        """Derivatives of fourth order in two channels would make the library too large."""
        return 4 if len(self.physics.channels) == 1 else 2

    def fields(self, kind: str, frames: Tensor) -> np.ndarray:
        """Frames as `(*space, time, channel)`; the weak form sees them continued periodically."""
        fields = torch.movedim(frames, (0, 1), (-2, -1)).numpy()
        pads = [n // 4 if kind == "weak" else 0 for n in self.physics.grid.shape]
        return np.pad(fields, [*((0, pad) for pad in pads), (0, 0), (0, 0)], mode="wrap")

    def library(self, kind: str, frames: int, dt: float) -> Any:
        """A library of PySINDy for windows of so many frames."""
        import pysindy

        grid = self.physics.grid
        shared = {
            "function_library": pysindy.PolynomialLibrary(degree=DEGREE, include_bias=False),
            "derivative_order": self.order,
            "include_bias": True,
            "include_interaction": len(self.physics.channels) == 1,
        }
        more = 1.25 if kind == "weak" else 1
        axes = [h * np.arange(int(more * n)) for n, h in zip(grid.shape, grid.spacing, strict=True)]
        if kind == "strong":
            space = axes[0] if grid.ndim == 1 else np.stack(np.meshgrid(*axes, indexing="ij"), -1)
            spectral = pysindy.differentiation.SpectralDerivative
            return pysindy.PDELibrary(spatial_grid=space, differentiation_method=spectral, **shared)
        moments = dt * np.arange(frames)
        # The library places its test functions with numpy's global generator.
        state = np.random.get_state()
        np.random.seed(0)
        made = pysindy.WeakPDELibrary(
            spatiotemporal_grid=np.stack(np.meshgrid(*axes, moments, indexing="ij"), -1),
            K=SUBDOMAINS,
            H_xt=[*(length / 8 for length in grid.extent), 0.49 * float(moments[-1])],
            p=self.order + 2,
            **shared,
        )
        np.random.set_state(state)
        return made

    @cached_property
    def all(self) -> list[Feature]:
        """In the order of the libraries."""
        import pysindy

        channels, ndim = len(self.physics.channels), self.physics.grid.ndim
        made = pysindy.PolynomialLibrary(degree=DEGREE, include_bias=False)
        made.fit(np.zeros((2, channels)))
        powers = [tuple(int(p) for p in row) for row in made.powers_]
        none = (0,) * channels
        orders = [
            tuple(index)
            for index in np.ndindex(*[self.order + 1] * ndim)
            if 0 < sum(index) <= self.order
        ]
        derivatives = [(index, channel) for index in orders for channel in range(channels)]
        out = [Feature(none), *map(Feature, powers), *(Feature(none, *d) for d in derivatives)]
        if channels == 1:
            out += [Feature(p, *d) for d in derivatives for p in powers]
        return out

    def symbol(self, index: tuple[int, ...]) -> Tensor:
        """Of a derivative."""
        odd, even = odd_wavenumbers(self.physics.grid), wavenumbers(self.physics.grid)
        symbol = torch.ones_like(odd[0]) + 0j
        for axis, order in enumerate(index):
            symbol = symbol * (1j * (odd if order % 2 else even)[axis]) ** order
        return symbol

    def values(self, spectrum: Tensor, u: Tensor, feature: Feature) -> Tensor:
        """A feature `(n, *space)` of fields `(n, channel, *space)` and their spectra."""
        value = torch.ones_like(u[:, 0])
        for channel, power in enumerate(feature.powers):
            if power:
                value = value * u[:, channel] ** power
        if feature.index:
            slope = self.symbol(feature.index) * spectrum[:, feature.channel]
            value = value * field_of(slope, self.physics.grid.shape)
        return value

    @cached_property
    def signatures(self) -> dict[str, Tensor]:
        """Weights `(channel, feature)` of every true term, found by regression on fields."""
        u = self.physics.initial_fields(8, torch.Generator().manual_seed(0))
        # Products of smooth fields have no modes beyond the grid, so that all forms are equal.
        spectrum = spectrum_of(u, self.physics.grid.ndim) * lower_modes(self.physics.grid, 1 / 3)
        u = field_of(spectrum, self.physics.grid.shape)
        matrix = torch.stack([self.values(spectrum, u, f).flatten() for f in self.all], 1)
        size = matrix.norm(dim=0).clamp_min(1e-30)
        out = {}
        for name, field in self.physics.term_fields(u).items():
            target = torch.movedim(field, 1, 0).flatten(1).T
            found = torch.linalg.lstsq(matrix / size, target, driver="gelsd").solution
            found[found.abs() < 1e-6 * found.abs().max()] = 0
            if float((matrix / size @ found - target).norm()) > 1e-5 * float(target.norm()):
                raise OpsplitError(
                    f"PySINDy's library of {self.physics.title} does not contain the term of "
                    f"{name}; choose another method."
                )
            out[name] = (found / size[:, None]).T
        return out

    @cached_property
    def support(self) -> Tensor:
        """Which weights the true terms have."""
        return (torch.stack(list(self.signatures.values())) != 0).any(0)

    def read(self, weights: Tensor) -> dict[str, float]:
        """Coefficients of the true terms in the weights."""
        on = self.support
        columns = torch.stack([s[on] for s in self.signatures.values()], 1)
        size = columns.abs().amax(1, keepdim=True)
        found = torch.linalg.lstsq(columns / size, weights[on][:, None] / size, driver="gelsd")
        return dict(zip(self.signatures, found.solution[:, 0].tolist(), strict=True))

    def simulate(self, weights: Tensor, initial: Tensor, dt: float, frames: int) -> Tensor:
        """Frames `(time, channel, *space)` of the discovered equation after one field.

        If it has no term too many on one channel, the exact solver takes it. Others are simulated
        by a pseudo-spectral method, linear terms exactly.
        """
        grid = self.physics.grid
        spurious = bool((weights[~self.support] != 0).any())
        if len(self.physics.channels) == 1 and not spurious:
            times = dt * torch.arange(1, frames + 1, dtype=torch.float64)
            known = {k: torch.tensor([v]).double() for k, v in self.read(weights).items()}
            return self.physics.solve(initial[None], known, times)[0]
        linear, rest = self.parted(weights)
        active = [j for j in range(len(self.all)) if bool((rest[:, j] != 0).any())]
        # Products with derivatives are dealiased; reactions act point by point.
        sloped, h = any(self.all[j].index for j in active), dt / SUBSTEPS
        keep = lower_modes(grid, 2 / 3) if sloped else torch.ones(())
        shares = {x: torch.exp(linear * (h * x)) for x in (0.5, 1.0)}

        def rate(modes: Tensor) -> Tensor:
            u = field_of(modes * keep, grid.shape)
            total = torch.zeros_like(u)
            for j in active:
                value = self.values(modes * keep, u, self.all[j])[:, None]
                total += rest[:, j].reshape(-1, *[1] * grid.ndim) * value
            return spectrum_of(total, grid.ndim) * keep

        modes, out = spectrum_of(initial[None], grid.ndim), []
        for _ in range(frames):
            modes = integrating_factor_rk4(lambda v, x: shares[x] * v, rate, modes, h, SUBSTEPS)
            out.append(field_of(modes, grid.shape)[0])
        return torch.stack(out)

    def parted(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Symbols `(channel, *modes)` of a channel's own linear terms, and the other weights."""
        channels = len(self.physics.channels)
        linear, rest = (
            torch.zeros_like(odd_wavenumbers(self.physics.grid)[:1]) + 0j,
            weights.clone(),
        )
        linear = linear.repeat(channels, *[1] * self.physics.grid.ndim)
        for j, feature in enumerate(self.all):
            for c in range(channels):
                own = tuple(int(x == c) for x in range(channels))
                if feature.index:
                    mine = feature.channel == c and not any(feature.powers)
                else:
                    mine = feature.powers == own
                if mine:
                    linear[c] += weights[c, j] * self.symbol(feature.index)
                    rest[c, j] = 0
        return linear, rest
