"""A fitted splitter in a folder: arrays, JSON and safetensors, no pickle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from opsplit._files import inside, read_json, write_json
from opsplit._text import lines
from opsplit._version import __version__
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, no_warnings
from opsplit.io.recording import Changes
from opsplit.model import AUTO, DEFAULT_MODEL, Model
from opsplit.predict.equations import Equation
from opsplit.predict.kinds import like
from opsplit.predict.replay import Replay
from opsplit.predict.stored_fit import StoredFit
from opsplit.predict.units import Units
from opsplit.search import get_search
from opsplit.settings import path_argument
from opsplit.trajectories import Trajectories

if TYPE_CHECKING:
    from opsplit.predict.estimator import OperatorSplitter

FORMAT = 1
FILE = "splitter.json"


def save_splitter(splitter: OperatorSplitter, folder: str | Path) -> Path:
    """Write a fitted splitter into a folder."""
    splitter.require_fit()
    target = path_argument(folder, "The folder of a fit")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise OpsplitError(f"{target} cannot be a folder ({reason.strerror}).") from None
    observed = splitter.observed_
    Trajectories(observed.data.cpu(), observed.times.cpu(), observed.grid, observed.channels).save(
        target / "observed.npz"
    )
    params = dict(splitter.get_params())
    model = params["model"]
    if isinstance(model, Model):
        model.save(target / "model")
        params["model"] = None
    else:
        params["model"] = str(model)
    params["search"] = get_search(params["search"]).to_json()
    result = splitter.search_result_
    # Searches add operators of their own, or leave some out: the positions are in this one.
    splitter._found.dictionary.save(target / "dictionary")
    if splitter._dictionary is not None:
        splitter._dictionary.save(target / "given")
    write_json(
        target / FILE,
        {
            "format": FORMAT,
            "version": __version__,
            "parameters": params,
            "model": _model(splitter),
            "refinement": splitter.refinement_,
            "units": asdict(splitter.units_),
            "result": result.to_dict()
            | {
                "evaluation_flops": result.cost.evaluation_flops,
                "alike": result.alike,
                "remark": result.remark,
            },
            "understood": splitter.understood_,
            "equation": str(splitter.equation_),
            "intervals": splitter.coefficient_intervals_,
            "notes": list(splitter.notes_),
            "given": splitter._dictionary is not None,
            "kind": _kind(splitter.predict(1)),
            "changes": asdict(splitter._changes),
        },
    )
    return target


def load_splitter(kind: type[OperatorSplitter], folder: str | Path) -> OperatorSplitter:
    """Read what `save_splitter` wrote; the search is not repeated."""
    source = path_argument(folder, "The folder of a fit")
    raw = read_json(inside(source, FILE))
    if not isinstance(raw, dict) or type(raw.get("format")) is not int or raw["format"] != FORMAT:
        raise OpsplitError(f"{source} is not a folder of `OperatorSplitter.save`.")
    known = {k: v for k, v in raw.items() if k not in ("format", "version", "kind")}
    with _naming(source / FILE):
        held = StoredFit.from_json(known, str(source / FILE))
    observed = Trajectories.load(inside(source, "observed.npz"))
    operators = OperatorDictionary.load(inside(source, "dictionary"))
    used = OperatorDictionary.load(inside(source, "given")) if held.given else None
    _check(source / FILE, held, len(operators), observed)
    with _naming(source / FILE):
        model, params = held.parameters.model, held.parameters.arguments(str(source))
        params["model"] = inside(source, "model") if model is None else model
        units = Units(**vars(held.units))
        replay = Replay.of(params["search"], held.result.found(operators), units)
    changed: dict[str, Any] = {"search": replay, "refinement": held.refinement}
    if held.model is not None:
        changed |= {"model": held.model[0], "family": held.model[1]}
    made = kind(**(params | changed))
    try:
        with no_warnings():
            made.fit(observed, dictionary=used)
    except OpsplitError as reason:
        raise OpsplitError(f"{source / FILE} does not fit to what is beside it: {reason}") from None
    except (ArithmeticError, IndexError, RuntimeError) as reason:
        raise OpsplitError(f"{source / FILE} is damaged: {reason}") from None
    made.set_params(**params)
    made.understood_ = lines(held.understood)
    made.equation_ = Equation(lines(held.equation))
    made.coefficient_intervals_ = dict(held.intervals)
    made.notes_ = tuple(map(lines, held.notes))
    made._changes = Changes(**vars(held.changes))
    made._like = like(_example(str(raw.get("kind"))[:40], observed), made.observed_, made._changes)
    return made


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Every refusal names the file, or one beside it."""
    try:
        yield
    except OpsplitError as reason:
        named = str(file.parent) in str(reason)
        raise reason if named else OpsplitError(f"{file}: {reason}") from None


def _check(file: Path, held: StoredFit, operators: int, observed: Trajectories) -> None:
    """Refuse numbers that do not go with the dictionary and the frames."""
    found = held.result
    for one in (found.pick, *found.ranked, *found.finalists):
        if not 1 <= len(one.operators) == len(one.strengths):
            raise OpsplitError(f"{file}: every operator needs one strength.")
        if max(one.operators) >= operators:
            raise OpsplitError(f"{file}: the dictionary has {operators} operators.")
    axes = (*held.changes.repeated, *held.changes.turned)
    if max(axes, default=0) >= observed.grid.ndim:
        raise OpsplitError(f"{file}: changes: the frames have {observed.grid.ndim} space axes.")
    if len(held.units.mean) not in (0, len(observed.channels)):
        raise OpsplitError(f"{file}: units: the frames have {len(observed.channels)} channels.")


def _model(splitter: OperatorSplitter) -> tuple[str, str | None] | None:
    """Name and family of the model that `model="auto"` found; None for a model that was named."""
    if splitter.model != AUTO:
        return None
    best = next(iter(splitter.ranking_), None)
    return (DEFAULT_MODEL, None) if best is None else (best.model, best.family)


def _kind(forecast: Any) -> str:
    """Of which kind forecasts are: `numpy.float64`, `torch.float32` or `trajectories`."""
    if isinstance(forecast, np.ndarray):
        return f"numpy.{forecast.dtype.name}"
    return str(forecast.dtype) if isinstance(forecast, Tensor) else "trajectories"


def _example(kind: str, observed: Trajectories) -> Any:
    """Data of a kind; xarray data come back as `Trajectories`."""
    library, _, number = kind.partition(".")
    real = {"float16", "float32", "float64"}
    if library == "numpy":
        return np.zeros(0, number if number in real else "float32")
    if library == "torch":
        return torch.zeros(0, dtype=getattr(torch, number if number in real else "float32"))
    return observed
