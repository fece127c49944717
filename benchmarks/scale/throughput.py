"""Windows per second: one by one, in shared calls, and with two workers."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

import torch
from data import PHYSICS

from opsplit import (
    OperatorSplitter,
    OpsplitWarning,
    Trajectories,
    fit_many,
    get_physics,
    load_model,
)
from opsplit.parallel import Where, run_items
from opsplit.predict.door import observe
from opsplit.predict.many import fit_parts

SIZES = (1, 16, 256, 4096)
ALONE = 24
"""Windows that are fitted one by one."""
MOST = 4096
GROUP = 64
"""Windows of one work item."""


def run(place: Path, n: int | None) -> dict:
    warnings.simplefilter("ignore", OpsplitWarning)
    sizes = [size for size in SIZES if size <= (n or MOST)]
    data = get_physics(PHYSICS).generate("A+D", max(sizes), 901)
    u, dt, extent = data.data[:, :16].clone(), data.dt, data.grid.extent
    del data
    torch.set_num_threads(1)
    like = OperatorSplitter(load_model(PHYSICS))
    OperatorSplitter(like.model).fit(u[0], dt, extent)
    cpu, began = time.process_time(), time.monotonic()
    for frames in u[:ALONE]:
        OperatorSplitter(like.model).fit(frames, dt, extent)
    count = min(ALONE, len(u))
    alone = {"cpu": (time.process_time() - cpu) / count, "wall": (time.monotonic() - began) / count}
    together, two = {}, {}
    for size in sizes:
        cpu, began = time.process_time(), time.monotonic()
        found = fit_many(u[:size], dt, extent, like)
        assert len(found) == size
        together[size] = {
            "cpu": (time.process_time() - cpu) / size, "wall": (time.monotonic() - began) / size,
        }  # fmt: skip
    for workers in (1, 2):
        where = Where(workers=workers) if workers > 1 else Where()
        # A view would be pickled with all of its storage.
        items = [(u[i : i + GROUP].clone(), dt, extent) for i in range(0, len(u), GROUP)]
        two[workers] = spread(items, like, where)
    return {"alone": alone, "together": together, "workers": two}


def spread(items: list, like: OperatorSplitter, where: Where) -> dict:
    """Seconds per window once all workers are busy: from a quarter of the items on."""
    windows, cpu, began, first = 0, 0.0, 0.0, 0
    for done, outcome in enumerate(run_items(fit_group, items, like, where), 1):
        assert outcome.value is not None, outcome.reason
        count, seconds = outcome.value
        windows, cpu = windows + count, cpu + seconds
        if done == max(1, len(items) // 4):
            began, first = time.monotonic(), windows
    wall = (time.monotonic() - began) / max(1, windows - first)
    return {"wall": wall, "cpu": cpu / windows}


def fit_group(like: OperatorSplitter, item: tuple) -> tuple[int, float]:
    """How many windows were fitted, and in how many CPU seconds."""
    u, dt, extent = item
    cpu = time.process_time()
    observed = Trajectories.from_numpy(u, dt=dt, extent=extent)
    whole = observe(observed, like.model.config)
    fits = fit_parts([whole.part([i]) for i in range(len(u))], like.model, like)
    assert all(isinstance(fit, OperatorSplitter) for fit in fits)
    return len(fits), time.process_time() - cpu


def section(kept: dict) -> list[str]:
    alone, together, two = kept["alone"], kept["together"], kept["workers"]
    efficiency = two["1"]["wall"] / (2 * two["2"]["wall"])
    lines = [
        "## Windows per second", "",
        "Advection-diffusion, 256 points, 16 frames, the bundled model, one thread per process. "
        "CPU time does not depend on what else the machine does, wall time does.", "",
        "| fits | CPU milliseconds per window | wall milliseconds | windows per second of CPU | "
        "over one by one |", "|---|---|---|---|---|",
        f"| one by one | {1e3 * alone['cpu']:.1f} | {1e3 * alone['wall']:.1f} | "
        f"{1 / alone['cpu']:.1f} | 1 |",
    ]  # fmt: skip
    for size, one in together.items():
        lines.append(
            f"| {int(size):,} in one call | {1e3 * one['cpu']:.1f} | {1e3 * one['wall']:.1f} | "
            f"{1 / one['cpu']:.1f} | {alone['cpu'] / one['cpu']:.2f} |"
        )
    cores = 2 * alone["cpu"] / two["2"]["cpu"]
    times = alone["cpu"] / together["256"]["cpu"]
    return [
        *lines, "",
        f"All windows in groups of {GROUP}: {1e3 * two['1']['wall']:.1f} ms of wall time a window "
        f"in one process, {1e3 * two['2']['wall']:.1f} with two workers: an efficiency of "
        f"{100 * efficiency:.0f} % (goal: 85), with whatever else the machine did. In CPU time a "
        f"window costs {1e3 * two['1']['cpu']:.1f} and {1e3 * two['2']['cpu']:.1f} ms: an "
        f"efficiency of {100 * two['1']['cpu'] / two['2']['cpu']:.0f} %. Two cores of their own "
        f"make {cores:.1f} times the windows per second of one-by-one fits.",
        "Goals for 256 windows in one call: 20 ms of CPU time each, and five times the windows per "
        f"second of one-by-one fits, on one core: {times:.2f} times.",
    ]  # fmt: skip
