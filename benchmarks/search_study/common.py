"""What all parts share: lines on disk, test windows, searches and forecasts in batches."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from opsplit import Model, Trajectories, load_model
from opsplit._origin import origin
from opsplit.benchmark.run import BLOWN_UP
from opsplit.benchmark.tasks import columns, test_windows
from opsplit.commands.common import fingerprint
from opsplit.dictionary import OperatorDictionary, Part
from opsplit.metrics import nrmse
from opsplit.model import locate
from opsplit.physics import AdvectionDiffusion
from opsplit.progress import Progress
from opsplit.search import Composition, Objective, SearchResult, Strategy

NAME = "advection-diffusion"
PHYSICS = AdvectionDiffusion()
COLUMNS = columns(NAME)
RESULTS = Path(__file__).parents[2] / "docs" / "results"

Row = dict[str, Any]
Item = tuple[Row, Callable[[], Row]]
"""What names a piece of work, and the work; it returns nothing if it was left out."""


@cache
def model() -> Model:
    return load_model(NAME, "spectral")


@cache
def mark() -> str:
    """Changes with the model's weights, so that no result outlives them."""
    folder = locate(NAME, "spectral")
    return fingerprint(folder / "model.safetensors", folder / "dictionary.safetensors")


# Lines on disk.


def run_items(part: str, args: argparse.Namespace, items: Iterable[Item]) -> None:
    """Do the work that has no line yet in `PART.jsonl`; a line counts for its n, seed and model."""
    file = args.out / f"{part}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = {json.dumps(row["item"]): row for row in read_rows(part, args.out)}
    todo = list(items)
    with Progress(part, every=10.0) as bar:
        for done, (item, work) in enumerate(todo):
            key, n = json.dumps(item), args.n
            words = " ".join(str(v) for v in item.values())
            before = None if args.force else kept.get(key)
            if before and (before["n"], before["seed"], before["model"]) == (n, args.seed, mark()):
                continue
            bar.update(done / len(todo), words)
            found = work()
            if not found:
                continue
            kept[key] = {
                "item": item,
                "n": n,
                **found,
                "model": mark(),
                "threads": torch.get_num_threads(),
                **origin(args.seed, program="python benchmarks/search_study"),
            }
            whole = "".join(json.dumps(row) + "\n" for row in kept.values())
            partial = file.with_name(file.name + ".part")
            partial.write_text(whole)
            os.replace(partial, file)
            print(f"{part}: {words}: {shown(kept[key])}", flush=True)


def read_rows(part: str, folder: Path) -> list[Row]:
    """All lines of a part; none if it was never run."""
    file = folder / f"{part}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def shown(row: Row) -> str:
    """The plain numbers of a line."""
    skipped = ("n", "seed", "threads")
    return ", ".join(
        f"{k} {v:.4g}"
        for k, v in row.items()
        if isinstance(v, (int, float)) and k not in skipped and not isinstance(v, bool)
    )


# Windows, searches, forecasts.


def windows(column: str, n: int, seed: int) -> tuple[Trajectories, Tensor]:
    """Observed windows of a test column and the frames `(n, time, channel, x)` that follow."""
    observed, future = test_windows(COLUMNS[column], n, seed)
    return observed, future.data


def unit(frames: Tensor) -> Tensor:
    """Size of every window `(n, 1, 1, 1)`; searches see windows divided by it."""
    return frames.flatten(1).std(1)[:, None, None, None]


def objective(
    frames: Tensor, dictionary: OperatorDictionary | None = None, memory_mb: float = 256.0
) -> Objective:
    """One objective for all windows `(n, time, channel, x)`."""
    chosen = model().dictionary if dictionary is None else dictionary
    return Objective(chosen, frames / unit(frames), PHYSICS.grid, PHYSICS.dt, memory_mb=memory_mb)


def search(
    strategy: Strategy, frames: Tensor, dictionary: OperatorDictionary | None = None
) -> tuple[Objective, list[SearchResult]]:
    """Search all windows in shared calls."""
    made = objective(frames, dictionary)
    return made, strategy.run_all(made)


def forecast(made: Objective, picks: list[Composition], steps: int) -> Tensor:
    """`opsplit.predict.rollout` of every window from its last frame, in shared calls.

    Frames `(n, steps, channel, x)` in units of the windows.
    """
    out = made.windows.new_empty(len(picks), steps, *made.windows.shape[2:])
    for size in {len(p) for p in picks}:
        mine = [i for i, p in enumerate(picks) if len(p) == size]
        sets = torch.tensor([picks[i].operators for i in mine])
        strengths = torch.tensor([picks[i].strengths for i in mine], dtype=torch.float64)
        u = made.windows[mine, -1:]
        for step in range(steps):
            u = made.step(sets, u, strengths)
            out[mine, step] = u[:, 0]
    return out


def direct(frames: Tensor, steps: int) -> Tensor:
    """Forecasts with the operator that the hypernetwork itself reads from each window."""
    disco = model().disco
    with torch.no_grad():
        codes = disco.encode(frames)
    one_each = OperatorDictionary((Part(disco.family, codes, disco.decoder, disco.config.scale),))
    made = objective(frames, one_each)
    picks = [Composition((i,), (1.0,), 0.0, {}, "") for i in range(len(frames))]
    return forecast(made, picks, steps) * unit(frames)


def measured(
    strategy: Strategy,
    frames: Tensor,
    future: Tensor,
    truth: dict[str, Tensor],
    dictionary: OperatorDictionary | None = None,
) -> Row:
    """Search, forecast and compare, all windows together."""
    made, results = search(strategy, frames, dictionary)
    picks, size = [r.pick for r in results], unit(frames)
    predicted = forecast(made, picks, future.shape[1]) * size
    found = {k: torch.tensor([r.identified[k] for r in results]) for k in truth}
    n = len(frames)
    own = {k: torch.tensor([p.coefficients[k] for p in picks]) for k in truth}
    return {
        **errors(predicted, future, found, truth),
        **{f"{k}_mae_of_pick": float((own[k] - truth[k]).abs().mean()) for k in truth},
        "fit_error": sum(p.fit_error for p in picks) / n,
        "parts": sum(len(p) for p in picks) / n,
        "evaluations": results[0].cost.evaluations / n,
        "seconds": results[0].cost.seconds / n,
        "settings": repr(strategy),
    }


def errors(
    predicted: Tensor,
    future: Tensor,
    found: dict[str, Tensor] | None = None,
    truth: dict[str, Tensor] | None = None,
) -> Row:
    """Mean and median NRMSE, and coefficient errors; a forecast that blows up counts as 1."""
    each = nrmse(predicted.double(), future.double())
    blown = ~(each <= BLOWN_UP)
    each[blown] = 1.0
    row: Row = {
        "nrmse": float(each.mean()),
        "median": float(each.quantile(0.5)),
        "standard_error": float(each.std() / len(each) ** 0.5) if len(each) > 1 else None,
        "diverged": int(blown.sum()),
    }
    for name, values in (found or {}).items():
        row[f"{name}_mean"] = float(values.double().mean())
        if truth is not None:
            row[f"{name}_mae"] = float((values.double() - truth[name].double()).abs().mean())
    return row


def exact_forecast(start: Tensor, found: dict[str, Tensor], steps: int) -> Tensor:
    """The exact solver from `start` `(n, channel, x)`; diffusion that is negative counts as 0."""
    times = torch.arange(1, steps + 1, dtype=torch.float64) * PHYSICS.dt
    held = {"c": found["c"].double(), "D": found["D"].double().clamp_min(0)}
    return PHYSICS.solve(start.double(), held, times).float()
