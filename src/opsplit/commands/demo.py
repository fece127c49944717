"""`opsplit demo`: the method on one unseen system, from start to picture."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from opsplit.commands.common import Common, model_files, once
from opsplit.physics import PHYSICS, first_physics


@dataclass(frozen=True)
class Demo(Common):
    """Draw an unseen system, forecast it directly and by search, compare, draw a picture.

    Example: opsplit demo --seed 3 --out demo
    """

    physics: Annotated[str, tyro.conf.arg(help=f"The equation: {', '.join(PHYSICS)}.")] = (
        first_physics()
    )
    family: str = "spectral"
    """Operators of the bundled model: spectral or unet, which takes a minute or more."""
    model: Path | None = None
    """Use this model directory instead of the bundled one."""
    out: Path | None = Path("demo")
    """Folder for demo.png."""

    def run(self) -> None:
        from opsplit.model import locate
        from opsplit.physics import get_physics

        bundled = get_physics(self.physics).model or self.physics
        folder = locate(self.model) if self.model else locate(bundled, self.family)
        once(self, self.work, self.words, model_files(folder))

    def work(self) -> dict[str, Any]:
        began = time.perf_counter()
        from opsplit.benchmark.compare import METHODS, compare
        from opsplit.benchmark.tasks import demo_column, example
        from opsplit.model import load_model
        from opsplit.physics import get_physics
        from opsplit.report.figures import demo_figure, frames_figure
        from opsplit.report.space import space_figure

        assert self.out is not None
        column = demo_column(self.physics)
        bundled = get_physics(self.physics).model or self.physics
        model = load_model(self.model) if self.model else load_model(bundled, self.family)
        observed, future = example(column, self.seed)
        loaded = time.perf_counter()
        line = observed.grid.ndim == 1
        # The paper's search takes minutes on a plane.
        methods = METHODS if line else tuple(name for name in METHODS if name != "beam")
        if observed.grid.ndim > model.config.ndim:
            # The hypernetwork reads no operator from fields with more axes than its own.
            methods = METHODS[-1:]
        found = compare(model, observed, future, methods, column.operators, self.device)
        if line:
            demo_figure(found.rollout(), self.out / "demo.png")
        elif observed.grid.ndim == 3:
            space_figure(found.rollout(), self.out / "demo.png")
        else:
            frames_figure([found.rollout()], self.out / "demo.png")
        splitter = found.best
        splitter.search_result_.save(self.out)
        return {
            "nrmse": found.errors,
            "coefficients": splitter.coefficients_,
            "true": found.true,
            "frames": {"observed": observed.data.shape[1], "predicted": column.horizon},
            "seconds": {
                "load": loaded - began,
                **found.seconds,
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
        errors = "\n".join(f"  {name:>12}  {e:.2g}" for name, e in r["nrmse"].items())
        frames = r["frames"]
        return (
            f"A system of {self.physics} that no operator was trained on: "
            f"{frames['observed']} frames observed.\n\n"
            f"{r['table']}\n\nCoefficients\n{values}\n  {r['equation']}\n\n"
            f"NRMSE of the next {frames['predicted']} frames\n{errors}\n\n"
            f"Picture: {r['picture']}  ({r['seconds']['total']:.1f} s in all)"
        )
