"""Ensembles: every trajectory of many files fitted and forecast, as independent work items.

A work item is a file and some of its trajectories. The window of each is read by itself, so memory
does not grow with the data. The items do not depend on the number of workers, so neither do the
results.
"""

from __future__ import annotations

import glob
import hashlib
import math
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from opsplit._files import remove_parts
from opsplit.errors import OpsplitError, no_warnings
from opsplit.io.assemble import Flags
from opsplit.io.forecast_store import prepare_store, store_forecast
from opsplit.io.read import READERS, SUFFIXES
from opsplit.io.recording import Recording
from opsplit.io.write import write_forecast
from opsplit.metrics import nrmse
from opsplit.model import AUTO, Model, load_model
from opsplit.parallel import HERE, Outcome, Where, run_items
from opsplit.predict.compatibility import compatibility, refuse
from opsplit.predict.door import observe, open_as
from opsplit.predict.estimator import OperatorSplitter
from opsplit.predict.many import fit_parts

Row = dict[str, Any]

MOST = 64
"""Trajectories of a work item,"""
ITEM_BYTES = 2**25
"""and the bytes of their windows, unless one alone has more."""
FAILED = "failed"
"""Status of a trajectory without a result; the others are levels of a verdict."""

WORDS = {"item", "file", "status", "reason", "equation", "forecast_status", "forecast"}
"""Columns of a row that are text; the others are numbers."""


@dataclass(frozen=True)
class Item:
    """Some trajectories of one file."""

    file: str
    numbers: tuple[int, ...]

    def split(self) -> list[Item]:
        """Every trajectory by itself."""
        return [replace(self, numbers=(number,)) for number in self.numbers]


@dataclass(frozen=True)
class Ensemble:
    """What is done with every trajectory.

    Arguments:
        splitter: model, search and other settings.
        flags: what the files do not say about their data.
        start: first frame of the window (default: see `window_of`).
        steps: frames to forecast; 0: none.
        out: folder for the forecasts, one file per trajectory in the format that came in, or one
            Zarr store if it ends in `.zarr` (None: forecasts are compared with the frames that
            follow, and not kept).
    """

    splitter: OperatorSplitter
    flags: Flags = field(default_factory=Flags)
    start: int | None = None
    steps: int = 34
    out: Path | None = None

    @property
    def store(self) -> Path | None:
        """The Zarr store of the forecasts, if they go into one."""
        return self.out if self.out is not None and self.out.suffix == ".zarr" else None

    @property
    def window(self) -> int:
        return self.splitter.window or 16

    def rows(
        self, files: Iterable[Path], done: Collection[str] = (), where: Where = HERE
    ) -> Iterator[list[Row]]:
        """Rows of all trajectories, in the order in which they are finished.

        Arguments:
            files: data files.
            done: names of rows that are there already.
            where: the workers.
        """
        shared = self._loaded()
        if self.out is not None and self.store is None:
            remove_parts(self.out)  # Of workers that were killed.
        unread: list[Row] = []
        items = shared._items(files, done, unread)
        for outcome in run_items(fit_item, items, shared, where, Item.split):
            yield from ([unread.pop(0)] for _ in range(len(unread)))
            yield rows_of(outcome)
        yield from ([row] for row in unread)

    def holds(self, row: Mapping[str, Any], files: Collection[str]) -> bool:
        """Whether a row of a run before is a result for one of the files, its forecast included."""
        file, number, kept = row.get("file"), row.get("trajectory"), row.get("forecast")
        if not isinstance(file, str) or not isinstance(number, int) or file not in files:
            return False
        if row.get("status") == FAILED:
            return False
        if row.get("item") != name_of(file, number) or not all(map(_fits, row, row.values())):
            return False
        if self.out is None or not self.steps:
            return True
        if self.store is not None:
            return kept == store_name(file) and (self.store / kept / "u").is_dir()
        named = isinstance(kept, str) and Path(kept).stem == forecast_name(file, number)
        return named and (self.out / str(kept)).exists()

    def _loaded(self) -> Ensemble:
        """The same with its model in memory, unless each trajectory gets the best for itself."""
        like = self.splitter
        if like.model == AUTO:
            return self
        model = load_model(like.model, like.family)
        return replace(self, splitter=OperatorSplitter(**{**like.get_params(), "model": model}))

    @property
    def model(self) -> Model | None:
        """The model that is in memory."""
        held = self.splitter.model
        return held if isinstance(held, Model) else None

    def _items(
        self, files: Iterable[Path], done: Collection[str], unread: list[Row]
    ) -> Iterator[Item]:
        """Work items; files are opened one after the other, while others are worked on."""
        for file in files:
            if str(file) in done:
                continue
            try:
                recording = self.recording(str(file))
            except OpsplitError as reason:
                unread.append(failed(str(file), None, str(reason)))
                continue
            if self.store is not None and self.steps:
                prepare_store(self.store, store_name(str(file)), recording, self.steps)
            most = items_together(recording, self.window + self.steps)
            # Always the same blocks, also of a run that goes on: rounding depends on them.
            for begin in range(0, len(recording), most):
                block = range(begin, min(begin + most, len(recording)))
                left = tuple(i for i in block if name_of(str(file), i) not in done)
                if left:
                    yield Item(str(file), left)

    def recording(self, file: str) -> Recording:
        """A file as the model reads it; data that cannot fit are refused."""
        if self.model is None:
            return open_as(file, self.flags)
        config = self.model.config
        recording = observe(file, config, self.flags)
        refuse(compatibility(config, recording), recording.source)
        return recording


