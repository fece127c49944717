"""One search at a time: it runs in a thread, reports, can be stopped, and leaves files."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np
import torch

import opsplit
from opsplit.app import samples
from opsplit.errors import OpsplitError, no_warnings
from opsplit.metrics import nrmse
from opsplit.report.figures import forecast_figure
from opsplit.report.html import write_report

PATIENCE = 0.3
"""Seconds between two looks at a running search."""


@dataclass(frozen=True)
class Task:
    """What to explain and how far to forecast."""

    observed: opsplit.Trajectories | opsplit.Recording
    model: str
    steps: int
    seconds: float
    title: str
    """What the data are, for the report."""
    snippet: str
    """The same in Python."""
    truth: opsplit.Trajectories | None = None
    sample: samples.Sample | None = None


@dataclass
class Progress:
    """How far a search is: the share done, and every best composition so far."""

    share: float = 0.0
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """What was found, and the files to take home."""

    splitter: opsplit.OperatorSplitter
    forecast: opsplit.Forecast
    verdict: opsplit.Verdict
    rivals: dict[str, torch.Tensor]
    """Forecasts by method, where the truth is known; this one is `opsplit`."""
    files: list[Path]
    task: Task

    @property
    def errors(self) -> dict[str, float]:
        """NRMSE by method, where the truth is known."""
        if self.task.truth is None:
            return {}
        truth = self.task.truth.data.float()
        return {name: float(nrmse(f[None], truth)) for name, f in self.rivals.items()}


class _StoppedError(Exception):
    """Somebody pressed cancel."""


def run(task: Task, stop: threading.Event) -> Iterator[Progress | Answer]:
    """Search and forecast; yields what is known so far, at last the answer.

    The search ends early and its result is dropped if `stop` is set.
    """
    progress = Progress()
    held: list[Answer | Exception] = []

    def report(share: float, words: str) -> None:
        if stop.is_set():
            raise _StoppedError
        progress.share = max(progress.share, min(1.0, share))
        if words and words not in progress.lines:
            progress.lines.append(words)

    def work() -> None:
        try:
            held.append(_answer(task, report))
        except _StoppedError:
            return
        except Exception as reason:
            held.append(reason)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(PATIENCE)
            yield progress
    finally:
        # A page that was closed stops its search, too.
        if thread.is_alive():
            stop.set()
    for found in held:
        if isinstance(found, Exception):
            raise found
        yield found


def _answer(task: Task, report: Any) -> Answer:
    search = opsplit.Pursuit(max_seconds=task.seconds)
    splitter = opsplit.OperatorSplitter(task.model, search)
    with no_warnings():
        splitter.fit(task.observed, report=report)
    forecast = splitter.forecast(task.steps)
    verdict, truth = splitter.verdict_, None
    rivals: dict[str, torch.Tensor] = {}
    if task.truth is not None:
        truth = task.truth.data[0].float()
        last = splitter.observed_.data[0, -1].float()
        verdict = verdict.on_future(forecast.frames.float(), truth, last)
        rivals = _rivals(task, forecast, report)
    folder = Path(tempfile.mkdtemp(prefix="opsplit-app-"))
    return Answer(
        splitter, forecast, verdict, rivals, _files(folder, task, splitter, forecast, truth), task
    )


def _rivals(task: Task, forecast: opsplit.Forecast, report: Any) -> dict[str, torch.Tensor]:
    assert task.truth is not None and isinstance(task.observed, opsplit.Trajectories)
    found = {"opsplit": forecast.frames[: len(task.truth.times)].float()}
    report(1.0, "")
    with no_warnings():
        compared = opsplit.compare(task.model, task.observed, task.truth, methods=("direct",))
    found |= {name: frames.float() for name, frames in compared.predictions.items()}
    if task.sample is not None:
        known = samples.terms_given(task.sample)
        if known is not None:
            found["terms given"] = torch.from_numpy(known)
    return found


def _files(
    folder: Path,
    task: Task,
    splitter: opsplit.OperatorSplitter,
    forecast: opsplit.Forecast,
    truth: torch.Tensor | None,
) -> list[Path]:
    """Data, picture, page, JSON and the same in Python."""
    observed = splitter.observed_
    names = ("forecast.npz", "forecast.png", "report.html", "result.json", "the_same.py")
    data, picture, page, result, code = (folder / name for name in names)
    arrays: dict[str, Any] = {
        "observed": observed.data[0].numpy(),
        "observed_times": observed.times.numpy(),
        "forecast": forecast.frames.numpy(),
        "forecast_times": (observed.times[-1] + forecast.times).numpy(),
    }
    np.savez(data, **arrays)
    forecast_figure(splitter, forecast, picture)
    lower = upper = None
    if splitter.has_band_:
        lower, upper = splitter.band(splitter.forecast(task.steps, deviation=True))
    write_report(
        page, splitter, forecast, lower=lower, upper=upper, truth=truth,
        facts={"file": task.title}, understood=[], notes=splitter.notes_,
    )  # fmt: skip
    held = {
        "verdict": splitter.verdict_.to_json(),
        "equation": splitter.equation_,
        "latex": splitter.equation_.latex,
        "coefficients": splitter.coefficients_,
        "coefficient_intervals": splitter.coefficient_intervals_,
        "composition": splitter.composition_.label,
        "fit_error": splitter.fit_error_,
        "notes": list(splitter.notes_),
    }
    result.write_text(json.dumps(held, indent=2) + "\n")
    code.write_text(task.snippet)
    return [data, picture, page, result, code]


def play_task(sample: samples.Sample, seconds: float) -> Task:
    """The task of a simulated system."""
    values = ", ".join(f"{name} = {v:.4g}" for name, v in sample.coefficients.items())
    snippet = f'''"""The system that was played with, searched and forecast again."""

import opsplit
from opsplit.app.samples import simulate

sample = simulate(
    {sample.equation!r},
    {sample.coefficients!r},
    field={pformat(sample.field, width=100, compact=True)},
    frames={len(sample.observed.times)},
    steps={len(sample.future.times)},
    noise={sample.noise!r},
    seed={sample.seed!r},
)
search = opsplit.Pursuit(max_seconds={seconds:g})
s = opsplit.OperatorSplitter({sample.equation!r}, search)
s.fit(sample.observed)
future = s.predict(steps={len(sample.future.times)})
print(s)
'''
    title = f"{sample.equation}, {values}"
    steps = len(sample.future.times)
    return Task(
        sample.observed, sample.equation, steps, seconds, title, snippet, sample.future, sample
    )


def file_task(
    observed: opsplit.Recording,
    name: str,
    model: str,
    steps: int,
    seconds: float,
    said: dict[str, Any],
) -> Task:
    """The task of an uploaded file; `said` is what the user added to it."""
    given = "".join(f", {k}={v!r}" for k, v in said.items() if v is not None)
    snippet = f'''"""The uploaded file, searched and forecast again."""

import opsplit

data = opsplit.read({name!r}{given})
search = opsplit.Pursuit(max_seconds={seconds:g})
s = opsplit.OperatorSplitter({model!r}, search)
s.fit(data, trajectory=0)
future = s.predict(steps={steps})
print(s)
'''
    return Task(observed, model, steps, seconds, name, snippet)


def load_upload(path: str, said: dict[str, Any], most_mb: float) -> opsplit.Recording:
    """The last frames of the first trajectory of an upload, in memory, so that it may go."""
    recording = opsplit.read(path, **said).part([0])
    if "dt" in recording.guessed:
        raise OpsplitError("Nothing in the file says the time between frames: fill in dt.")
    room = max(2, int(most_mb / recording.frame_mb))
    count = recording.shape[1]
    last = recording.part(frames=slice(max(0, count - room), count))
    data = last.frames()
    return replace(last, source=Path(path).name, fetch=lambda trajectory, frames: data[frames])
