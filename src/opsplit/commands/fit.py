"""`opsplit search`, `predict` and `identify`: one fit, three questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from opsplit.commands.common import Common, model_files, once
from opsplit.errors import OpsplitError

if TYPE_CHECKING:
    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.search import Strategy


@dataclass(frozen=True)
class Fit(Common):
    """Flags of everything that fits a composition to observed frames."""

    file: Annotated[Path, tyro.conf.Positional] = tyro.MISSING
    """Observed frames: .npy (time, *space) or (time, channel, *space), or .npz."""
    model: str = "advection-diffusion"
    """A bundled name or a model directory."""
    family: Literal["spectral", "unet"] | None = None
    """Which of the bundled models."""
    dt: float | None = None
    """Time between frames (a file of `opsplit generate` knows it)."""
    extent: float | None = None
    """Physical length of the domain (default: the model's)."""
    trajectory: int = 0
    """Which trajectory of a file that holds several."""
    window: int = 16
    """Fit the last so many frames (a file of `opsplit generate`: the first)."""
    strategy: Literal["pursuit", "beam", "uniform"] = "pursuit"
    """How to search: pursuit also fits strengths; beam and uniform are the paper's."""
    width: int = 4
    """Beam: compositions kept per length."""
    max_parts: int = 5
    """Longest composition."""
    threshold: float = 0.05
    """Pursuit and beam: relative improvement that justifies one more operator."""
    refine: Literal["none", "strengths", "codes"] = "strengths"
    """Pursuit: what is refined by gradient-free steps on the fitting error."""
    rerank: bool | None = None
    """Pick among the finalists by their free-running error (default: pursuit only)."""
    max_seconds: float | None = None
    """Stop the search after so long and take the best so far; Ctrl-C does the same."""
    max_evaluations: int | None = None
    """Stop the search after so many evaluations of operators."""
    trials: int = 100
    """Uniform: sets to draw."""
    scheme: Literal["lie", "strang", "fourth"] = "strang"
    """Splitting scheme."""
    refinement: int = 1
    """Splitting substeps per frame."""
    memory_mb: float = 256
    """Limit of the search's working memory."""

    def check(self) -> None:
        super().check()
        if not 0 <= self.threshold < 1:
            raise OpsplitError(f"--threshold must lie in 0..1, got {self.threshold}.")

    def fit(self) -> OperatorSplitter:
        from opsplit.io.numpy_files import read_numpy
        from opsplit.model import load_model
        from opsplit.predict.estimator import OperatorSplitter
        from opsplit.report.progress import Progress

        model = load_model(self.model, self.family)
        grid = model.disco.grid
        observed = read_numpy(
            self.file,
            dt=self.dt,
            extent=self.extent,
            ndim=grid.ndim,
            boundary=grid.boundary,
            trajectory=self.trajectory,
            default_extent=grid.extent,
        )
        frames = observed.data[0]
        if observed.coefficients and len(frames) > self.window:
            frames = frames[: self.window]
        splitter = OperatorSplitter(
            model,
            self.search(),
            scheme=self.scheme,
            refinement=self.refinement,
            window=self.window,
            device=self.device,
            memory_mb=self.memory_mb,
        )
        with Progress("search", every=5.0) as bar:
            return splitter.fit(frames, observed.dt, observed.grid.extent, report=bar.update)

    def search(self) -> Strategy:
        """The strategy that the flags describe."""
        from opsplit.search import Beam, Pursuit, Uniform

        limits: dict[str, Any] = {
            "max_seconds": self.max_seconds,
            "max_evaluations": self.max_evaluations,
        }
        if self.rerank is not None:
            limits["rerank"] = self.rerank
        if self.strategy == "uniform":
            return Uniform(self.trials, self.max_parts, self.seed, **limits)
        if self.strategy == "beam":
            return Beam(self.width, self.max_parts, self.threshold, **limits)
        return Pursuit(self.max_parts, self.threshold, refine=self.refine, **limits)

    def result(self, splitter: OperatorSplitter) -> dict[str, Any]:
        """What all three commands report."""
        if self.out is not None:
            splitter.search_result_.save(self.out)
        return {
            "coefficients": splitter.coefficients_,
            "coefficient_intervals": splitter.coefficient_intervals_,
            "equation": splitter.equation_,
            "fit_error": splitter.fit_error_,
            "composition": splitter.composition_.label,
            "status": splitter.search_result_.status,
            "read_as": splitter.understood_,
            "table": str(splitter.search_result_),
        }

    def inputs(self) -> tuple[Path, ...]:
        """Files whose content decides the result."""
        from opsplit.model import locate

        model = locate(self.model, self.family)
        return (self.file, *model_files(model))


@dataclass(frozen=True)
class Search(Fit):
    """Find the composition of known operators that explains observed frames.

    Example: opsplit search frames.npy --dt 0.101 --model advection-diffusion --out found
    """

    def run(self) -> None:
        once(
            self, lambda: self.result(self.fit()),
            lambda r: f"read as {r['read_as']}\n{r['table']}", self.inputs(),
        )  # fmt: skip


@dataclass(frozen=True)
class Identify(Fit):
    """Name the equation behind observed frames and its coefficients.

    Example: opsplit identify frames.npy --dt 0.101 --model advection-diffusion
    """

    def run(self) -> None:
        def words(r: dict[str, Any]) -> str:
            def line(name: str, value: float) -> str:
                low, high = r["coefficient_intervals"].get(name, (None, None))
                sure = "" if low is None else f"  90 % in [{low:.5g}, {high:.5g}]"
                return f"  {name} = {value:.5g}{sure}"

            values = "\n".join(line(k, v) for k, v in r["coefficients"].items())
            return f"{r['equation']}\n{values}\n  one-step error {r['fit_error']:.3g}"

        once(self, lambda: self.result(self.fit()), words, self.inputs())


@dataclass(frozen=True)
class Predict(Fit):
    """Forecast what follows observed frames.

    Example: opsplit predict frames.npy --dt 0.101 --model advection-diffusion --steps 34
    """

    steps: int = 34
    """Frames to predict."""
    out: Path | None = Path("forecast")
    """Folder for forecast.npz, forecast.png and the search's table."""

    def run(self) -> None:
        def work() -> dict[str, Any]:
            import numpy as np

            from opsplit.report.figures import forecast_figure

            assert self.out is not None
            splitter = self.fit()
            forecast = splitter.forecast(self.steps)
            frames = forecast.frames.cpu().numpy()
            result = self.result(splitter)
            np.savez(self.out / "forecast.npz", u=frames, times=forecast.times.numpy())
            forecast_figure(splitter, forecast, self.out / "forecast.png")
            return {
                **result,
                "forecast": str(self.out / "forecast.npz"),
                "shape": list(frames.shape),
                "forecast_status": forecast.status,
            }

        def words(r: dict[str, Any]) -> str:
            return (
                f"read as {r['read_as']}\n{r['table']}\n{r['equation']}\n"
                f"forecast {r['forecast_status']}: {r['forecast']} (time, channel, *space) "
                f"{r['shape']}, picture beside it"
            )

        once(self, work, words, self.inputs())