def fit_item(ensemble: Ensemble, item: Item) -> list[Row]:
    """Fit and forecast the trajectories of a work item."""
    began = time.perf_counter()
    recording = ensemble.recording(item.file)
    first, after = window_of(recording, ensemble.start, ensemble.window)
    parts = [recording.part([number], slice(first, after)) for number in item.numbers]
    with no_warnings():
        fits = fit_parts(parts, ensemble.model, ensemble.splitter)
    each = (time.perf_counter() - began) / len(fits)
    rows = []
    for number, fit in zip(item.numbers, fits, strict=True):
        if isinstance(fit, OpsplitError):
            rows.append(failed(item.file, number, str(fit)))
        else:
            rows.append(_row(ensemble, recording, item.file, number, after, fit, each))
    return rows


def _row(
    ensemble: Ensemble,
    recording: Recording,
    file: str,
    number: int,
    after: int,
    fit: OperatorSplitter,
    seconds: float,
) -> Row:
    """Everything about one trajectory in plain numbers and words."""
    began = time.perf_counter()
    verdict, error, kept, status = fit.verdict_, None, None, None
    if ensemble.steps:
        forecast = fit.forecast(ensemble.steps)
        status = forecast.status
        one = recording.part([number])
        truth = future(one, after, ensemble.steps, fit.dt_)
        if truth is not None:
            known = torch.as_tensor(truth).float()
            there = known.flatten(1).isfinite().all(1)
            made = forecast.frames.float().cpu()
            error = float(nrmse(made[: len(known)][there][None], known[there][None]))
            verdict = verdict.on_future(made, known, fit.observed_.data[0, -1].float().cpu())
        if ensemble.store is not None:
            kept = store_name(file)
            store_forecast(ensemble.store, kept, number, forecast.frames.cpu().numpy())
        elif ensemble.out is not None:
            begin = recording.times[after - 1]
            kept = write_forecast(
                one, forecast.frames.cpu().numpy(), begin + forecast.times.numpy(), ensemble.out,
                forecast_name(file, number), fit.coefficients_,
            ).name  # fmt: skip
    row: Row = {
        "item": name_of(file, number), "file": file, "trajectory": number,
        "status": verdict.level.value, "reason": None, "equation": str(fit.equation_),
        "unexplained": _finite(verdict.unexplained), "skill": _finite(verdict.skill),
        "fit_error": _finite(fit.fit_error_), "nrmse": _finite(error),
        "forecast_status": status, "forecast": kept,
        "seconds": seconds + time.perf_counter() - began,
    }  # fmt: skip
    for name, value in fit.coefficients_.items():
        column = name
        while column in row:
            column += "_"
        low, high = fit.coefficient_intervals_.get(name, (None, None))
        row |= {column: value, f"{column} low": low, f"{column} high": high}
        if name in recording.coefficients:
            row[f"{column} stored"] = float(recording.coefficients[name][number])
    return row


