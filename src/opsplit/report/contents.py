"""The numbers of a page about one forecast, checked and on the processor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.metrics import nrmse, nrmse_per_frame
from opsplit.report.animation import Colours

if TYPE_CHECKING:
    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.predict.rollout import Forecast

SHOWN = 4
"""Channels that get pictures; the table of numbers has them all."""


class Contents:
    """What was observed and forecast, with its companions: band, truth, errors, colours."""

    def __init__(
        self,
        splitter: OperatorSplitter,
        forecast: Forecast,
        lower: Any,
        upper: Any,
        truth: Any,
        channels: Sequence[str] | None,
        level: float,
    ) -> None:
        self.splitter, self.status, self.level = splitter, forecast.status, level
        self.outcome, self.verdict = forecast.outcome, splitter.verdict_
        observed = splitter.observed_
        self.grid = observed.grid
        self.channels = tuple(observed.channels if channels is None else channels)
        self.shown = min(SHOWN, len(self.channels))
        self.before = observed.data[0].float().cpu()
        self.frames = forecast.frames.float().cpu()
        self.times = forecast.times.double().cpu().numpy()
        self.past = (observed.times - observed.times[-1]).double().cpu().numpy()
        expected = (len(self.times), len(self.channels), *self.grid.shape)
        if tuple(self.frames.shape) != expected:
            raise OpsplitError(
                f"A report on {len(self.channels)} channels on the grid {self.grid.shape} at "
                f"{len(self.times)} times needs a forecast of shape {expected}, "
                f"got {tuple(self.frames.shape)}."
            )
        if (lower is None) != (upper is None):
            raise OpsplitError("A band has two ends: give both lower and upper, or neither.")
        self.lower, self.upper = self._like("lower", lower), self._like("upper", upper)
        self.truth = self._like("truth", truth)
        axes = tuple(range(2, self.frames.ndim))
        self.half: Tensor | None = None
        if self.lower is not None and self.upper is not None:
            self.half = ((self.upper - self.lower) / 2).mean(axes)
        self.errors: dict[str, np.ndarray] = {}
        self.total: float | None = None
        self.still: float | None = None
        if self.truth is not None:
            still = self.before[-1:].expand_as(self.frames)
            for name, frames in {"forecast": self.frames, "persistence": still}.items():
                self.errors[name] = nrmse_per_frame(frames[None], self.truth[None])[0].numpy()
            self.verdict = self.verdict.on_future(self.frames, self.truth, self.before[-1])
            self.total, self.still = (self._error(frames) for frames in (self.frames, still))
        past, future = self.before.numpy(), self.frames.numpy()
        self.colours = [Colours.of(past[:, i], future[:, i]) for i in range(self.shown)]

    def _error(self, frames: Tensor) -> float | None:
        """NRMSE over the frames whose truth is known."""
        assert self.truth is not None
        there = self.truth.flatten(1).isfinite().all(1)
        if not bool(there.any()):
            return None
        return float(nrmse(frames[there][None], self.truth[there][None]))

    def _like(self, word: str, given: Any) -> Tensor | None:
        """An optional companion of the forecast; frames missing at its end become NaN."""
        if given is None:
            return None
        values = torch.as_tensor(given).float().cpu()
        wanted = tuple(self.frames.shape)
        if len(self.channels) == 1 and values.ndim == len(wanted) - 1:
            values = values[:, None]
        short = word == "truth" and len(values) < wanted[0]
        if values.shape[1:] != wanted[1:] or (len(values) != wanted[0] and not short):
            raise OpsplitError(
                f"{word} must be shaped like the forecast, {wanted}, got {tuple(values.shape)}."
            )
        rest = torch.full((wanted[0] - len(values), *wanted[1:]), math.nan)
        return torch.cat([values, rest]) if short else values
