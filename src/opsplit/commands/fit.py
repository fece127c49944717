"""`opsplit search`, `predict` and `identify`: one fit, three questions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from opsplit.commands.common import model_files, once
from opsplit.commands.describe import ReadFlags
from opsplit.errors import OpsplitError, no_warnings

if TYPE_CHECKING:
    from opsplit.io.recording import Recording
    from opsplit.model import Model
    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.search import Strategy


@dataclass(frozen=True)
class Fitted:
    """A composition and what it was fitted to."""

    splitter: OperatorSplitter
    recording: Recording
    understood: tuple[str, ...]
    after: int
    """The first frame after those that were fitted."""


@dataclass(frozen=True)
class Fit(ReadFlags):
    """Flags of everything that fits a composition to observed frames."""

    model: str = "advection-diffusion"
    """A bundled name or a model directory."""
    family: Literal["spectral", "unet"] | None = None
    """Which of the bundled models."""
    trajectory: int = 0
    """Which trajectory of a file that holds several."""
    window: int = 16
    """Fit so many frames."""
    start: int | None = None
    """The first of them; frames after them are compared with the forecast (default: the last ones
    are fitted, of a file with coefficients, which are data to test on, the first ones)."""
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
        if self.window < 2:
            raise OpsplitError(f"--window counts frames and must be at least 2, got {self.window}.")
        if not 0 <= self.threshold < 1:
            raise OpsplitError(f"--threshold must lie in 0..1, got {self.threshold}.")

    def fit(self) -> Fitted:
        from opsplit.model import load_model
        from opsplit.predict.estimator import OperatorSplitter
        from opsplit.progress import Progress

        model = load_model(self.model, self.family)
        recording = replace(self, ndim=self.ndim or model.config.ndim).read()
        understood = self._agree(recording, model)
        count = recording.shape[1]
        first = self.start
        if first is None:
            first = 0 if recording.coefficients else max(0, count - self.window)
        if not 0 <= first <= count - 2:
            raise OpsplitError(
                f"--start {first} leaves no two frames of the {count} in {recording.source}."
            )
        after = min(count, first + self.window)
        splitter = OperatorSplitter(
            model,
            self.search(),
            scheme=self.scheme,
            refinement=self.refinement,
            window=self.window,
            device=self.device,
            memory_mb=self.memory_mb,
        )
        with Progress("search", every=5.0) as bar, no_warnings():
            splitter.fit(
                recording.frames(self.trajectory, slice(first, after)),
                extent=recording.grid.extent if "extent" in recording.known else None,
                report=bar.update,
                times=recording.times[first:after],
            )
        return Fitted(splitter, recording, understood, after)

    def _agree(self, recording: Recording, model: Model) -> tuple[str, ...]:
        """What was understood, with the model's word on what the file does not say."""
        config, source = model.config, recording.source
        if "dt" not in recording.known:
            raise OpsplitError(f"{source} does not say the time between frames; add --dt.")
        # What the file does not say the model does.
        said = [line for line in recording.understood if not line.startswith("Nothing says")]
        if "extent" not in recording.known:
            sizes = " x ".join(f"{length:.4g}" for length in model.disco.grid.extent)
            said.append(f"Nothing says how large the box is: {sizes}, as the model's (--extent).")
        if recording.grid.ndim != config.ndim:
            raise OpsplitError(
                f"{source} holds {recording.grid.ndim}-D fields, the model {config.physics!r} "
                f"knows {config.ndim}-D ones; `opsplit describe` names the models that fit."
            )
        held, known = recording.channels, config.channels
        if sorted(held) == sorted(known) and held != known:
            raise OpsplitError(
                f"{source} has its channels in the order {', '.join(held)}, the model "
                f"{', '.join(known)}; add --channels {','.join(known)}."
            )
        if "boundary" in recording.known and recording.grid.boundary != model.disco.grid.boundary:
            raise OpsplitError(
                f"{source} has boundaries {recording.grid.boundary}, the model "
                f"{model.disco.grid.boundary}; --boundary periodic if the file is wrong."
            )
        return tuple(said)

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

    def result(self, fitted: Fitted) -> dict[str, Any]:
        """What all three commands report."""
        splitter = fitted.splitter
        if self.out is not None:
            splitter.search_result_.save(self.out)
        return {
            "coefficients": splitter.coefficients_,
            "coefficient_intervals": splitter.coefficient_intervals_,
            "equation": splitter.equation_,
            "fit_error": splitter.fit_error_,
            "composition": splitter.composition_.label,
            "status": splitter.search_result_.status,
            "data_status": splitter.status_,
            "read_as": splitter.understood_,
            "understood": list(fitted.understood),
            "notes": list(splitter.notes_),
            "table": str(splitter.search_result_),
        }

    def inputs(self) -> tuple[Path, ...]:
        """Files whose content decides the result."""
        from opsplit.model import locate

        model = locate(self.model, self.family)
        return (*self.files, *model_files(model))


