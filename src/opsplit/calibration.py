"""How sure to be: spreads turned into intervals by split conformal prediction.

A search leaves a spread: of coefficients over explanations that fit alike, of forecasts over the
finalists. On validation trajectories the true error is divided by that spread; a quantile of
these ratios, kept with the model, is the factor that turns a later spread into an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsplit._files import inside, read_json, write_json
from opsplit.conformal import (
    LEVEL,
    LEVELS,
    Traits,
    Tree,
    factors_at,
    factors_of,
    interpolate,
    tree_of,
)
from opsplit.errors import OpsplitError
from opsplit.settings import Printable

FILE = "calibration.json"
FORECAST = "forecast"
NEAR = 0.05
"""An interval of 90 % is shown if its coverage was no further than this below in every group of
tests, and no further above in all of them,"""
CHANCE = 1.64
"""or where fewer than a hundred were tested: no further than chance makes it in one of twenty, in
standard errors."""
FEWEST = 40
"""Fewer tests than this say nothing about a coverage."""
SPREAD = 4
"""How spreads are computed; factors for other spreads mean nothing."""
SMALLEST = 1e-7
"""No spread of a coefficient is believed below this, or below this share of its size: single
precision knows no more."""


@dataclass(frozen=True)
class Calibration:
    """Factors from spread to half width of an interval, at every level of `LEVELS`."""

    strategy: str
    """The search they belong to; another search has other spreads."""
    n: int
    """Validation trajectories."""
    forecast: tuple[float, ...]
    coefficients: Mapping[str, tuple[float, ...]]
    origin: Mapping[str, Any]
    """Command, seed, commit and hardware."""
    coverage: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Share of fresh test points and coefficients inside 90 % intervals: by column, by kind of
    field, with and without noise, and in all."""
    tested: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How many trajectories each of these shares is of."""
    groups: Mapping[str, Tree] = field(default_factory=dict)
    """Factors by traits of the window, of the `"forecast"` and of coefficients; the others are
    those of all windows together. Empty: there is no difference."""

    def at(self, traits: Traits) -> Calibration:
        """The factors for a window with these traits."""
        if not self.groups:
            return self
        mine = {name: factors_at(tree, traits) for name, tree in self.groups.items()}
        forecast = mine.pop(FORECAST, self.forecast)
        return replace(self, forecast=forecast, coefficients={**self.coefficients, **mine})

    def forecast_factor(self, level: float) -> float:
        """Half width of a forecast's band over its deviation."""
        return interpolate(self.forecast, level)

    def coefficient_factor(self, name: str, level: float) -> float:
        """Half width of a coefficient's interval over its spread."""
        if name not in self.coefficients:
            raise OpsplitError(f"The model was not calibrated for the coefficient {name!r}.")
        return interpolate(self.coefficients[name], level)

    def shown(self, name: str) -> bool:
        """Whether fresh tests say that the intervals of a coefficient, or of the `"forecast"`, keep
        their level.

        A calibration whose coverage was not measured is believed.
        """
        if self.tested and self.tested.get("all", {}).get(name, 0) < FEWEST:
            return False
        for group, row in self.coverage.items():
            if name in row:
                away = row[name] - LEVEL
                room = self._room(group, name)
                if away < -room or (group == "all" and away > room):
                    return False
        return True

    def _room(self, group: str, name: str) -> float:
        """How far the coverage of a group may be away from the level."""
        count = self.tested.get(group, {}).get(name, 0)
        chance = CHANCE * math.sqrt(LEVEL * (1 - LEVEL) / count) if count else 0.0
        return max(NEAR, chance) + 1e-9

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, {"levels": list(LEVELS), "spread": SPREAD, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Calibration | None:
        """The calibration of a model directory, if it has one that fits the spreads of today."""
        file = inside(folder, FILE)
        if not file.exists():
            return None
        raw = read_json(file, finite=True)
        try:
            if tuple(raw["levels"]) != LEVELS:
                raise KeyError("levels")
            if raw.get("spread") != SPREAD:
                return None
            Printable().check((raw["strategy"], *raw["coefficients"]), "names")
            return cls(
                str(raw["strategy"]),
                int(raw["n"]),
                factors_of(raw["forecast"]),
                {str(k): factors_of(v) for k, v in raw["coefficients"].items()},
                dict(raw["origin"]),
                {str(c): dict(row) for c, row in raw.get("coverage", {}).items()},
                {str(c): dict(row) for c, row in raw.get("tested", {}).items()},
                {str(k): tree_of(v) for k, v in raw.get("groups", {}).items()},
            )
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as reason:
            raise OpsplitError(
                f"{folder / FILE} does not hold a calibration: {reason!r}. "
                "Write it again with `opsplit calibrate`."
            ) from None


def coefficient_scale(value: float, spread: float, unit: float = 1.0) -> float:
    """The spread of a coefficient, never believed below a small share of its size or its unit."""
    return math.hypot(spread, SMALLEST * max(abs(value), unit))


def forecast_deviation(
    pick: Tensor, members: Tensor, free_run_error: float, observed: int
) -> Tensor:
    """Expected size of a forecast's error `(time, channel)`.

    What the finalists `(member, time, channel, *space)` disagree by, and what the pick already
    missed on the observed frames, growing with time.
    """
    space = tuple(range(2, pick.ndim))
    finite = torch.where(members.isfinite(), members - pick, 0.0)
    apart = finite.square().mean((0, *(i + 1 for i in space)))
    size = pick.square().mean(space)
    ahead = 1 + torch.arange(1, len(pick) + 1, device=pick.device, dtype=pick.dtype) / observed
    missed = free_run_error * ahead[:, None]
    return (apart + size * missed.square()).sqrt().clamp_min(1e-12)
