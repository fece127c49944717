"""The paper's test columns: which windows are observed and what is to be predicted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.physics import PHYSICS, Physics, get_physics
from opsplit.trajectories import Trajectories

OBSERVED = 16


@dataclass(frozen=True)
class Column:
    """One column of a table of the paper."""

    physics: str
    split: str
    horizon: int
    """Frames to predict."""
    starts: tuple[int, int]
    """Windows start uniformly between these two frames."""
    published: dict[str, float]
    """NRMSE of the paper by method."""
    title: str = ""
    """The head of the column (not given: the split)."""
    operators: int | None = None
    """Operators of the dictionary to search over, evenly chosen (all if not told)."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the paper sets for a search, where it is not the default."""
    excluded: Mapping[str, str] = field(default_factory=dict)
    """Methods that cannot be applied, and why."""
    pictured: tuple[dict[str, float], ...] = ({},)
    """Coefficients of the pictured forecasts; those that are not given are drawn."""
    pictured_frames: int | None = None
    """Frames of a pictured forecast (as many as the table predicts, if not told)."""
    mechanisms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Single mechanisms to show beside a forecast, and the coefficients that each has."""

    @property
    def table(self) -> str:
        """The table of the paper to which the column belongs."""
        meaning = PHYSICS[self.physics].splits[self.split]
        return next((name for name, word in TABLES.items() if word in meaning), "Others")


TABLES = {"Unseen ranges": "unseen range", "Unseen compositions": "unseen composition"}
"""The paper's two tables, and the words by which a split says that it belongs to one."""


BASELINES = ("fno", "mpp", "geps", "zebra")
PUBLISHED: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "advection-diffusion": {
        "A+D": (0.318, 0.270, 0.039, 0.893),
        "c": (0.492, 0.588, 0.848, 1.070),
        "D": (0.166, 0.409, 0.267, 1.579),
    },
    "combined": {
        "NA+D": (0.031, 0.050, 0.039, 0.022),
        "NA+Disp": (0.165, 0.105, 0.249, 0.241),
        "D+Disp": (0.038, 0.091, 0.229, 0.069),
        "all3": (0.129, 0.128, 0.265, 0.193),
        "alpha": (0.166, 0.134, 0.020, 0.128),
        "gamma": (0.317, 0.369, 0.782, 0.448),
    },
    "gray-scott": {"GS": (0.224, 0.191, 0.128, 0.127)},
    "navier-stokes": {"NS": (0.241, 0.273, 0.786, 0.198)},
}
"""The paper's errors of `BASELINES`; GEPS is the best of 100, 500 and 2000 steps on test data."""


def _columns(
    physics: str,
    horizon: int,
    starts: tuple[int, int],
    published: dict[str, tuple[float, float, float]],
    titles: dict[str, str],
    **more: Any,
) -> dict[str, Column]:
    """Columns of one equation; published are direct, uniform and beam."""
    # The published DISCO is direct prediction.
    methods = ("direct", "uniform", "beam", "disco", *BASELINES)
    others = PUBLISHED[physics]
    return {
        name: Column(
            physics,
            name,
            horizon,
            starts,
            dict(zip(methods, (*values, values[0], *others[name]), strict=True)),
            titles.get(name, ""),
            **more,
        )
        for name, values in published.items()
    }


COLUMNS: dict[str, dict[str, Column]] = {
    "advection-diffusion": _columns(
        "advection-diffusion",
        34,
        (0, 50),
        {"A+D": (0.170, 0.043, 0.015), "c": (0.768, 0.113, 0.052), "D": (0.159, 0.055, 0.002)},
        {"A+D": "advection + diffusion", "c": "c in [1, 3]", "D": "D in [1, 3]"},
    ),
    "combined": _columns(
        "combined",
        50,
        (25, 25),
        {
            "NA+D": (0.085, 0.068, 0.056),
            "NA+Disp": (0.100, 0.103, 0.049),
            "D+Disp": (0.120, 0.043, 0.007),
            "all3": (0.164, 0.075, 0.036),
            "alpha": (0.088, 0.027, 0.016),
            "gamma": (1.007, 0.070, 0.022),
        },
        {"all3": "all 3", "alpha": "alpha in [1, 2]", "gamma": "gamma in [1, 2]"},
        operators=96,
        pictured_frames=100,
    ),
    "gray-scott": _columns(
        "gray-scott",
        32,
        (0, 0),
        {"GS": (0.245, 0.089, 0.089)},
        {"GS": "Gray-Scott"},
        settings={"uniform": {"trials": 200}, "beam": {"width": 8}},
        pictured=({"F": 0.025, "k": 0.055}, {"F": 0.05, "k": 0.062}, {"F": 0.09, "k": 0.057}),
        mechanisms={"reaction alone": ("F", "reaction"), "diffusion alone": ("k", "diffusion")},
    ),
    "navier-stokes": _columns(
        "navier-stokes",
        16,
        (0, 0),
        {"NS": (0.572, 0.209, 0.066)},
        {"NS": "Navier-Stokes"},
        excluded={"sindy": "its library has no velocity, which is an integral of the vorticity"},
        pictured=({"nu": 1e-2}, {"nu": 1e-3}),
    ),
}

OTHERS: dict[str, dict[str, Column]] = {
    "line": {"mix": Column("line", "mix", 34, (0, 0), {}, "mechanisms on a line")},
}
"""Columns that no table of the paper has, for calibration and demonstration."""

IN_SPACE = Column("gray-scott-3d", "GS", 16, (0, 0), {}, "Gray-Scott in space")
"""Shown, but no column of a table: the paper has no such benchmark."""
DEMONSTRATED = {"combined": "all3"}
"""The column that a demonstration shows, where it is not the first."""


