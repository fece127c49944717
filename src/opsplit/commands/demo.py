"""`opsplit demo`: the method on one unseen system, from start to picture."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from opsplit.commands.common import Common, model_files, once
from opsplit.errors import no_warnings

if TYPE_CHECKING:
    from opsplit.benchmark.tasks import Column
    from opsplit.model import Model
    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.report.figures import Rollout
    from opsplit.trajectories import Trajectories

COLUMN = {"advection-diffusion": "A+D", "combined": "all3"}
"""The column that is shown, where an equation has several."""


@dataclass(frozen=True)
class Demo(Common):
    """Draw an unseen system, forecast it directly and by search, compare, draw a picture.

    Example: opsplit demo --physics gray-scott --seed 3 --out demo
    """

    physics: str = "advection-diffusion"
    """The equation: advection-diffusion, combined, gray-scott or navier-stokes."""
    family: Literal["spectral", "unet"] = "spectral"
    """Operators of the bundled model (the unet takes a minute or more)."""
    model: Path | None = None
    """Use this model directory instead of the bundled one."""
    out: Path | None = Path("demo")
    """Folder for demo.png."""

    def run(self) -> None:
        from opsplit.model import locate
        from opsplit.physics import get_physics

        get_physics(self.physics)
        folder = locate(self.model) if self.model else locate(self.physics, self.family)
        once(self, self.work, self.words, model_files(folder))

    def work(self) -> dict[str, Any]:
        began = time.perf_counter()
        from opsplit.benchmark.tasks import columns
        from opsplit.metrics import nrmse
        from opsplit.model import load_model
        from opsplit.report.figures import demo_figure, frames_figure

        assert self.out is not None
        held = columns(self.physics)
        column = held[COLUMN.get(self.physics, next(iter(held)))]
        model = load_model(self.model) if self.model else load_model(self.physics, self.family)
        observed, future = example(column, self.seed)
        loaded = time.perf_counter()
        line = observed.grid.ndim == 1
        rollout, splitter, seconds = compare(
            column, model, observed, future, self.device, beam=line
        )
        if line:
            demo_figure(rollout, self.out / "demo.png")
        else:
            frames_figure([rollout], self.out / "demo.png")
        splitter.search_result_.save(self.out)
        truth = future.data
        return {
            "nrmse": {n: float(nrmse(p[None], truth)) for n, p in rollout.predictions.items()},
            "coefficients": splitter.coefficients_,
            "true": true_values(observed),
            "frames": {"observed": rollout.frames, "predicted": column.horizon},
            "seconds": {
                "load": loaded - began,
                **seconds,
                "total": time.perf_counter() - began,
            },
            "equation": splitter.equation_,
            "table": str(splitter.search_result_),
            "picture": str(self.out / "demo.png"),
        }

    def words(self, r: dict[str, Any]) -> str:
        values = "\n".join(
            f"  {k:>9}  true {v:.4g}  identified {r['coefficients'][k]:.4g}"
            for k, v in r["true"].items()
            if k in r["coefficients"]
        )
        errors = "\n".join(f"  {name:>12}  {e:.4f}" for name, e in r["nrmse"].items())
        frames = r["frames"]
        return (
            f"A system of {self.physics} that no operator was trained on: "
            f"{frames['observed']} frames observed.\n\n"
            f"{r['table']}\n\nCoefficients\n{values}\n  {r['equation']}\n\n"
            f"NRMSE of the next {frames['predicted']} frames\n{errors}\n\n"
            f"Picture: {r['picture']}  ({r['seconds']['total']:.1f} s in all)"
        )


def example(
    column: Column, seed: int, given: Mapping[str, float] | None = None, fine: int | None = None
) -> tuple[Trajectories, Trajectories]:
    """An observed window of a column and what follows; `given` coefficients replace drawn ones.

    Flows are simulated on the points that are stored, not on the finer ones of the benchmark:
    that is faster, and less accurate. `fine` says on how many others.
    """
    import torch

    from opsplit.benchmark.tasks import OBSERVED, test_window
    from opsplit.physics import NavierStokes, get_physics
    from opsplit.trajectories import Trajectories

    physics = get_physics(column.physics)
    if not isinstance(physics, NavierStokes):
        return test_window(column, 0, seed)
    physics = replace(physics, fine=fine or physics.grid.shape[0])
    generator = torch.Generator().manual_seed(seed * 100_003)
    coefficients = physics.sample_coefficients(column.split, 1, generator)
    for name, value in (given or {}).items():
        coefficients[name] = torch.tensor([value], dtype=torch.float64)
    initial = physics.initial_fields(1, generator, column.split)
    times = torch.arange(OBSERVED + column.horizon, dtype=torch.float64) * physics.dt
    data = physics.solve(initial, coefficients, times).float()
    whole = Trajectories(data, times, physics.grid, physics.channels, coefficients)
    return whole.windows(OBSERVED, 0), whole.windows(column.horizon, OBSERVED)


def compare(
    column: Column,
    model: Model,
    observed: Trajectories,
    future: Trajectories,
    device: str = "cpu",
    beam: bool = False,
) -> tuple[Rollout, OperatorSplitter, dict[str, float]]:
    """Forecasts of all methods, the search that made the last one, and the seconds they took."""
    from opsplit.benchmark.run import evenly
    from opsplit.metrics import nrmse
    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.report.figures import Rollout

    window, truth = observed.data[0], future.data[0]
    began = time.perf_counter()
    few = evenly(model.dictionary, column.operators)
    # The model's own dictionary is not handed over: only with it do its intervals hold.
    dictionary = None if few is model.dictionary else few

    def fit(search: str, read: bool = False) -> OperatorSplitter:
        splitter = OperatorSplitter(model, search, device=device)
        chosen = model.read(window) if read else dictionary
        with no_warnings():
            return splitter.fit(window, observed.dt, observed.grid.extent, chosen)

    splitters = {"direct": fit("beam", read=True)}
    if beam:
        splitters["beam"] = fit("beam")
    beamed = time.perf_counter()
    pursuit = splitters["pursuit"] = fit("pursuit")
    searched = time.perf_counter()
    predictions = {"persistence": window[-1:].expand_as(truth)}
    predictions |= {name: s.predict(len(truth)).cpu() for name, s in splitters.items()}
    seconds = {
        "direct and beam": beamed - began,
        "search": searched - beamed,
        "predict": time.perf_counter() - searched,
    }
    true, found = true_values(observed), pursuit.coefficients_
    lines = [
        f"{len(window)} frames observed, {len(truth)} predicted,",
        "operators trained on one",
        "mechanism at a time",
        "",
        f"{'':9} {'true':>8} identified",
        *(f"{k:>9} {v:8.4g} {found[k]:10.4g}" for k, v in true.items() if k in found),
        "",
        "NRMSE of the forecast",
        *(f"{n:>12} {float(nrmse(p[None], truth[None])):.4f}" for n, p in predictions.items()),
        "",
        "composition found:",
        *pursuit.composition_.label.replace("] + ", "] +\n").split("\n"),
    ]
    return Rollout(observed, future, predictions, "\n".join(lines)), pursuit, seconds


def true_values(observed: Trajectories) -> dict[str, float]:
    """Coefficients of the first trajectory."""
    return {name: float(value[0]) for name, value in observed.coefficients.items()}
