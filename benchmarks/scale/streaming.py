"""Peak memory against the size of the data: files of 1, 10 and 50 GB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
from data import PHYSICS
from growth import MEASURED

from opsplit import get_physics

GIGABYTES = (1, 10, 50)
TRAJECTORIES = 8
GOAL_MB = 1500


def run(place: Path, n: int | None) -> dict:
    physics = get_physics(PHYSICS)
    short = physics.generate("A+D", n or TRAJECTORIES, 902)
    found: dict = {}
    for size in GIGABYTES:
        for kind, write in (("hdf5", write_hdf5), ("zarr", write_zarr)):
            folder = place / f"{kind}{size}"
            folder.mkdir()
            logical = write(folder, short, size)
            words = ["predict", str(folder), "--out", str(place / f"out-{kind}{size}"), "--model",
                     PHYSICS, "--start", "0", "--json"]  # fmt: skip
            done = subprocess.run(
                [sys.executable, "-c", MEASURED, json.dumps(words)], capture_output=True,
                text=True, env=os.environ | {"OMP_NUM_THREADS": "1"},
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            lines = [json.loads(line) for line in done.stdout.splitlines()]
            stored = sum(f.stat().st_blocks * 512 for f in folder.rglob("*") if f.is_file())
            found[f"{kind} {size}"] = {
                "gigabytes": logical / 1e9, "stored_gigabytes": stored / 1e9,
                "trajectories": lines[0]["trajectories"], "mb": lines[-1]["mb"],
                "cpu": lines[-1]["cpu"],
            }  # fmt: skip
    return {"files": found}


def frames_of(short, gigabytes: float) -> int:
    per_frame = 4 * short.data[0, 0].numel()
    return int(gigabytes * 1e9 / (len(short.data) * per_frame))


def write_hdf5(folder: Path, short, gigabytes: float) -> int:
    """Two files with holes, which take no room and read as zero."""
    frames, count, logical = frames_of(short, gigabytes), short.data.shape[1], 0
    half = (len(short.data) + 1) // 2
    for number, part in enumerate((short.data[:half], short.data[half:])):
        with h5py.File(folder / f"part{number}.h5", "w") as file:
            shape = (len(part), frames, *part.shape[3:])
            u = file.create_dataset("u", shape, "f4")
            u[:, :count] = part[:, :, 0].numpy()
            file["t"] = np.arange(frames) * short.dt
            file["extent"] = np.asarray(short.grid.extent)
            logical += 4 * int(np.prod(shape))
    return logical


def write_zarr(folder: Path, short, gigabytes: float) -> int:
    """One store that xarray opens; chunks that were never written read as zero."""
    import zarr

    frames, count = frames_of(short, gigabytes), short.data.shape[1]
    n, points = len(short.data), short.data.shape[3]
    store = zarr.open_group(folder / "whole.zarr", mode="w")
    shape = (n, frames, points)
    u = store.create_array(
        "u", shape=shape, dtype="f4", chunks=(1, 4096, points), fill_value=0.0,
        dimension_names=("sample", "time", "x"),
    )  # fmt: skip
    u[:, :count] = short.data[:, :, 0].numpy()
    axes = {"time": np.arange(frames) * short.dt,
            "x": np.arange(points) * short.grid.extent[0] / points}  # fmt: skip
    for name, values in axes.items():
        made = store.create_array(
            name, shape=values.shape, dtype="f8", dimension_names=(name,), chunks=values.shape
        )
        made[:] = values
    zarr.consolidate_metadata(store.store)
    return 4 * int(np.prod(shape))


def section(kept: dict) -> list[str]:
    most = max(one["mb"] for one in kept["files"].values())
    return [
        "## Memory against the size of the data", "",
        "Sparse files: only the first frames of a trajectory are stored, the rest reads as zero. "
        "Two HDF5 files, or one Zarr store. The window of every trajectory is read by itself.", "",
        "| format | gigabytes | on disk | trajectories | peak MB | CPU seconds |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name.split()[0]} | {one['gigabytes']:.1f} | {one['stored_gigabytes']:.3f} | "
            f"{one['trajectories']} | {one['mb']:.0f} | {one['cpu']:.1f} |"
            for name, one in kept["files"].items()
        ), "",
        f"Largest: {most:.0f} MB (goal: below {GOAL_MB}).",
    ]  # fmt: skip
