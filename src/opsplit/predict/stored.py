"""A fitted splitter in a folder: arrays, JSON and safetensors, no pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from opsplit._files import inside, read_json, write_json
from opsplit._version import __version__
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError, no_warnings
from opsplit.io.recording import Changes
from opsplit.model import AUTO, DEFAULT_MODEL, Model
from opsplit.predict.equations import Equation
from opsplit.predict.kinds import like
from opsplit.predict.replay import Replay
from opsplit.predict.units import Units
from opsplit.search import Composition, SearchResult, Strategy, get_search
from opsplit.search.result import Cost
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
    held = read_json(inside(source, FILE))
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise OpsplitError(f"{source} is not a folder of `OperatorSplitter.save`.")
    try:
        params = dict(held["parameters"])
        if params["model"] is None:
            params["model"] = source / "model"
        params["search"] = Strategy.from_json(params["search"], f"{source}: search")
        result = _result(held["result"], OperatorDictionary.load(source / "dictionary"))
        units = Units(**(held["units"] | {"mean": tuple(held["units"]["mean"])}))
        replay = Replay.of(params["search"], result, units)
        known = {"search": replay, "refinement": int(held["refinement"])}
        if held["model"] is not None:
            known |= {"model": str(held["model"][0]), "family": held["model"][1]}
        made = kind(**(params | known))
        observed = Trajectories.load(inside(source, "observed.npz"))
        used = OperatorDictionary.load(source / "given") if held["given"] else None
        with no_warnings():
            made.fit(observed, dictionary=used)
        made.set_params(**params)
        made.understood_ = str(held["understood"])
        made.equation_ = Equation(held["equation"])
        made.coefficient_intervals_ = {
            str(k): (float(low), float(high)) for k, (low, high) in held["intervals"].items()
        }
        made.notes_ = tuple(map(str, held["notes"]))
        changes = {k: tuple(map(int, v)) for k, v in held.get("changes", {}).items()}
        made._changes = Changes(**changes)
        example = _example(str(held["kind"]), observed)
        made._like = like(example, made.observed_, made._changes)
    except (KeyError, TypeError, ValueError, AttributeError) as reason:
        raise OpsplitError(f"{source / FILE} is damaged: {reason}") from None
    return made


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


def _composition(raw: Mapping[str, Any]) -> Composition:
    error, free = raw["fit_error"], raw["free_run_error"]
    return Composition(
        tuple(map(int, raw["operators"])),
        tuple(map(float, raw["strengths"])),
        float("inf") if error is None else float(error),
        {str(k): float(v) for k, v in raw["coefficients"].items()},
        str(raw["label"]),
        None if free is None else float(free),
    )


def _result(raw: Mapping[str, Any], operators: OperatorDictionary) -> SearchResult:
    pick = _composition(raw["pick"])

    def each(name: str) -> tuple[Composition, ...]:
        found = [_composition(one) for one in raw[name]]
        # The pick is known by identity.
        return tuple(pick if one == pick else one for one in found)

    spent = raw["cost"]
    return SearchResult(
        str(raw["strategy"]),
        pick,
        each("ranked"),
        each("finalists"),
        str(raw["status"]),
        Cost(spent["flows"], spent["evaluations"], spent["seconds"], raw["evaluation_flops"]),
        {str(k): float(v) for k, v in raw["spread"].items()},
        operators,
        tuple((str(one), str(other)) for one, other in raw["alike"]),
        str(raw["remark"]),
    )
