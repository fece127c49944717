"""`opsplit demo`: the method on one unseen system, from start to picture."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from opsplit.commands.common import Common, model_files, once


@dataclass(frozen=True)
class Demo(Common):
    """Draw an unseen system, forecast it directly and by search, compare, draw a picture.

    Example: opsplit demo --seed 3 --out demo
    """

    family: Literal["spectral", "unet"] = "spectral"
    """Operators of the bundled model (the unet takes a minute or more)."""
    out: Path | None = Path("demo")
    """Folder for demo.png."""

    def run(self) -> None:
        from opsplit.model import locate

        once(self, self.work, self.words, model_files(locate("advection-diffusion", self.family)))

    def work(self) -> dict[str, Any]:
        began = time.perf_counter()
        from opsplit.benchmark.tasks import columns, test_windows
        from opsplit.model import load_model
        from opsplit.predict.estimator import OperatorSplitter
        from opsplit.report.figures import demo_figure
        from opsplit.report.metrics import nrmse, nrmse_per_frame

        assert self.out is not None
        column = columns("advection-diffusion")["A+D"]
        observed, future = test_windows(column, 1, self.seed)
        true = {k: float(v[0]) for k, v in observed.coefficients.items()}
        model = load_model("advection-diffusion", self.family)
        window, truth = observed.data[0], future.data[0]
        loaded = time.perf_counter()
        steps = len(truth)
        direct = OperatorSplitter(model, "beam", device=self.device)
        direct.fit(window, observed.dt, dictionary=model.read(window))
        beam = OperatorSplitter(model, "beam", device=self.device).fit(window, observed.dt)
        beamed = time.perf_counter()
        splitter = OperatorSplitter(model, device=self.device).fit(window, observed.dt)
        searched = time.perf_counter()
        predictions = {
            "persistence": window[-1:].expand_as(truth),
            "direct": direct.predict(steps),
            "beam": beam.predict(steps),
            "pursuit": splitter.predict(steps),
        }
        found = {name: float(nrmse(p[None], truth[None])) for name, p in predictions.items()}
        predicted = time.perf_counter()
        frames = {n: nrmse_per_frame(p[None], truth[None])[0] for n, p in predictions.items()}
        coefficients = splitter.coefficients_
        lines = [
            "16 frames observed, 34 predicted,",
            "operators trained on pure advection",
            "and pure diffusion only",
            "",
            "         true    identified",
            *(f"{k:>6} {true[k]:8.4f} {coefficients[k]:11.4f}" for k in true),
            "",
            "NRMSE of the forecast",
            *(f"{n:>12} {e:.4f}" for n, e in found.items()),
            "",
            "composition found:",
            *splitter.composition_.label.replace("] + ", "] +\n").split("\n"),
        ]
        import torch

        demo_figure(
            torch.cat([window, truth])[:, 0],
            {n: predictions[n][:, 0] for n in ("direct", "pursuit")},
            frames,
            len(window),
            observed.dt,
            observed.grid.extent[0],
            "\n".join(lines),
            self.out / "demo.png",
        )
        splitter.search_result_.save(self.out)
        return {
            "nrmse": found,
            "coefficients": coefficients,
            "true": true,
            "seconds": {
                "load": loaded - began,
                "direct and beam": beamed - loaded,
                "search": searched - beamed,
                "predict": predicted - searched,
                "total": time.perf_counter() - began,
            },
            "equation": splitter.equation_,
            "table": str(splitter.search_result_),
            "picture": str(self.out / "demo.png"),
        }

    def words(self, r: dict[str, Any]) -> str:
        values = "\n".join(
            f"  {k:>3}  true {r['true'][k]:.4f}  identified {r['coefficients'][k]:.4f}"
            for k in r["true"]
        )
        errors = "\n".join(f"  {name:>12}  {e:.4f}" for name, e in r["nrmse"].items())
        return (
            "An advection-diffusion system that no operator was trained on: 16 frames observed.\n\n"
            f"{r['table']}\n\nCoefficients\n{values}\n  {r['equation']}\n\n"
            f"NRMSE of the next 34 frames\n{errors}\n\n"
            f"Picture: {r['picture']}  ({r['seconds']['total']:.1f} s in all)"
        )
