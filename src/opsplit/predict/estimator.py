"""`OperatorSplitter`: fit to a few frames, predict the rest, with scikit-learn's manners."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from opsplit._deadline import within
from opsplit._device import check_device
from opsplit._tensors import public, stacked
from opsplit.calibration import Calibration, coefficient_scale, forecast_deviation
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, OpsplitWarning
from opsplit.io.assemble import Flags
from opsplit.metrics import nrmse
from opsplit.model import AUTO, Model, load_model
from opsplit.predict.auto_model import Ranked, fit_best
from opsplit.predict.compatibility import UNLIKE, Issue, weak_parts
from opsplit.predict.door import observe
from opsplit.predict.explain import Explanation, Plan
from opsplit.predict.finer import forecasts, onto
from opsplit.predict.identify import equation
from opsplit.predict.kinds import like
from opsplit.predict.rival_ends import explained
from opsplit.predict.rivals import missed, rivals
from opsplit.predict.rollout import MOST_STEPS, Forecast, moments
from opsplit.predict.shown import Shown
from opsplit.predict.started import Started, all_issues
from opsplit.predict.state import last_states
from opsplit.predict.stored import load_splitter, save_splitter
from opsplit.predict.traits import one_wave, traits
from opsplit.predict.verdict import Level
from opsplit.predict.window import channel_order
from opsplit.search import Composition, SearchResult, Strategy, get_search
from opsplit.search.strategy import Report
from opsplit.settings import argument, shown
from opsplit.splitting import Scheme


class OperatorSplitter(Shown):
    """Explain observed frames as a composition of known operators, then forecast.

    Arguments:
        model: a bundled name, a directory, a loaded model, or `"auto"`: the one that explains most.
        search: `"pursuit"`, the paper's `"beam"` or `"uniform"`, or a configured strategy such as
            `Pursuit(max_seconds=2)` or `Beam(width=8)`.
        family: which of the bundled models, `"spectral"` or `"unet"`.
        scheme: `"lie"`, `"strang"` or `"fourth"`.
        refinement: splitting substeps per frame. `"auto"` raises them until splitting hardly adds
            to the fitting error (pursuit; the paper's searches take one).
        window: only the last so many frames are fitted (None: all that are given).
        denoise: take white noise out of the observed frames first; clean frames stay as they are.
            None: for pursuit, not for the paper's searches.
        device: where to compute, such as `"cpu"` or `"cuda"`.
        memory_mb: limit of all memory but that of Python and its libraries.

    After `fit`: `verdict_` (how far the composition explains the frames; `status_` is its level in
    a word), `composition_`, `coefficients_`, `coefficient_intervals_` (90 %, for a model that was
    calibrated for the search and data like those of the calibration), `equation_`, `fit_error_`,
    `search_table_`, the whole `search_result_`, `issues_` (what is unlike the data the model was
    trained on, as codes and sentences), `notes_` (the sentences alone), `has_band_` (whether bands
    of forecasts keep their level) and, for `model="auto"`, `ranking_` (the models that were tried,
    best first).

    Examples:
        >>> import opsplit
        >>> u = opsplit.get_physics("advection-diffusion").generate("A+D", 1, seed=1).data[0, :16]
        >>> s = opsplit.OperatorSplitter("advection-diffusion").fit(u, dt=10 / 99, extent=16.0)
        >>> s.predict(steps=34).shape, s.status_
        (torch.Size([34, 1, 256]), 'explained')
    """

    @public
    def __init__(
        self,
        model: str | Path | Model = AUTO,
        search: str | Strategy = "pursuit",
        family: str | None = None,
        scheme: Scheme = "strang",
        refinement: int | Literal["auto"] = "auto",
        window: int | None = 16,
        denoise: bool | None = None,
        device: str = "cpu",
        memory_mb: float = 4096.0,
    ) -> None:
        self.model, self.search, self.family = model, search, family
        self.scheme, self.refinement, self.window = scheme, refinement, window
        self.denoise, self.device, self.memory_mb = denoise, device, memory_mb

    ranking_: tuple[Ranked, ...]
    PARAMETERS = (
        "model", "search", "family", "scheme", "refinement", "window", "denoise", "device",
        "memory_mb",
    )  # fmt: skip

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

    def save(self, folder: str | Path) -> Path:
        """Write the fit into a folder: arrays, JSON and safetensors, no pickle."""
        return save_splitter(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> OperatorSplitter:
        """Read what `save` wrote; forecasts are those of the saved splitter."""
        return load_splitter(cls, folder)

    @public
    def fit(
        self,
        u: Any,
        dt: float | None = None,
        extent: float | Sequence[float] | None = None,
        dictionary: OperatorDictionary | None = None,
        report: Report | None = None,
        *,
        times: Sequence[float] | np.ndarray | Tensor | None = None,
        trajectory: int | None = None,
        boundary: str | Sequence[str] | None = None,
    ) -> OperatorSplitter:
        """Find the one composition that explains the frames `u`.

        Arguments:
            u: a numpy array or a torch tensor `(time, *space)`, `(time, channel, *space)` or
                `(trajectory, time, channel, *space)`; or `Trajectories`, what `opsplit.read`
                gives, xarray data or a path, which know their times and grid. Several trajectories
                are of one dynamics and fitted together. A frame of NaN is a missing one.
            dt: time between frames.
            extent: physical length of the domain per axis (default: the model's, with a warning).
            dictionary: other operators than the model's own.
            report: called with the share done and a few words while the search runs.
            times: instead of `dt`, the time of every frame; frames that are missing between two
                are not made up, the pair is left out.
            trajectory: fit only this one of several.
            boundary: ends of the axes of an array, such as `"dirichlet"`; as in `opsplit.read`
                (default: found from the frames).
        """
        if self.model == AUTO:
            return fit_best(
                self, report, u=u, dt=dt, extent=extent, dictionary=dictionary, times=times,
                trajectory=trajectory, boundary=boundary,
            )  # fmt: skip
        model = load_model(self.model, self.family)
        flags = Flags(dt=dt, extent=extent, times=_plain(times), boundary=boundary)
        plan = self.plan()
        with within(plan.search.max_seconds):
            recording = observe(u, model.config, flags)
            if trajectory is not None:
                recording = recording.part([argument(int, trajectory, "trajectory")])
            # Nothing is stored before the search has succeeded: a failed fit leaves the last one.
            started, found = explained(plan, recording, model, dictionary, report)
        self.keep(found, started, u, dictionary)
        for note in self.notes_:
            warnings.warn(note, OpsplitWarning, stacklevel=4)
        return self

    def keep(
        self,
        found: Explanation,
        started: Started,
        given: Any,
        dictionary: OperatorDictionary | None = None,
    ) -> None:
        """Take over an explanation: everything that a fit leaves behind.

        Arguments:
            given: the data as the caller gave them, whose kind a forecast has.
            dictionary: other operators than the model's own.
        """
        adapted, observed = started.adapted, started.observed
        model, recording, walls = adapted.model, adapted.recording, adapted.walls
        window, objective, result = found.window, found.objective, found.result
        self.traits_ = traits(found)
        issues = all_issues(started, found) + one_wave(found, self.traits_)
        self.refinement_, self.ranking_ = objective.refinement, ()
        self.search_result_: SearchResult = result
        self.composition_: Composition = result.pick
        self.coefficients_ = dict(result.identified)
        self.fit_error_ = self.composition_.fit_error
        self.search_table_ = result.rows()
        self.observed_, self.understood_ = observed, " ".join(recording.understood)
        self.units_, self._dictionary = window.units, dictionary
        self.dt_ = objective.dt * window.units.time
        self.noise_ = window.noise * window.units.amplitude
        self._found, self._walls, self._changes = found, walls, recording.changes
        self._like = like(given, observed, recording.changes)
        order = channel_order(observed.channels, model.config.channels)
        self._back = [order.index(i) for i in range(len(order))]
        own = dictionary is None
        weak = weak_parts(model.metrics, result) if own else []
        self.verdict_ = found.verdict.doubting(weak)
        self._judge(found, issues, model.calibration if own else None)
        named = zip(model.config.channels, (observed.channels[i] for i in order), strict=True)
        self.equation_ = self.equation_.renamed(dict(named))
        self._last = last_states(found, self.scheme)

    def plan(self) -> Plan:
        """How to search, by the constructor's arguments."""
        check_device(str(self.device))
        search = get_search(self.search)
        clean = search.name == "pursuit" if self.denoise is None else self.denoise
        return Plan(
            search, self.scheme, self.refinement, self.window, clean, self.device, self.memory_mb
        )

    def _judge(
        self, found: Explanation, issues: list[Issue], calibration: Calibration | None
    ) -> None:
        """Keep the verdict, and intervals where they can hold."""
        verdict = self.verdict_
        self.status_ = verdict.level.value
        self.issues_ = tuple(issues)
        self.notes_ = tuple(issue.text for issue in issues)
        if not verdict.trusted:
            self.notes_ += (verdict.text,)
        self._calibration = known = calibration and calibration.at(self.traits_)
        # Calibrated where the dictionary holds all terms: one that is missing spoils the others.
        self.sure_ = verdict.level is Level.EXPLAINED
        self.sure_ = self.sure_ and not any(i.code in UNLIKE for i in issues)
        same = known is not None and known.strategy == self.search_result_.strategy
        sure = self.sure_ and same
        self.has_band_ = sure and known is not None and known.shown("forecast")
        intervals = self.intervals(0.9) if sure else {}
        self.coefficient_intervals_ = {
            name: ends
            for name, ends in intervals.items()
            if self.coefficients_[name] and known is not None and known.shown(name)
        }
        terms = {name: term.text for name, term in found.dictionary.terms.items()}
        self.equation_ = equation(self.coefficients_, terms, self.coefficient_intervals_)

    def intervals(self, level: float) -> dict[str, tuple[float, float]]:
        """Intervals that hold the true coefficients with this probability."""
        calibration = self._calibrated()
        out = {}
        for name, value in self.coefficients_.items():
            if name in calibration.coefficients:
                half = calibration.coefficient_factor(name, level) * self.coefficient_scale(name)
                out[name] = (value - half, value + half)
        return out

    def coefficient_scale(self, name: str) -> float:
        """The expected size of a coefficient's error, before calibration."""
        unit = self.units_.factor(self._found.dictionary.terms.get(name))
        spread = self.search_result_.spread.get(name, 0.0)
        return coefficient_scale(self.coefficients_[name], spread, unit)

    @property
    def explanation(self) -> Explanation:
        """What was found, with everything that gives it a meaning."""
        return self._found

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

    @public
    def forecast(
        self,
        steps: int | None = None,
        times: Sequence[float] | None = None,
        deviation: bool = False,
        trajectory: int = 0,
    ) -> Forecast:
        """Like `predict` for one trajectory, with times and a status.

        With `deviation` also how far the finalists disagree.
        """
        if not hasattr(self, "composition_"):
            raise OpsplitError("Nothing to predict from: call fit(u, dt=...) first.")
        if (steps is None) == (times is None):
            raise OpsplitError("Say how far: either steps=34 or times=[0.5, 1.0, ...].")
        if times is None:
            if not isinstance(steps, int) or not 1 <= steps <= MOST_STEPS:
                most = f"1..{MOST_STEPS}"
                raise OpsplitError(f"steps must be a whole number in {most}, got {shown(steps)}.")
            times = [self.dt_ * (i + 1) for i in range(steps)]
        else:
            times = moments(times)
        pick, units, found = self.composition_, self.units_, self._found
        ahead = [t / units.time for t in times]
        last, others = self._last[trajectory], list[Composition]()
        if deviation:
            others, last = rivals(found, last, trajectory)
        found.load.check_forecast(len(times), 1 + len(others), self.memory_mb)
        # Bands compare the forecasts of rivals.
        with within(get_search(self.search).max_seconds):
            made = forecasts(
                found, [pick, *others], last, ahead, self.scheme, self.refinement_, trajectory
            )
        first, spread = made[0], None
        if deviation:
            observed, members = len(found.window.frames[trajectory]), [f.frames for f in made]
            spread = forecast_deviation(first.frames, stacked(members), missed(found), observed)
            spread = spread[:, self._back].double() * units.amplitude
        longer = self._walls.shape(self.observed_.grid.shape)
        frames = self._walls.fold(units.outside(onto(first.frames, longer)))[:, self._back]
        # Never less than single precision, never more than the data have.
        kind = torch.promote_types(self.observed_.data.dtype, torch.float32)
        return replace(
            first,
            frames=frames.to(kind),
            times=torch.as_tensor(times, dtype=torch.float64),
            deviation=None if spread is None else spread.to(kind),
            explained=self.verdict_.trusted,
            grid=self.observed_.grid,
            channels=self.observed_.channels,
        )

    @public
    def predict(
        self,
        steps: int | None = None,
        times: Sequence[float] | None = None,
        return_interval: float | None = None,
    ) -> Any:
        """Future frames `(time, channel, *space)`, of the same kind as what was fitted.

        Of several trajectories: `(trajectory, time, channel, *space)`. A path or a recording gives
        numpy; `Trajectories` and xarray data come back as such, at times that go on.

        Arguments:
            steps: so many frames, `dt` apart.
            times: or at these times after the last observed frame.
            return_interval: with a probability such as 0.9, return `(frames, lower, upper)`: the
                true value of a point lies between the last two with that probability.
        """
        count = len(getattr(self, "_last", [None]))
        wanted = return_interval is not None
        if return_interval is not None:
            self._calibrated().forecast_factor(return_interval)  # Refused before it is computed.
        found = [self.forecast(steps, times, deviation=wanted, trajectory=i) for i in range(count)]
        ahead = found[0].times
        frames = self._like(stacked([f.frames for f in found]), ahead)
        if return_interval is None:
            return frames
        bands = [self.band(f, return_interval) for f in found]
        return frames, *(self._like(stacked(ends), ahead) for ends in zip(*bands, strict=True))

    def band(self, forecast: Forecast, level: float = 0.9) -> tuple[Tensor, Tensor]:
        """Ends of the band of a forecast that was made with its deviation, on the same points."""
        if forecast.deviation is None:
            raise OpsplitError("A band needs the deviation: call forecast(..., deviation=True).")
        factor, frames = self._calibrated().forecast_factor(level), forecast.frames
        half = factor * forecast.deviation[(..., *[None] * (frames.ndim - 2))]
        return frames - half, frames + half

    @public
    def score(self, u: np.ndarray | Tensor) -> float:
        """Minus the NRMSE of the forecast of the frames `u` that follow the fitted ones."""
        frames = self.forecast(steps=len(u)).frames.cpu()
        frames = self._changes.undone(frames, self.observed_.grid.ndim)
        try:
            truth = torch.as_tensor(u).to(frames)
        except (TypeError, ValueError, RuntimeError):
            raise OpsplitError(f"score needs frames as numbers, got {shown(u)}.") from None
        if truth.numel() != frames.numel():
            raise OpsplitError(
                f"The forecast has frames of shape {tuple(frames.shape[1:])}, "
                f"those to compare with {tuple(truth.shape[1:])}."
            )
        return -float(nrmse(frames[None], truth.reshape(frames.shape)[None]))


def _plain(times: Any) -> Any:
    """Times as numpy, wherever they lie."""
    return times.numpy(force=True) if isinstance(times, Tensor) else times