def said(r: dict[str, Any]) -> str:
    """What was read and what is unusual about it, before any result."""
    lines = [f"read as {r['read_as']}", *r["understood"], *(f"note: {n}" for n in r["notes"])]
    return "\n".join(lines)


@dataclass(frozen=True)
class Search(Fit):
    """Find the composition of known operators that explains observed frames.

    Example: opsplit search frames.npy --dt 0.101 --model advection-diffusion --out found
    """

    def run(self) -> None:
        once(
            self, lambda: self.result(self.fit()),
            lambda r: f"{said(r)}\n{r['table']}", self.inputs(),
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
            found = f"{r['equation']}\n{values}\n  one-step error {r['fit_error']:.3g}"
            return f"{said(r)}\n{found}"

        once(self, lambda: self.result(self.fit()), words, self.inputs())


@dataclass(frozen=True)
class Predict(Fit):
    """Forecast what follows observed frames.

    Example: opsplit predict frames.npy --dt 0.101 --steps 34 --report forecast.html
    """

    steps: int = 34
    """Frames to predict."""
    report: Path | None = None
    """Write a page about it all, such as forecast.html."""
    out: Path | None = Path("forecast")
    """Folder for the forecast in the format of the input, forecast.csv, forecast.png and the
    search's table."""

    def check(self) -> None:
        super().check()
        # Never write over what was meant to be read.
        if self.report is not None and self.report.suffix.lower() not in (".html", ".htm"):
            raise OpsplitError(
                f"--report is an HTML page, such as forecast.html, not {self.report}."
            )

    def run(self) -> None:
        # A page that was taken away is made again.
        command = replace(self, force=True) if self.report and not self.report.exists() else self
        once(command, self.work, self.words, self.inputs())

    def work(self) -> dict[str, Any]:
        from opsplit._files import origin
        from opsplit.io.write import write_forecast
        from opsplit.report.figures import forecast_figure
        from opsplit.report.html import write_report
        from opsplit.report.numbers import write_numbers

        assert self.out is not None
        fitted = self.fit()
        splitter, recording = fitted.splitter, fitted.recording
        forecast = splitter.forecast(self.steps)
        frames = forecast.frames.cpu().numpy()
        begin = recording.times[fitted.after - 1]
        path = write_forecast(
            recording, frames, begin + forecast.times.numpy(), self.out,
            coefficients=splitter.coefficients_,
        )  # fmt: skip
        lower = upper = None
        if splitter.coefficient_intervals_:
            _, lower, upper = splitter.predict(self.steps, return_interval=0.9)
        truth = self._truth(fitted, begin)
        forecast_figure(splitter, forecast, self.out / "forecast.png")
        error = write_numbers(self.out / "forecast.csv", forecast, upper, truth, recording.channels)
        result = self.result(fitted)
        if self.report is not None:
            write_report(
                self.report, splitter, forecast, lower=lower, upper=upper, truth=truth,
                facts={k: str(v) for k, v in origin(self.seed, self.device).items()},
                understood=(f"Read as {splitter.understood_}.", *fitted.understood),
                notes=splitter.notes_, channels=recording.channels,
            )  # fmt: skip
        return {
            **result,
            "forecast": str(path),
            "shape": list(frames.shape),
            "forecast_status": forecast.status,
            "nrmse": error,
            "report": None if self.report is None else str(self.report),
        }

    def _truth(self, fitted: Fitted, begin: float) -> Any:
        """The frames that follow in the file, where they are those that are forecast."""
        import numpy as np

        recording = fitted.recording
        last = min(recording.shape[1], fitted.after + self.steps)
        if last <= fitted.after:
            return None
        ahead = recording.times[fitted.after : last] - begin
        if not np.allclose(ahead, fitted.splitter.dt_ * (1 + np.arange(len(ahead))), rtol=1e-3):
            return None
        return recording.frames(self.trajectory, slice(fitted.after, last))

    @staticmethod
    def words(r: dict[str, Any]) -> str:
        found = (
            f"{said(r)}\n{r['table']}\n{r['equation']}\n"
            f"forecast {r['forecast_status']}: {r['forecast']} (time, channel, *space) "
            f"{r['shape']}, numbers and picture beside it"
        )
        if r["nrmse"] is not None:
            found += f"\nerror against the frames that follow in the file: NRMSE {r['nrmse']:.4g}"
        return found + (f"\nreport: {r['report']}" if r["report"] else "")
