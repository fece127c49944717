"""Measure methods on the columns of a benchmark; every work item is seeded and kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from opsplit._files import origin, peak_memory_mb
from opsplit.benchmark.methods import METHODS, make_method, make_search
from opsplit.benchmark.tasks import COLUMNS, columns, test_window
from opsplit.dictionary import OperatorDictionary
from opsplit.metrics import nrmse
from opsplit.model import Model, bundled, load_model, locate
from opsplit.physics import get_physics
from opsplit.progress import Progress

WITHOUT_MODEL = ("persistence", "least-squares")
BLOWN_UP = 10.0
"""NRMSE of a forecast that has blown up, although its numbers may still be finite."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table: a method of a family on a column, so many trajectories."""

    physics: str
    column: str
    method: str
    family: str | None
    n: int


def cells(
    physics: str,
    methods: Iterable[str],
    families: Iterable[str],
    n: int,
    n_unet: int,
    chosen: Iterable[str],
) -> list[Cell]:
    """The cells of a run, cheap ones first."""
    out = []
    for method in methods:
        for family in [None] if method in WITHOUT_MODEL else families:
            count = n_unet if family == "unet" else n
            out += [Cell(physics, name, method, family, count) for name in chosen]
    return sorted(out, key=lambda c: (c.family == "unet", c.method in ("uniform", "beam")))


def known_cells(n: int) -> list[Cell]:
    """Every cell that the bundled models make possible, in the order of the tables."""
    held = bundled()
    return [
        Cell(physics, column, method, family, n)
        for physics, named in COLUMNS.items()
        for family in (None, *held.get(physics, []))
        for method in METHODS
        if (family is None) == (method in WITHOUT_MODEL)
        for column in named
    ]


def measure(
    cell: Cell,
    seed: int,
    cache: Path,
    bar: Progress,
    model: str | Path | None = None,
    device: str = "cpu",
    only_measured: bool = False,
) -> dict[str, Any] | None:
    """The record of a cell; trajectories measured before are read from the cache.

    With `only_measured` nothing is run: the record speaks of what is there, if anything.
    """
    column = columns(cell.physics)[cell.column]
    physics = get_physics(cell.physics)
    loaded, mark = None, "none"
    if cell.family is not None:
        folder = locate(model or cell.physics, None if model else cell.family)
        loaded = load_model(folder, cell.family)
        mark = model_mark(folder, loaded, cell.method)
        if cell.method != "direct":
            search = make_search(cell.method, loaded, column.settings.get(cell.method))
            mark += "-" + hashlib.sha256(repr(search).encode()).hexdigest()[:8]
    dictionary = None if loaded is None else evenly(loaded.dictionary, column.operators)
    settings = column.settings.get(cell.method)
    run = make_method(cell.method, physics, loaded, dictionary, device, settings)
    name = "-".join([cell.physics, cell.column, cell.method, cell.family or "none", mark])
    file = cache / f"{name}-seed{seed}.jsonl"
    kept = _read(file)
    missing = [] if only_measured else [i for i in range(cell.n) if i not in kept]
    if missing:
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "a") as stream:
            for done, i in enumerate(missing):
                words = f"{cell.method} {cell.family or ''} {cell.column}"
                bar.update(done / len(missing), f"{words} {i + 1}/{cell.n}")
                one, future = test_window(column, i, seed, cache / "windows")
                outcome = run(one, column.horizon, seed + i)
                error = float(nrmse(outcome.frames[None], future.data))
                true = {k: float(v[0]) for k, v in one.coefficients.items()}
                kept[i] = {
                    "trajectory": i,
                    "nrmse": error,
                    "nrmse_per_channel": {
                        name: float(nrmse(outcome.frames[None, :, [c]], future.data[:, :, [c]]))
                        for c, name in enumerate(one.channels)
                    },
                    "fit_error": outcome.fit_error,
                    "absolute_error": {
                        k: abs(v - true[k]) for k, v in outcome.coefficients.items() if k in true
                    },
                    "evaluations": outcome.evaluations,
                    "seconds": outcome.seconds,
                    "peak_memory_mb": peak_memory_mb(),
                    **origin(seed, device),
                }
                stream.write(json.dumps(kept[i]) + "\n")
                stream.flush()
    rows = [kept[i] for i in range(cell.n) if i in kept]
    return _record(cell, rows, column.published.get(cell.method), loaded) if rows else None


