"""`OperatorSplitter`: fit to a few frames, predict the rest, with scikit-learn's manners."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from opsplit.calibration import Calibration, coefficient_scale, forecast_deviation
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, OpsplitWarning
from opsplit.fourier import resample
from opsplit.metrics import nrmse
from opsplit.model import Model, load_model
from opsplit.physics import PHYSICS
from opsplit.predict.denoise import denoise
from opsplit.predict.identify import equation
from opsplit.predict.range import out_of_range
from opsplit.predict.rollout import Forecast, rollouts
from opsplit.predict.working_grid import working_grid
from opsplit.search import Composition, Objective, SearchResult, Strategy, get_search
from opsplit.search.strategy import Report
from opsplit.splitting import Scheme
from opsplit.trajectories import Trajectories

if TYPE_CHECKING:
    import xarray

    from opsplit.io.recording import Recording


class OperatorSplitter:
    """Explain observed frames as a composition of known operators, then forecast.

    Arguments:
        model: a bundled name, a model directory, or a loaded model.
        search: `"pursuit"`, the paper's `"beam"` or `"uniform"`, or a configured strategy such as
            `Pursuit(max_seconds=2)` or `Beam(width=8)`.
        family: which of the bundled models, `"spectral"` or `"unet"`.
        scheme: `"lie"`, `"strang"` or `"fourth"`.
        refinement: splitting substeps per frame.
        window: only the last so many frames are fitted (None: all that are given).
        denoise: take white noise out of the observed frames first; clean frames stay as they are.
            None: for pursuit, not for the paper's searches.
        device: where to compute, such as `"cpu"` or `"cuda"`.
        memory_mb: limit of a search's working memory.

    After `fit`: `composition_`, `coefficients_`, `coefficient_intervals_` (90 %, for a model that
    was calibrated for the search), `equation_`, `fit_error_`, `search_table_`, the whole
    `search_result_`, and `notes_`: what is unlike the data the model was trained on, in sentences
    (`status_` sums them up, `"ok"` if there are none).
    """

    def __init__(
        self,
        model: str | Path | Model = "advection-diffusion",
        search: str | Strategy = "pursuit",
        family: str | None = None,
        scheme: Scheme = "strang",
        refinement: int = 1,
        window: int | None = 16,
        denoise: bool | None = None,
        device: str = "cpu",
        memory_mb: float = 256.0,
    ) -> None:
        self.model, self.search, self.family = model, search, family
        self.scheme, self.refinement, self.window = scheme, refinement, window
        self.denoise, self.device, self.memory_mb = denoise, device, memory_mb

    PARAMETERS = (
        "model",
        "search",
        "family",
        "scheme",
        "refinement",
        "window",
        "denoise",
        "device",
        "memory_mb",
    )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in self.PARAMETERS}

    def set_params(self, **params: Any) -> OperatorSplitter:
        """Change constructor arguments."""
        for name, value in params.items():
            if name not in self.PARAMETERS:
                raise OpsplitError(
                    f"OperatorSplitter has no parameter {name!r}; it has {self.PARAMETERS}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items())
        return f"OperatorSplitter({shown})"

    def __str__(self) -> str:
        if not hasattr(self, "search_result_"):
            return repr(self) + "\nnot fitted: call fit(u, dt=...)"
        return f"{self.search_result_}\n{self.equation_}"

    def fit(
        self,
        u: np.ndarray | Tensor | Trajectories | Recording,
        dt: float | None = None,
        extent: float | Sequence[float] | None = None,
        dictionary: OperatorDictionary | None = None,
        report: Report | None = None,
        *,
        times: Sequence[float] | np.ndarray | Tensor | None = None,
    ) -> OperatorSplitter:
        """Find the composition that explains the frames `u`.

        Arguments:
            u: `(time, *space)` or `(time, channel, *space)`, numpy or torch; or what `opsplit.read`
                gives, which knows its times and grid. A frame of NaN is a missing one.
            dt: time between frames.
            extent: physical length of the domain per axis (default: the model's).
            dictionary: other operators than the model's own.
            report: called with the share done and a few words while the search runs.
            times: instead of `dt`, the time of every frame; frames that are missing between two
                are not made up, the pair is left out.
        """
        if self.window is not None and self.window < 2:
            raise OpsplitError(f"window counts frames and must be at least 2, got {self.window}.")
        model = load_model(self.model, self.family)
        search = get_search(self.search)
        config = model.config
        observed = self._read(u, dt, times, extent, model)
        used = model.dictionary if dictionary is None else dictionary
        bound = next((p.family for p in used.parts if p.family.grid_bound), model.disco.family)
        grid = working_grid(bound, model.disco.grid, observed.grid)
        model.check(grid, observed.data.shape[2])
        last = slice(-self.window, None) if self.window else slice(None)
        frames = observed.data[0, last]
        moments = observed.times[last]
        work = resample(frames.to(device=self.device, dtype=torch.float32), grid.shape)
        noise = 0.0
        if search.name == "pursuit" if self.denoise is None else self.denoise:
            work, noise = denoise(work, grid)
        unit = (float(work.std()) if config.rescale else 1.0) or 1.0
        between = moments.diff().tolist()
        objective = Objective(
            used,
            work / unit,
            grid,
            observed.dt if observed.uniform else between,
            self.scheme,
            self.refinement,
            self.memory_mb,
        )
        # Nothing is stored before the search has succeeded: a failed fit leaves the last one.
        result = search.run(objective, report)
        self.search_result_: SearchResult = result
        self.composition_: Composition = result.pick
        self.coefficients_ = dict(result.identified)
        self.fit_error_ = self.composition_.fit_error
        self.search_table_ = result.rows()
        self.notes_, self.status_ = out_of_range(
            config, used, self.composition_, work, objective.dt, observed.grid, grid
        )
        self._calibration = model.calibration if dictionary is None else None
        known = self._calibration
        # An interval around numbers that explain nothing would only mislead.
        sure = known is not None and known.strategy == result.strategy
        sure = sure and "unexplained" not in self.status_
        self.coefficient_intervals_ = self.intervals(0.9) if sure else {}
        known_terms = PHYSICS[config.physics].terms if config.physics in PHYSICS else {}
        self.equation_ = equation(
            self.coefficients_,
            {name: term.text for name, term in known_terms.items()},
            self.coefficient_intervals_,
        )
        self.understood_ = observed.understood
        self.observed_ = observed
        self._operators = objective.operators
        if result.dictionary is not None:
            self._operators = result.dictionary.prepare(grid, work)
        self._as_given, self._unit, self.dt_ = u, unit, objective.dt
        self._frames = len(frames)
        self.noise_ = noise
        self._last = work[-1] / unit
        if noise:
            self._last = self._carried(work / unit, noise / unit, between)
        for note in self.notes_:
            warnings.warn(note, OpsplitWarning, stacklevel=2)
        return self

    def _carried(self, frames: Tensor, noise: float, between: list[float]) -> Tensor:
        """The last frame from all of them: each carried to it by the composition found.

        Every frame brings its own noise, and the model's error for as long as it is carried.
        """
        per_step = self.composition_.fit_error * float(frames.square().mean().sqrt())
        count = len(frames)
        carried = [per_step * (count - 1 - i) for i in range(count)]
        weights = [1 / (noise**2 + error**2) for error in carried]
        held = frames[0]
        for i in range(count):
            # A running weighted mean is carried on together with what it holds.
            share = weights[i] / sum(weights[: i + 1])
            held = held + share * (frames[i] - held)
            if i < count - 1:
                step = rollouts(
                    self._operators, [self.composition_], held, [between[i]], self.dt_,
                    self.scheme, self.refinement,
                )[0]  # fmt: skip
                held = step.frames[0]
        return held if bool(held.isfinite().all()) else frames[-1]

    def intervals(self, level: float) -> dict[str, tuple[float, float]]:
        """Intervals that hold the true coefficients with this probability."""
        calibration = self._calibrated()
        spread = self.search_result_.spread
        out = {}
        for name, value in self.coefficients_.items():
            if name in calibration.coefficients:
                factor = calibration.coefficient_factor(name, level)
                half = factor * coefficient_scale(value, spread.get(name, 0.0))
                out[name] = (value - half, value + half)
        return out

    def _calibrated(self) -> Calibration:
        """The model's calibration, if it belongs to what was fitted."""
        if not hasattr(self, "composition_"):
            raise OpsplitError("Nothing to predict from: call fit(u, dt=...) first.")
        found, strategy = self._calibration, self.search_result_.strategy
        if found is None:
            raise OpsplitError(
                "Intervals need a calibrated model and its own dictionary; "
                "run `opsplit calibrate --model ...` first."
            )
        if found.strategy != strategy:
            raise OpsplitError(
                f"The model was calibrated for search={found.strategy!r}, not for {strategy!r}; "
                f"fit with that search, or run `opsplit calibrate --strategy {strategy}`."
            )
        return found

    def _read(
        self,
        u: np.ndarray | Tensor | Trajectories | Recording,
        dt: float | None,
        times: Any,
        extent: float | Sequence[float] | None,
        model: Model,
    ) -> Trajectories:
        config = model.config
        trained = model.disco.grid
        if not isinstance(u, np.ndarray | Tensor | Trajectories) and hasattr(u, "load"):
            u = u.load(range(min(1, u.shape[0])), slice(-(self.window or 0), None))
        if isinstance(u, Trajectories):
            if len(u) != 1:
                raise OpsplitError(f"fit takes one trajectory, not {len(u)}: u[[0]] is the first.")
            times = u.times if dt is None and times is None else times
            extent = u.grid.extent if extent is None else extent
            u = u.data
        observed = Trajectories.from_numpy(
            u,
            dt=dt,
            times=times,
            extent=trained.extent if extent is None else extent,
            ndim=config.ndim,
            boundary=trained.boundary,
        )
        if len(observed) != 1:
            raise OpsplitError(
                f"fit takes one trajectory, the array holds {len(observed)} "
                f"(read as {observed.understood}). Fit them one by one."
            )
        return observed

    def forecast(
        self,
        steps: int | None = None,
        times: Sequence[float] | None = None,
        deviation: bool = False,
    ) -> Forecast:
        """Like `predict`, with times and a status, and with how far the finalists disagree."""
        if not hasattr(self, "composition_"):
            raise OpsplitError("Nothing to predict from: call fit(u, dt=...) first.")
        if (steps is None) == (times is None):
            raise OpsplitError("Say how far: either steps=34 or times=[0.5, 1.0, ...].")
        if times is None:
            if not isinstance(steps, int) or steps < 1:
                raise OpsplitError(f"steps must be a whole number of at least 1, got {steps!r}.")
            times = [self.dt_ * (i + 1) for i in range(steps)]
        pick = self.composition_
        others = [c for c in self.search_result_.finalists if len(c) == len(pick)]
        chosen = [pick, *(c for c in others if c.operators != pick.operators)]
        found = rollouts(
            self._operators,
            chosen if deviation else chosen[:1],
            self._last,
            times,
            self.dt_,
            self.scheme,
            self.refinement,
        )
        first, spread = found[0], None
        if deviation:
            missed = pick.free_run_error
            missed = pick.fit_error * self._frames if missed is None else missed
            members = torch.stack([f.frames for f in found])
            spread = forecast_deviation(first.frames, members, missed, self._frames) * self._unit
        frames = resample(first.frames * self._unit, self.observed_.grid.shape)
        return Forecast(frames, first.times, first.status, spread)

    def predict(
        self,
        steps: int | None = None,
        times: Sequence[float] | None = None,
        return_interval: float | None = None,
    ) -> Any:
        """Future frames `(time, channel, *space)`, of the same kind as what was fitted.

        Arguments:
            steps: so many frames, `dt` apart.
            times: or at these times after the last observed frame.
            return_interval: with a probability such as 0.9, return `(frames, lower, upper)`: the
                true value of a point lies between the last two with that probability.
        """
        if return_interval is None:
            return self._like_given(self.forecast(steps, times).frames)
        factor = self._calibrated().forecast_factor(return_interval)
        found = self.forecast(steps, times, deviation=True)
        assert found.deviation is not None
        half = factor * found.deviation[(..., *[None] * (found.frames.ndim - 2))]
        bands = (found.frames, found.frames - half, found.frames + half)
        return tuple(self._like_given(x) for x in bands)

    def to_xarray(self, steps: int) -> xarray.Dataset:
        """The forecast as an `xarray.Dataset`; times count from the last observed frame."""
        from opsplit.xarrays import to_xarray

        found, observed = self.forecast(steps), self.observed_
        facts = {"equation": self.equation_, "status": self.status_}
        return to_xarray(
            found.frames, found.times, observed.grid, observed.channels, self.coefficients_, facts
        )

    def _like_given(self, frames: Tensor) -> Any:
        if isinstance(self._as_given, Tensor):
            kind = self._as_given
            return frames.to(kind) if kind.is_floating_point() else frames.to(kind.device)
        array = frames.cpu().numpy()
        dtype = np.asarray(self._as_given).dtype
        return array.astype(dtype) if np.issubdtype(dtype, np.floating) else array

    def score(self, u: np.ndarray | Tensor) -> float:
        """Minus the NRMSE of the forecast of the frames `u` that follow the fitted ones."""
        truth = torch.as_tensor(u, dtype=torch.float32).cpu()
        frames = self.forecast(steps=len(truth)).frames.cpu()
        if truth.numel() != frames.numel():
            raise OpsplitError(
                f"The forecast has frames of shape {tuple(frames.shape[1:])}, "
                f"those to compare with {tuple(truth.shape[1:])}."
            )
        return -float(nrmse(frames[None], truth.reshape(frames.shape)[None]))
