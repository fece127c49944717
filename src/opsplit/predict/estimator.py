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

from opsplit.calibration import Calibration, coefficient_scale, forecast_deviation
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, OpsplitWarning
from opsplit.fourier import resample
from opsplit.io.assemble import Flags
from opsplit.io.recording import Recording
from opsplit.metrics import nrmse
from opsplit.model import DEFAULT_MODEL, Model, load_model
from opsplit.predict.compatibility import (
    UNLIKE,
    Code,
    Issue,
    beyond_dictionary,
    compatibility,
    refuse,
    resampled,
    weak_operators,
)
from opsplit.predict.door import observe
from opsplit.predict.identify import equation
from opsplit.predict.kinds import like
from opsplit.predict.rollout import Forecast, rollout, rollouts
from opsplit.predict.shown import Shown
from opsplit.predict.stored import load_splitter, save_splitter
from opsplit.predict.substeps import search_substeps
from opsplit.predict.verdict import Verdict, measure
from opsplit.predict.window import Window, channel_order, observed_frames, prepare
from opsplit.predict.working_grid import working_grid
from opsplit.search import Composition, Objective, SearchResult, Strategy, get_search
from opsplit.search.strategy import Report
from opsplit.splitting import Scheme
from opsplit.trajectories import Trajectories