def _fits(name: str, value: object) -> bool:
    """Whether a value of a row that was stored is of the kind that its column has."""
    if name in WORDS:
        return isinstance(value, str) or (value is None and name != "status")
    in_range = not isinstance(value, int) or abs(value) < 2**63
    return isinstance(value, int | float | None) and in_range


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def rows_of(outcome: Outcome[Item, list[Row]]) -> list[Row]:
    """The rows of an item; of one that failed, a row with the reason for every trajectory."""
    if outcome.value is not None:
        return outcome.value
    item, reason = outcome.item, outcome.reason or ""
    return [failed(item.file, number, reason) for number in item.numbers]


def failed(file: str, number: int | None, reason: str) -> Row:
    """The row of a trajectory, or of a whole file, without a result."""
    name = file if number is None else name_of(file, number)
    return {"item": name, "file": file, "trajectory": number, "status": FAILED, "reason": reason}


def name_of(file: str, number: int) -> str:
    """The name of a trajectory in a table."""
    return f"{file}#{number}"


def store_name(file: str) -> str:
    """The name of a file's forecasts in a store; that of a single one begins with it."""
    # Files of one name in two folders must not share a forecast.
    return f"{Path(file).stem}-{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}"


def forecast_name(file: str, number: int) -> str:
    """The name of a forecast's file, without its ending."""
    return f"{store_name(file)}-{number:06d}"


def items_together(recording: Recording, frames: int) -> int:
    """Trajectories of a work item: many small ones, or few large ones."""
    size = frames * recording.frame_mb * 2**20
    return max(1, min(MOST, int(ITEM_BYTES / size)))


def window_of(recording: Recording, start: int | None, length: int) -> tuple[int, int]:
    """The first frame of the window and the first after it.

    Without a start these are the last frames; of data with coefficients, which are data to test
    on, the first ones.
    """
    count, first = recording.shape[1], start
    if first is None:
        first = 0 if recording.coefficients else max(0, count - length)
    if not 0 <= first <= count - 2:
        raise OpsplitError(
            f"--start {first} leaves no two frames of the {count} in {recording.source}."
        )
    return first, min(count, first + length)


def future(recording: Recording, after: int, steps: int, dt: float) -> np.ndarray | None:
    """The frames of a trajectory that follow its window, where they are those of a forecast."""
    last = min(recording.shape[1], after + steps)
    if last <= after:
        return None
    ahead = recording.times[after:last] - recording.times[after - 1]
    if not np.allclose(ahead, dt * (1 + np.arange(len(ahead))), rtol=1e-3):
        return None
    return recording.frames(0, slice(after, last), holes=True)


def data_files(places: Iterable[str | Path]) -> list[Path]:
    """Files of data: as named, those that a pattern means, and all in a folder, by name."""
    found: list[Path] = []
    for place in places:
        text = str(place)
        if Path(text).exists():
            matches = [Path(text)]
        else:
            matches = [Path(match) for match in sorted(glob.glob(text, recursive=True))]
            if not matches:
                raise OpsplitError(f"No file is named like {text}.")
        for match in matches:
            found += _inside(match) if match.is_dir() and not _is_store(match) else [match]
    if not found:
        raise OpsplitError(
            f"No data in {', '.join(map(str, places))}: no file there ends in one of "
            f"{', '.join(SUFFIXES)}."
        )
    return list(dict.fromkeys(found))


def _inside(folder: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    here = (*above, folder.resolve())
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not _is_store(path):
            if path.resolve() not in here:  # A link may lead back to where we came from.
                yield from _inside(path, here)
        elif path.suffix.lower() in SUFFIXES or _is_store(path):
            yield path


def _is_store(path: Path) -> bool:
    """Whether a folder is read as one file."""
    return path.suffix.lower() == ".zarr" and "zarr" in READERS
