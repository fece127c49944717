"""`opsplit search`, `predict` and `identify`: one fit, three questions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from opsplit.commands.common import Common, model_files, once
from opsplit.commands.describe import PATTERN, ReadFlags
from opsplit.commands.ensemble import run_ensemble
from opsplit.commands.search_flags import bare_array, with_search_flags
from opsplit.commands.spread import Spread
from opsplit.errors import OpsplitError, no_warnings
from opsplit.search.registry import SEARCHES, search_names

if TYPE_CHECKING:
    from opsplit.io.recording import Recording
    from opsplit.predict.estimator import OperatorSplitter
    from opsplit.search import Strategy


UNEXPLAINED_CODE = 3
"""Exit code of a fit that explains nothing; what it found is written all the same."""


@dataclass(frozen=True)
class Fitted:
    """A composition and what it was fitted to."""

    splitter: OperatorSplitter
    recording: Recording
    """The trajectory, also its frames after the window."""
    after: int
    """The first frame after those that were fitted."""


@dataclass(frozen=True)
class Fit(ReadFlags, Spread):
    """Flags of everything that fits a composition to observed frames."""

    model: str = "auto"
    """A bundled name (`opsplit info` lists them) or a model directory; auto tries all bundled
    models and takes the best."""
    family: str | None = None
    """Kind of the model's operators: spectral or unet (default: spectral)."""
    trajectory: int | None = None
    """Which trajectory of a file that holds several (default: the first)."""
    every: bool = False
    """Fit every trajectory of a file by itself, and write one table and one page. Several files,
    a folder or a pattern are always fitted so, unless --trajectory is given."""
    window: int = 16
    """Number of frames to fit."""
    start: int | None = None
    """First frame to fit, counted from 0. Later frames are compared with the forecast. (default:
    the last frames are fitted; in a file that stores its coefficients, the first ones)"""
    strategy: Annotated[
        str,
        tyro.conf.arg(
            help=f"How to search: {', '.join(search_names())}. Pursuit also fits strengths; beam "
            "and uniform are the paper's. Every other setting of a search is a flag, too, such as "
            "--survivors 12 or --finalists 8; the reference on searches lists them."
        ),
    ] = "pursuit"
    width: int | None = None
    """Pursuit and beam: compositions kept per length (default: that of the search)."""
    max_parts: int = 5
    """Longest composition."""
    threshold: float = 0.05
    """Pursuit and beam: relative improvement that justifies one more operator."""
    refine: Literal["none", "strengths", "codes"] = "strengths"
    """Pursuit: what is refined by gradient-free steps on the fitting error."""
    rerank: Annotated[bool | None, tyro.conf.FlagConversionOff] = None
    """Pick among the finalists by their free-running error (default: pursuit only)."""
    max_seconds: float | None = None
    """Stop the search after this time and take the best so far; Ctrl-C does the same. Files that
    take longer to read are refused."""
    max_evaluations: int | None = None
    """Stop the search after this number of operator evaluations."""
    trials: int = 100
    """Uniform: sets to draw."""
    scheme: Literal["lie", "strang", "fourth"] = "strang"
    """Splitting scheme."""
    refinement: int | None = None
    """Splitting substeps per frame (default: as many as the splitting error asks for)."""
    denoise: Annotated[bool | None, tyro.conf.FlagConversionOff] = None
    """Take white noise out of the observed frames first (default: for pursuit)."""
    memory_mb: float = 2048
    """Limit of the search's working memory."""

    @classmethod
    def for_arguments(cls, arguments: list[str]) -> tuple[type[Common], list[str]]:
        return with_search_flags(cls, arguments), arguments

    def check(self) -> None:
        super().check()
        SEARCHES.require(self.strategy)
        if self.window < 2:
            raise OpsplitError(f"--window counts frames and must be at least 2, got {self.window}.")
        if not 0 <= self.threshold < 1:
            raise OpsplitError(f"--threshold must lie in 0..1, got {self.threshold}.")
        # An array alone never says it; no model need be loaded to know that.
        if self.dt is None and all(map(bare_array, self.files)):
            raise OpsplitError(f"{self.files[0]} does not say the time between frames; add --dt.")

    def fit(self) -> Fitted:
        """Read, choose the window, search."""
        from opsplit._deadline import within
        from opsplit.progress import Progress

        with within(self.max_seconds):
            recording = self.recorded()
        first, after = self.chosen(recording)
        splitter = self.splitter()
        with Progress("search", every=5.0) as bar, no_warnings():
            splitter.fit(recording.part(frames=slice(first, after)), report=bar.update)
        return Fitted(splitter, in_the_box(recording, splitter), after)

    def recorded(self) -> Recording:
        """The trajectory as the model reads it; what cannot fit is refused before loading."""
        from opsplit.io.assemble import Flags
        from opsplit.model import AUTO, load_config, locate
        from opsplit.predict.compatibility import compatibility, refuse
        from opsplit.predict.door import observe, open_as

        if self.model == AUTO:
            return open_as(self.source(), Flags(**self.said())).part([self.trajectory or 0])
        config = load_config(locate(self.model, self.family))
        recording = observe(self.source(), config, Flags(**self.said()))
        refuse(compatibility(config, recording), recording.source)
        return recording.part([self.trajectory or 0])

    @property
    def many(self) -> bool:
        """Whether the flags ask for many trajectories."""
        if self.every and self.trajectory is not None:
            raise OpsplitError("Give --every or --trajectory, not both.")
        one = len(self.files) == 1 and self.files[0].is_file()
        several = len(self.files) > 1 or (bool(self.files) and is_several(self.files[0]))
        return self.every or (several and not one and self.trajectory is None)

    def chosen(self, recording: Recording) -> tuple[int, int]:
        """The first frame of the window and the first after it."""
        from opsplit.predict.ensemble import window_of

        return window_of(recording, self.start, self.window)

    def splitter(self) -> OperatorSplitter:
        """The estimator that the flags describe."""
        from opsplit.predict.estimator import OperatorSplitter

        return OperatorSplitter(
            self.model,
            self.search(),
            self.family,
            scheme=self.scheme,
            refinement=self.refinement or "auto",
            window=self.window,
            denoise=self.denoise,
            device=self.device,
            memory_mb=self.memory_mb,
        )

    def search(self) -> Strategy:
        """The strategy that the flags describe."""
        chosen = SEARCHES[self.strategy]
        flags = {f.name: getattr(self, f.name) for f in fields(self)}
        given = {f.name: flags.get(f.name) for f in fields(chosen)}
        return chosen(**{name: value for name, value in given.items() if value is not None})

    def result(self, fitted: Fitted) -> dict[str, Any]:
        """What all three commands report."""
        splitter = fitted.splitter
        if self.out is not None:
            splitter.search_result_.save(self.out)
        return {
            "verdict": splitter.verdict_.to_json(),
            "status": splitter.status_,
            "coefficients": splitter.coefficients_,
            "coefficient_intervals": splitter.coefficient_intervals_,
            "equation": splitter.equation_,
            "fit_error": splitter.fit_error_,
            "composition": splitter.composition_.label,
            "search_status": splitter.search_result_.status,
            "understood": list(fitted.recording.understood),
            "issues": [issue.to_json() for issue in splitter.issues_],
            "ranking": [one.to_json() for one in splitter.ranking_],
            "table": str(splitter.search_result_),
        }

    def answer(
        self, work: Callable[[], dict[str, Any]], words: Callable[[dict[str, Any]], str]
    ) -> None:
        """Do the work once and print it, the verdict last; exit with 3 if nothing is explained."""
        self.check()

        def with_verdict(r: dict[str, Any]) -> str:
            return f"{said(r)}\n{words(r)}\n{r['verdict']['text']}"

        result = once(self, work, with_verdict, self.inputs())
        from opsplit.predict.verdict import Level

        if result["verdict"]["level"] == Level.UNEXPLAINED:
            sys.exit(UNEXPLAINED_CODE)

    def inputs(self) -> tuple[Path, ...]:
        """Files whose content decides the result."""
        from opsplit.model import AUTO, locate

        chosen = [(self.model, self.family)]
        if self.model == AUTO:
            from opsplit.predict.auto_model import candidates

            chosen = list(candidates(self.family))
        models = (locate(name, family) for name, family in chosen)
        return (*self.files, *(file for model in models for file in model_files(model)))