def model_mark(folder: Path, model: Model, method: str) -> str:
    """What of a model decides a method's results: searches never ask the encoder."""
    config, disco = model.config, model.disco
    digest = hashlib.sha256(json.dumps([config.operator, config.scale, config.rescale]).encode())
    for part in (disco.decoder, disco.encoder) if method == "direct" else (disco.decoder,):
        for name, tensor in part.state_dict().items():
            digest.update(name.encode() + tensor.numpy().tobytes())
    if method != "direct":
        for name in ("dictionary.safetensors", "dictionary.json"):
            digest.update((folder / name).read_bytes())
    return digest.hexdigest()[:16]


def evenly(dictionary: OperatorDictionary, n: int | None) -> OperatorDictionary:
    """Every so-manyth operator, up to the last, so that `n` are left."""
    if n is None or n >= len(dictionary):
        return dictionary
    stride = len(dictionary) // n
    return dictionary.select(range(stride - 1, len(dictionary), stride))


def _read(file: Path) -> dict[int, dict[str, Any]]:
    """Trajectories measured before; a line cut short by a kill is left out."""
    kept: dict[int, dict[str, Any]] = {}
    if file.exists():
        lines = file.read_text().splitlines()
        for line in lines:
            try:
                row = json.loads(line)
                kept[row["trajectory"]] = row
            except (json.JSONDecodeError, KeyError):
                continue
        if len(kept) == len(lines):
            return kept
        whole = "".join(json.dumps(row) + "\n" for row in kept.values())
        partial = file.with_name(file.name + ".part")
        partial.write_text(whole)
        os.replace(partial, file)
    return kept


def _record(
    cell: Cell, rows: list[dict[str, Any]], published: float | None, model: Model | None
) -> dict[str, Any]:
    errors = torch.tensor([row["nrmse"] for row in rows], dtype=torch.float64)
    # A forecast that blows up is as good as none: forecasting zero scores one.
    blown = ~(errors <= BLOWN_UP)
    errors[blown] = 1.0

    def mean(values: list[float]) -> float | None:
        return sum(values) / len(values) if values else None

    names = rows[0]["absolute_error"]
    fits = [row["fit_error"] for row in rows if row["fit_error"] is not None]
    return {
        "physics": cell.physics,
        "column": cell.column,
        "method": cell.method,
        "family": cell.family,
        "nrmse": float(errors.mean()),
        "standard_error": float(errors.std() / len(rows) ** 0.5) if len(rows) > 1 else None,
        "median": float(errors.median()),
        "nrmse_per_channel": {
            name: mean([r["nrmse_per_channel"][name] for r in rows])
            for name in rows[0].get("nrmse_per_channel", {})
            if len(rows[0]["nrmse_per_channel"]) > 1
        },
        "largest": float(errors.max()),
        "n": len(rows),
        "diverged": int(blown.sum()),
        "errors": {
            str(row["trajectory"]): float(f"{e:.5g}")
            for row, e in zip(rows, errors.tolist(), strict=True)
        },
        "published": published,
        "coefficient_mae": {k: mean([r["absolute_error"][k] for r in rows]) for k in names},
        "fit_error": mean(fits),
        "seconds_per_trajectory": mean([row["seconds"] for row in rows]),
        "operator_evaluations": mean([float(row["evaluations"]) for row in rows]),
        "peak_memory_mb": max((r.get("peak_memory_mb") or 0 for r in rows), default=0) or None,
        "training_minutes": sum(run["minutes"] for run in _trainings(model)) or None,
        "training_command": "; ".join(r["command"] for r in _trainings(model)) or None,
        **{k: rows[-1][k] for k in ("command", "seed", "commit", "hardware")},
    }


def _trainings(model: Model | None) -> list[dict[str, Any]]:
    """Every training a model went through, the first one first."""
    if model is None or "command" not in model.metrics:
        return []
    return [*model.metrics.get("before", []), model.metrics]
