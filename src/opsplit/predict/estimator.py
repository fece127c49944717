"""`OperatorSplitter`: fit to a few frames, predict the rest, with scikit-learn's manners."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.model import Model, load_model
from opsplit.physics import PHYSICS
from opsplit.predict.identify import equation
from opsplit.predict.rollout import Forecast, rollout
from opsplit.report.metrics import nrmse
from opsplit.search import Composition, Objective, Search, SearchResult, get_search
from opsplit.splitting import Scheme
from opsplit.trajectories import Trajectories


class OperatorSplitter:
    """Explain observed frames as a composition of known operators, then forecast.

    Arguments:
        model: a bundled name, a model directory, or a loaded model.
        search: `"beam"`, `"uniform"`, or a configured strategy such as `Beam(width=8)`.
        family: which of the bundled models, `"spectral"` or `"unet"`.
        scheme: `"lie"`, `"strang"` or `"fourth"`.
        refinement: splitting substeps per frame.
        window: only the last so many frames are fitted (None: all that are given).
        device: where to compute, such as `"cpu"` or `"cuda"`.
        memory_mb: limit of a search's working memory.

    After `fit`: `composition_`, `coefficients_`, `equation_`, `fit_error_`, `search_table_` and
    the whole `search_result_`.
    """

    def __init__(
        self,
        model: str | Path | Model = "advection-diffusion",
        search: str | Search = "beam",
        family: str | None = None,
        scheme: Scheme = "strang",
        refinement: int = 1,
        window: int | None = 16,
        device: str = "cpu",
        memory_mb: float = 256.0,
    ) -> None:
        self.model, self.search, self.family = model, search, family
        self.scheme, self.refinement, self.window = scheme, refinement, window
        self.device, self.memory_mb = device, memory_mb

    PARAMETERS = (
        "model",
        "search",
        "family",
        "scheme",
        "refinement",
        "window",
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
        u: np.ndarray | Tensor,
        dt: float,
        extent: float | Sequence[float] | None = None,
        dictionary: OperatorDictionary | None = None,
    ) -> OperatorSplitter:
        """Find the composition that explains the frames `u`.

        Arguments:
            u: `(time, *space)` or `(time, channel, *space)`, numpy or torch.
            dt: time between frames.
            extent: physical length of the domain per axis (default: the model's).
            dictionary: other operators than the model's own.
        """
        if self.window is not None and self.window < 2:
            raise OpsplitError(f"window counts frames and must be at least 2, got {self.window}.")
        model = load_model(self.model, self.family)
        search = get_search(self.search)
        config = model.config
        observed = self._read(u, dt, extent, model)
        frames = observed.data[0, -self.window :] if self.window else observed.data[0]
        work = frames.to(device=self.device, dtype=torch.float32)
        unit = (float(work.std()) if config.rescale else 1.0) or 1.0
        objective = Objective(
            model.dictionary if dictionary is None else dictionary,
            work / unit,
            observed.grid,
            dt,
            self.scheme,
            self.refinement,
            self.memory_mb,
        )
        # Nothing is stored before the search has succeeded: a failed fit leaves the last one.
        self.search_result_: SearchResult = search.run(objective)
        self.composition_: Composition = self.search_result_.pick
        self.coefficients_ = dict(self.composition_.coefficients)
        self.fit_error_ = self.composition_.fit_error
        self.search_table_ = self.search_result_.rows()
        physics = PHYSICS.get(config.physics)
        self.equation_ = equation(self.coefficients_, physics.terms if physics else {})
        self.understood_ = observed.understood
        self.observed_ = observed
        self._operators = objective.operators
        self._as_given, self._unit, self._dt = u, unit, dt
        self._last = work[-1] / unit
        return self

    def _read(
        self,
        u: np.ndarray | Tensor,
        dt: float,
        extent: float | Sequence[float] | None,
        model: Model,
    ) -> Trajectories:
        config = model.config
        trained = model.disco.grid
        observed = Trajectories.from_numpy(
            u,
            dt=dt,
            extent=trained.extent if extent is None else extent,
            ndim=config.ndim,
            boundary=trained.boundary,
        )
        if len(observed) != 1:
            raise OpsplitError(
                f"fit takes one trajectory, the array holds {len(observed)} "
                f"(read as {observed.understood}). Fit them one by one."
            )
        model.check(observed.grid, observed.data.shape[2])
        return observed

    def forecast(self, steps: int | None = None, times: Sequence[float] | None = None) -> Forecast:
        """Like `predict`, with times and a status."""
        if not hasattr(self, "composition_"):
            raise OpsplitError("Nothing to predict from: call fit(u, dt=...) first.")
        if (steps is None) == (times is None):
            raise OpsplitError("Say how far: either steps=34 or times=[0.5, 1.0, ...].")
        if times is None:
            if not isinstance(steps, int) or steps < 1:
                raise OpsplitError(f"steps must be a whole number of at least 1, got {steps!r}.")
            times = [self._dt * (i + 1) for i in range(steps)]
        found = rollout(
            self._operators,
            self.composition_,
            self._last,
            times,
            self._dt,
            self.scheme,
            self.refinement,
        )
        return Forecast(found.frames * self._unit, found.times, found.status)

    def predict(self, steps: int | None = None, times: Sequence[float] | None = None) -> Any:
        """Future frames `(time, channel, *space)`, of the same kind as what was fitted.

        Arguments:
            steps: so many frames, `dt` apart.
            times: or at these times after the last observed frame.
        """
        frames = self.forecast(steps, times).frames
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