def in_the_box(recording: Recording, splitter: OperatorSplitter) -> Recording:
    """The recording in the box that the fit assumed, where the data do not say it."""
    from opsplit.predict.compatibility import Code

    said = [one.text for one in splitter.issues_ if one.code == Code.EXTENT_GUESSED]
    if not said:
        return recording
    grid = replace(recording.grid, extent=splitter.observed_.grid.extent)
    return replace(recording, grid=grid, guessed={**recording.guessed, "extent": said[0]})


def is_several(place: Path) -> bool:
    """Whether a path means many files: a folder or a pattern."""
    if place.is_dir():
        return place.suffix.lower() != ".zarr"
    return not place.exists() and any(mark in str(place) for mark in PATTERN)


def said(r: dict[str, Any]) -> str:
    """What was read and what is unusual about it, before any result."""
    from opsplit.predict.compatibility import Code

    # Guesses are among the sentences on what was read.
    notes = [i["text"] for i in r["issues"] if i["code"] != Code.EXTENT_GUESSED]
    lines = [*r["understood"], *(f"note: {text}" for text in notes)]
    if r.get("ranking"):
        from opsplit.predict.auto_model import Ranked, ranking_table

        lines.append(ranking_table([Ranked(**one) for one in r["ranking"]]))
    return "\n".join(lines)