@dataclass(frozen=True)
class CoefficientMap:
    """Errors over two coefficients of an equation, as the paper draws them."""

    physics: str
    column: str
    axes: dict[str, str]
    """The two coefficients and their labels."""
    range: tuple[float, float]
    """Of both."""
    title: str
    words: str
    """What the picture shows."""


MAP = CoefficientMap(
    "advection-diffusion",
    "A+D",
    {"c": "advection speed c", "D": "diffusivity D"},
    (0.01, 1.0),
    "Errors over speed and diffusivity",
    "Advection-diffusion with the spectral model. Its dictionary holds speeds and diffusivities up "
    "to 1, one at a time: direct prediction is good along the axes, where only one of the two "
    "matters.",
)


def columns(physics: str) -> dict[str, Column]:
    known = COLUMNS | OTHERS
    if physics not in known:
        raise OpsplitError(f"No benchmark for {physics!r}; choose from {sorted(known)}.")
    return known[physics]


def demo_column(physics: str) -> Column:
    """The column of an equation that a demonstration shows."""
    if physics == IN_SPACE.physics:
        return IN_SPACE
    held = columns(physics)
    return held[DEMONSTRATED.get(physics, next(iter(held)))]


def test_window(
    column: Column, number: int, seed: int, cache: Path | None = None
) -> tuple[Trajectories, Trajectories]:
    """One fresh trajectory of a column: the observed frames and the frames to predict.

    A number always means the same trajectory, so that a slow method measured on few is measured
    on a part of what a fast one saw. Simulations that take long are kept in `cache`.
    """
    physics = get_physics(column.physics)
    file = None
    if cache is not None and physics.per_environment:
        file = cache / f"{column.physics}-{column.split}-{seed}-{number}.npz"
    if file is not None and file.exists():
        return _cut(column, number, seed, Trajectories.load(file))
    whole = _simulated(column, physics, number, seed)
    if file is not None:
        whole.save(file)
    return _cut(column, number, seed, whole)


def example(
    column: Column, seed: int, given: Mapping[str, float] | None = None, coarse: bool = True
) -> tuple[Trajectories, Trajectories]:
    """An observed window of a column and what follows; `given` coefficients replace drawn ones.

    A coarse example takes less time to simulate than a test window, and is less accurate.
    """
    physics = get_physics(column.physics)
    whole = _simulated(column, physics.coarse() if coarse else physics, 0, seed, given)
    return _cut(column, 0, seed, whole)


def mechanisms_alone(
    column: Column, observed: Trajectories, future: Trajectories
) -> dict[str, Tensor]:
    """What every single mechanism makes of the first observed frame, at the future times."""
    physics = get_physics(column.physics)
    ahead = torch.arange(future.data.shape[1], dtype=torch.float64)
    times = observed.dt * (observed.data.shape[1] + ahead)
    start, out = observed.data[:, 0].double(), {}
    for name, kept in column.mechanisms.items():
        mu = {k: v if k in kept else torch.zeros_like(v) for k, v in observed.coefficients.items()}
        out[name] = physics.solve(start, mu, times)[0].float()
    return out


def map_point(
    given: Mapping[str, float], n: int, seed: int
) -> list[tuple[Trajectories, Trajectories]]:
    """Windows of a point of the map and what follows; every point has the same initial fields."""
    physics, column = get_physics(MAP.physics), columns(MAP.physics)[MAP.column]
    initial = physics.initial_fields(n, torch.Generator().manual_seed(seed), MAP.column)
    ones = torch.ones(n, dtype=torch.float64)
    coefficients = {name: value * ones for name, value in given.items()}
    times = torch.arange(OBSERVED + column.horizon, dtype=torch.float64) * physics.dt
    data = physics.solve(initial, coefficients, times).float()
    whole = Trajectories(data, times, physics.grid, physics.channels, coefficients)
    each = [whole[i : i + 1] for i in range(n)]
    return [(w.windows(OBSERVED, 0), w.windows(column.horizon, OBSERVED)) for w in each]


def _start(column: Column, number: int, seed: int) -> int:
    begin, last = column.starts
    draw = torch.Generator().manual_seed(seed * 100_003 + number + 50_021)
    return begin + int(torch.randint(last - begin + 1, (1,), generator=draw))


def _simulated(
    column: Column,
    physics: Physics,
    number: int,
    seed: int,
    given: Mapping[str, float] | None = None,
) -> Trajectories:
    # An equation whose frames cost nothing makes all of them.
    needed = _start(column, number, seed) + OBSERVED + column.horizon
    frames = needed if physics.per_environment else None
    return physics.generate(column.split, 1, seed * 100_003 + number, frames, given)


def _cut(
    column: Column, number: int, seed: int, whole: Trajectories
) -> tuple[Trajectories, Trajectories]:
    start = _start(column, number, seed)
    return whole.windows(OBSERVED, start), whole.windows(column.horizon, start + OBSERVED)


def test_windows(
    column: Column, n: int, seed: int, cache: Path | None = None
) -> tuple[Trajectories, Trajectories]:
    """The first `n` trajectories of a column."""
    pairs = [test_window(column, number, seed, cache) for number in range(n)]
    observed, future = zip(*pairs, strict=True)
    return join(observed), join(future)


def join(parts: Sequence[Trajectories]) -> Trajectories:
    """Trajectories of one grid and the same times in one."""
    first = parts[0]
    coefficients = {k: torch.cat([p.coefficients[k] for p in parts]) for k in first.coefficients}
    data = torch.cat([p.data for p in parts])
    return Trajectories(data, first.times, first.grid, first.channels, coefficients)
