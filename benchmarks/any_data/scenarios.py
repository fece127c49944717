"""Data of a solver that is not ours: exponax, scenarios named as in APEBench.

exponax 0.2.0 takes the real part of coefficients that are complex for dispersive equations, so that
its steps are of first order there; such scenarios take many steps per frame.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

OBSERVED, PREDICTED = 16, 34
WORDS = {"alpha": ("a", 2.0), "beta": ("D", 1.0), "gamma": ("delta", 1.0)}
"""`-alpha (u^2)_x + beta u_xx - gamma u_xxx` in the words of the road dictionary."""


@dataclass(frozen=True)
class Scenario:
    """One equation with its box, its frames and its true coefficients.

    The coefficients are those of the road dictionary: `r u`, `-c u_x`, `D lap u`, `-delta u_xxx`,
    `-kappa lap^2 u` (with an axis: `-kappa_x u_xxxx`), `-a u u_x`, `s u^2`, `q u^3`,
    `h |grad u|^2`. exponax keeps the mean of fields with a squared slope, and its biharmonic
    operator has no mixed derivatives.
    """

    name: str
    stepper: str
    """Of exponax, such as `Burgers` or `reaction.AllenCahn`."""
    settings: Mapping[str, Any]
    true: Mapping[str, float]
    ndim: int = 1
    extent: float = 10.0
    points: int = 128
    dt: float = 0.1
    substeps: int = 20
    """Steps of the solver per frame."""
    settle: int = 0
    """Frames that pass before the first observed one."""
    clamped: bool = False
    """Whether initial fields lie between 0 and 1."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.ndim}-D"


def scenarios() -> list[Scenario]:
    """All equations of the study."""
    order = {"order": 4}
    allen = {"diffusivity": 0.05, **order}
    plane: dict[str, Any] = {"ndim": 2, "points": 64}
    space: dict[str, Any] = {"ndim": 3, "points": 32}
    return [
        Scenario("advection", "Advection", {"velocity": 0.7}, {"c": 0.7}),
        Scenario("diffusion", "Diffusion", {"diffusivity": 0.1}, {"D": 0.1}),
        Scenario("advection-diffusion", "AdvectionDiffusion",
                 {"velocity": -0.5, "diffusivity": 0.05}, {"c": -0.5, "D": 0.05}),
        Scenario("dispersion", "Dispersion", {"dispersivity": 0.1}, {"delta": -0.1}),
        Scenario("hyper-diffusion", "HyperDiffusion", {"hyper_diffusivity": 0.02},
                 {"kappa": 0.02}),
        Scenario("Burgers", "Burgers", {"diffusivity": 0.1, **order}, {"a": 1.0, "D": 0.1}),
        Scenario("KdV", "KortewegDeVries", order, {"a": -6.0, "delta": 1.0, "kappa": 0.01},
                 extent=20.0, dt=0.02, substeps=1280),
        Scenario("Kuramoto-Sivashinsky", "KuramotoSivashinskyConservative", order,
                 {"a": 1.0, "D": -1.0, "kappa": 1.0}, extent=60.0, points=192, dt=0.2,
                 settle=250),
        Scenario("Fisher-KPP", "reaction.FisherKPP", {"diffusivity": 0.1, **order},
                 {"r": 1.0, "s": -1.0, "D": 0.1}, clamped=True),
        Scenario("Allen-Cahn", "reaction.AllenCahn", allen, {"r": 1.0, "q": -1.0, "D": 0.05}),
        Scenario("advection-diffusion", "AdvectionDiffusion",
                 {"velocity": (0.5, -0.3), "diffusivity": 0.05},
                 {"c_x": 0.5, "c_y": -0.3, "D": 0.05}, **plane),
        Scenario("Burgers", "Burgers", {"diffusivity": 0.1, "single_channel": True, **order},
                 {"a_x": 1.0, "a_y": 1.0, "D": 0.1}, dt=0.05, **plane),
        Scenario("Allen-Cahn", "reaction.AllenCahn", allen, {"r": 1.0, "q": -1.0, "D": 0.05},
                 **plane),
        Scenario("Swift-Hohenberg", "reaction.SwiftHohenberg", order,
                 {"r": -0.3, "D": -2.0, "kappa": 1.0, "s": 1.0, "q": -1.0},
                 extent=30.0, settle=10, **plane),
        Scenario("Kuramoto-Sivashinsky", "KuramotoSivashinsky", order,
                 {"h": -0.5, "D": -1.0, "kappa_x": 1.0, "kappa_y": 1.0}, extent=30.0,
                 settle=250, **plane),
        Scenario("advection-diffusion", "AdvectionDiffusion",
                 {"velocity": (0.5, -0.3, 0.2), "diffusivity": 0.05},
                 {"c_x": 0.5, "c_y": -0.3, "c_z": 0.2, "D": 0.05}, **space),
        Scenario("Allen-Cahn", "reaction.AllenCahn", {**allen, "diffusivity": 0.1},
                 {"r": 1.0, "q": -1.0, "D": 0.1}, **space),
    ]  # fmt: skip


def road_words(found: Mapping[str, float]) -> dict[str, float]:
    """Coefficients of another bundled model as those of the road dictionary."""
    made = {}
    for name, value in found.items():
        word, _, axis = name.partition("_")
        own, factor = WORDS.get(word, (word, 1.0))
        made[f"{own}_{axis}" if axis else own] = factor * value
    return made


def largest_error(true: Mapping[str, float], found: Mapping[str, float]) -> float:
    """Largest relative error of the true coefficients; one that was not found has the error 1."""
    return max(abs(found.get(k, 0.0) - v) / abs(v) for k, v in true.items())


def told(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of results whose coefficients are those of the road dictionary."""
    found = road_words(row["found"])
    return {**row, "found": found, "coefficient_error": largest_error(row["true"], found)}


def simulate(scenario: Scenario, seed: int, frames: int = OBSERVED + PREDICTED) -> np.ndarray:
    """Frames `(time, channel, *space)` in double precision."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import exponax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    made: Any = exponax.stepper
    for word in scenario.stepper.split("."):
        made = getattr(made, word)
    given = {k: jnp.array(v) if isinstance(v, tuple) else v for k, v in scenario.settings.items()}
    step = made(
        scenario.ndim, scenario.extent, scenario.points, scenario.dt / scenario.substeps, **given
    )
    fields: Any = exponax.ic.RandomTruncatedFourierSeries(scenario.ndim, cutoff=5, max_one=True)
    if scenario.clamped:
        fields = exponax.ic.ClampingICGenerator(fields, (0.0, 1.0))
    first = fields(scenario.points, key=jax.random.PRNGKey(seed))
    frame: Callable[[Any], Any] = exponax.repeat(step, scenario.substeps)
    if scenario.settle:
        first = exponax.repeat(frame, scenario.settle)(first)
    run = exponax.rollout(frame, frames - 1, include_init=True)
    return np.asarray(run(first))