@dataclass(frozen=True)
class Search(Fit):
    """Find the composition of known operators that explains observed frames.

    Example: opsplit search frames.npy --dt 0.101 --extent 16 --out found
    """

    def run(self) -> None:
        if self.many:
            return run_ensemble(self, 0)
        return self.answer(lambda: self.result(self.fit()), lambda r: str(r["table"]))


@dataclass(frozen=True)
class Identify(Fit):
    """Name the equation behind observed frames and its coefficients.

    Example: opsplit identify frames.npy --dt 0.101 --extent 16
    """

    def run(self) -> None:
        if self.many:
            return run_ensemble(self, 0)

        def words(r: dict[str, Any]) -> str:
            def line(name: str, value: float) -> str:
                low, high = r["coefficient_intervals"].get(name, (None, None))
                sure = "" if low is None else f"  90 % in [{low:.5g}, {high:.5g}]"
                return f"  {name} = {value:.5g}{sure}"

            values = "\n".join(line(k, v) for k, v in r["coefficients"].items())
            return f"{r['equation']}\n{values}\n  one-step error {r['fit_error']:.3g}"

        return self.answer(lambda: self.result(self.fit()), words)


@dataclass(frozen=True)
class Predict(Fit):
    """Forecast what follows observed frames.

    Example: opsplit predict frames.npy --dt 0.101 --extent 16 --report forecast.html
    """

    steps: int = 34
    """Frames to predict."""
    forecasts: Literal["files", "zarr"] = "files"
    """For many trajectories: a file each in the format of the input, or one Zarr store."""
    report: Path | None = None
    """Page to write, such as forecast.html: verdict, equation, pictures and numbers."""
    out: Path | None = Path("forecast")
    """Folder for the forecast in the format of the input, numbers.csv, forecast.png and the
    search's table."""

    def check(self) -> None:
        super().check()
        # Never write over what was meant to be read.
        if self.report is not None and self.report.suffix.lower() not in (".html", ".htm"):
            raise OpsplitError(
                f"--report is an HTML page, such as forecast.html, not {self.report}."
            )

    def replaces(self) -> tuple[Path, ...]:
        return (*super().replaces(), *(() if self.report is None else (self.report,)))

    def run(self) -> None:
        if self.many:
            return run_ensemble(self, self.steps, self.forecasts)
        return self.answer(self.work, self.words)

    def work(self) -> dict[str, Any]:
        import torch

        from opsplit._origin import origin
        from opsplit.io.write import write_forecast
        from opsplit.predict.ensemble import future
        from opsplit.report.figures import forecast_figure
        from opsplit.report.html import write_report
        from opsplit.report.numbers import write_numbers

        assert self.out is not None
        fitted = self.fit()
        splitter, recording = fitted.splitter, fitted.recording
        forecast = splitter.forecast(self.steps, deviation=splitter.has_band_)
        frames = forecast.frames.cpu().numpy()
        begin = recording.times[fitted.after - 1]
        path = write_forecast(
            recording, frames, begin + forecast.times.numpy(), self.out,
            coefficients=splitter.coefficients_,
        )  # fmt: skip
        lower, upper = splitter.band(forecast) if splitter.has_band_ else (None, None)
        truth = future(recording, fitted.after, self.steps, splitter.dt_)
        verdict = splitter.verdict_
        if truth is not None:
            last = splitter.observed_.data[0, -1].float().cpu()
            known = torch.as_tensor(truth).float()
            verdict = verdict.on_future(forecast.frames.float().cpu(), known, last)
            forecast = replace(forecast, explained=verdict.trusted)
        forecast_figure(splitter, forecast, self.out / "forecast.png")
        error = write_numbers(self.out / "numbers.csv", forecast, upper, truth, recording.channels)
        result = self.result(fitted)
        if self.report is not None:
            write_report(
                self.report, splitter, forecast, lower=lower, upper=upper, truth=truth,
                facts={"file": recording.source}
                | {k: str(v) for k, v in origin(self.seed, self.device).items()},
                understood=recording.understood,
                notes=splitter.notes_, channels=recording.channels,
            )  # fmt: skip
        return {
            **result,
            "verdict": verdict.to_json(),
            "status": verdict.level.value,
            "forecast": str(path),
            "shape": list(frames.shape),
            "forecast_status": forecast.status,
            "nrmse": error,
            "report": None if self.report is None else str(self.report),
        }

    @staticmethod
    def words(r: dict[str, Any]) -> str:
        found = (
            f"{r['table']}\n{r['equation']}\n"
            f"forecast {r['forecast_status']}: {r['forecast']} (time, channel, *space) "
            f"{r['shape']}, numbers and picture beside it"
        )
        if r["nrmse"] is not None:
            found += f"\nerror against the frames that follow in the file: NRMSE {r['nrmse']:.4g}"
        return found + (f"\nreport: {r['report']}" if r["report"] else "")