class OperatorSplitter(Shown):
    """Explain observed frames as a composition of known operators, then forecast.

    Arguments:
        model: a bundled name, a model directory, or a loaded model.
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
        memory_mb: limit of a search's working memory.

    After `fit`: `verdict_` (how far the composition explains the frames; `status_` is its level in
    a word), `composition_`, `coefficients_`, `coefficient_intervals_` (90 %, for a model that was
    calibrated for the search and data like those of the calibration), `equation_`, `fit_error_`,
    `search_table_`, the whole `search_result_`, `issues_` (what is unlike the data the model was
    trained on, as codes and sentences) and `notes_` (the sentences alone).

    Example:
        >>> import opsplit
        >>> u = opsplit.get_physics("advection-diffusion").generate("A+D", 1, seed=1).data[0, :16]
        >>> s = opsplit.OperatorSplitter("advection-diffusion").fit(u, dt=10 / 99, extent=16.0)
        >>> s.predict(steps=34).shape, s.status_
        (torch.Size([34, 1, 256]), 'explained')
    """

    def __init__(
        self,
        model: str | Path | Model = DEFAULT_MODEL,
        search: str | Strategy = "pursuit",
        family: str | None = None,
        scheme: Scheme = "strang",
        refinement: int | Literal["auto"] = "auto",
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

    def save(self, folder: str | Path) -> Path:
        """Write the fit into a folder: arrays, JSON and safetensors, no pickle."""
        return save_splitter(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> OperatorSplitter:
        """Read what `save` wrote; forecasts are those of the saved splitter."""
        return load_splitter(cls, folder)

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
        """
        if self.window is not None and self.window < 2:
            raise OpsplitError(f"window counts frames and must be at least 2, got {self.window}.")
        search = get_search(self.search)
        model = load_model(self.model, self.family)
        recording = observe(u, model.config, Flags(dt=dt, extent=extent, times=_plain(times)))
        if trajectory is not None:
            recording = recording.part([trajectory])
        used = model.dictionary if dictionary is None else dictionary
        observed, window, issues = self._prepared(recording, model, used, search)
        given = 1 if self.refinement == "auto" else self.refinement
        objective = Objective(
            used, window.joined, window.grid, window.steps(), self.scheme, given, self.memory_mb
        )
        # Nothing is stored before the search has succeeded: a failed fit leaves the last one.
        if self.refinement == "auto" and search.name == "pursuit":
            result, objective = search_substeps(objective, lambda o: search.run(o, report))
        else:
            result = search.run(objective, report)
        operators = objective.operators
        if result.dictionary is not None:
            operators = result.dictionary.prepare(window.grid, window.joined)
        issues += beyond_dictionary(used, result.pick)
        verdict = measure(
            operators, result.pick, window, objective.dt, self.scheme, objective.refinement
        )
        self.refinement_ = objective.refinement
        self.search_result_: SearchResult = result
        self.composition_: Composition = result.pick
        self.coefficients_ = dict(result.identified)
        self.fit_error_ = self.composition_.fit_error
        self.search_table_ = result.rows()
        self.observed_, self.understood_ = observed, " ".join(recording.understood)
        self.dt_, self.noise_, self._dictionary = objective.dt, window.noise, dictionary
        self._like, self._window, self._operators = like(u, observed), window, operators
        order = channel_order(observed.channels, model.config.channels)
        self._back = _inverse(order)
        self._judge(verdict, issues, used, None if dictionary is not None else model.calibration)
        named = zip(model.config.channels, (observed.channels[i] for i in order), strict=True)
        self.equation_ = self.equation_.renamed(dict(named))
        self._last = [self._state(i) for i in range(len(window.frames))]
        for note in self.notes_:
            warnings.warn(note, OpsplitWarning, stacklevel=2)
        return self

    def _prepared(
        self, recording: Recording, model: Model, used: OperatorDictionary, search: Strategy
    ) -> tuple[Trajectories, Window, list[Issue]]:
        """The frames as they are, as the operators see them, and what is unusual about them."""
        config = model.config
        refuse(compatibility(config, recording))
        bound = next((p.family for p in used.parts if p.family.grid_bound), model.disco.family)
        grid = working_grid(bound, model.disco.grid, recording.grid)
        model.check(grid, recording.shape[2])
        observed = observed_frames(recording, self.window)
        clean = search.name == "pursuit" if self.denoise is None else self.denoise
        window = prepare(observed, grid, config, self.window, clean, self.device)
        issues = compatibility(config, recording, window.size)
        # Which operators act decides on resampling, not which the model was trained with.
        issues = [issue for issue in issues if issue.code is not Code.RESAMPLED]
        if grid.shape != recording.grid.shape:
            issues.append(resampled(recording.grid, grid))
        issues += weak_operators(model.metrics)
        return observed, window, issues

    def _judge(
        self,
        verdict: Verdict,
        issues: list[Issue],
        used: OperatorDictionary,
        calibration: Calibration | None,
    ) -> None:
        """Keep the verdict, and intervals where they can hold."""
        self.verdict_, self.status_ = verdict, verdict.level.value
        self.issues_ = tuple(issues)
        self.notes_ = tuple(issue.text for issue in issues)
        if not verdict.trusted:
            self.notes_ += (verdict.text,)
        self._calibration = known = calibration
        sure = known is not None and known.strategy == self.search_result_.strategy
        # An interval around numbers that explain nothing would only mislead.
        sure = sure and verdict.trusted and not any(i.code in UNLIKE for i in issues)
        self.coefficient_intervals_ = self.intervals(0.9) if sure else {}
        terms = {name: term.text for name, term in used.terms.items()}
        self.equation_ = equation(self.coefficients_, terms, self.coefficient_intervals_)

    def _state(self, trajectory: int) -> Tensor:
        """The last frame of a trajectory; of noisy ones, what all frames say about it.

        Every frame is carried to the last by the composition found. It brings its own noise, and
        the model's error for as long as it is carried.
        """
        window = self._window
        frames, noise = window.frames[trajectory], window.noise / window.unit
        if not noise:
            return frames[-1]
        between = window.moments[trajectory].diff().tolist()
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
                held = rollout(
                    self._operators, self.composition_, held, [between[i]], self.dt_,
                    self.scheme, self.refinement_,
                ).frames[0]  # fmt: skip
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
            if not isinstance(steps, int) or steps < 1:
                raise OpsplitError(f"steps must be a whole number of at least 1, got {steps!r}.")
            times = [self.dt_ * (i + 1) for i in range(steps)]
        pick = self.composition_
        others = [c for c in self.search_result_.finalists if len(c) == len(pick)]
        others = [c for c in others if c.operators != pick.operators] if deviation else []

        def run(compositions: list[Composition]) -> list[Forecast]:
            last = self._last[trajectory]
            return rollouts(
                self._operators, compositions, last, times, self.dt_, self.scheme, self.refinement_
            )

        # By itself, so that a band does not change the rounding of its forecast.
        found = run([pick]) + (run(others) if others else [])
        first, spread, unit = found[0], None, self._window.unit
        if deviation:
            observed = len(self._window.frames[trajectory])
            missed = pick.free_run_error
            missed = pick.fit_error * observed if missed is None else missed
            members = torch.stack([f.frames for f in found])
            spread = forecast_deviation(first.frames, members, missed, observed) * unit
            spread = spread[:, self._back]
        frames = resample(first.frames * unit, self.observed_.grid.shape)[:, self._back]
        made = replace(first, frames=frames, deviation=spread, explained=self.verdict_.trusted)
        return replace(made, grid=self.observed_.grid, channels=self.observed_.channels)

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
        wanted = return_interval is not None
        factor = 0.0
        if return_interval is not None:
            factor = self._calibrated().forecast_factor(return_interval)
        count = len(getattr(self, "_last", [None]))
        found = [self.forecast(steps, times, deviation=wanted, trajectory=i) for i in range(count)]
        frames, ahead = torch.stack([f.frames for f in found]), found[0].times
        if not wanted:
            return self._like(frames, ahead)
        spread = torch.stack([f.deviation for f in found if f.deviation is not None])
        half = factor * spread[(..., *[None] * (frames.ndim - 3))]
        return tuple(self._like(x, ahead) for x in (frames, frames - half, frames + half))

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


def _plain(times: Any) -> Any:
    """Times as numpy, wherever they lie."""
    return times.numpy(force=True) if isinstance(times, Tensor) else times


def _inverse(order: list[int]) -> list[int]:
    return [order.index(i) for i in range(len(order))]
