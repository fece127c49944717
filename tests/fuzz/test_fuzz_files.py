"""Damaged files of every format end in one sentence; none crashes, hangs or is changed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from fuzzing import Tally, Worker, quota, spoil, spoiled

import opsplit

READERS = {
    # kind: (share of all inputs, other readers of such files)
    "well": (0.1, ("well", "stored", "folder", "several", "threads")),
    "pdebench": (0.11, ()),
    "netcdf": (0.07, ("threads",)),
    "netcdf3": (0.07, ()),
    "npy": (0.08, ("trajectories",)),
    "npz": (0.09, ("trajectories",)),
    "trajectories": (0.07, ("trajectories", "stored")),
    "mat": (0.08, ()),
    "mat73": (0.05, ()),
    "csv": (0.05, ()),
}


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files(
    kind: str, good: dict[str, list[Path]], worker: Worker, tmp_path: Path
) -> None:
    share, others = READERS[kind]
    tally = Tally(kind)
    suffix = good[kind][0].suffix
    file = tmp_path / f"spoiled{suffix}"
    contents = [path.read_bytes() for path in good[kind]]
    refused = lambda: tally.outcomes["refused"]  # noqa: E731
    for number, content in enumerate(spoiled(kind, contents, refused, quota(share))):
        file.write_bytes(content)
        flags = {"dt": 0.1} if kind == "npy" else {}
        tasks = [{"job": "read", "given": str(file), "flags": flags}]
        tasks += [{"job": other, "given": str(file)} for other in others]
        # The first reader sees all files, the others a part.
        task = tasks[0 if number % 3 else number // 3 % len(tasks)]
        answer = worker.ask(task)
        if file.read_bytes() != content or list(tmp_path.iterdir()) != [file]:
            answer = ("failed", "the file or its folder was changed", 0.0, 0.0)
        tally.add(answer, f"{kind} {number}, {task['job']}")
    tally.close()


def test_damaged_stores(good: dict[str, list[Path]], worker: Worker, tmp_path: Path) -> None:
    """Folders of Zarr: headers and chunks, damaged or of another store."""
    pytest.importorskip("zarr")
    draw, tally, wanted = random.Random("zarr"), Tally("zarr"), quota(0.05)
    stores = {
        path: {f.relative_to(path): f.read_bytes() for f in path.rglob("*") if f.is_file()}
        for path in good["zarr"]
    }
    for number in range(4 * wanted):
        if tally.outcomes["refused"] >= wanted:
            break
        files = dict(stores[draw.choice(good["zarr"])])
        for name in draw.sample(sorted(files), draw.choice((1, 1, 2))):
            files[name] = spoil(files[name], draw, draw.choice(list(files.values())))
        store = tmp_path / "spoiled.zarr"
        shutil.rmtree(store, ignore_errors=True)
        for name, content in files.items():
            (store / name).parent.mkdir(parents=True, exist_ok=True)
            (store / name).write_bytes(content)
        answer = worker.ask({"job": "read", "given": str(store)})
        now = {f.relative_to(store): f.read_bytes() for f in store.rglob("*") if f.is_file()}
        if now != files:
            answer = ("failed", "the store was changed", 0.0, 0.0)
        tally.add(answer, f"zarr {number}")
    tally.close()


def point_elsewhere(file: h5py.File, name: str, other: Path, draw: random.Random) -> None:
    """One of the ways to say that the numbers of an array lie in another file."""
    shape = file[name].shape
    del file[name]
    way = draw.randrange(5)
    if way == 0:
        file[name] = h5py.ExternalLink(str(other), "numbers")
    elif way == 1:
        hidden = f"hidden{len(file)}"
        file[hidden] = h5py.ExternalLink(str(other), "numbers")
        file[name] = h5py.SoftLink(f"/{hidden}")
    elif way == 2:
        group = f"group{len(file)}"
        file.create_group(group)["x"] = h5py.ExternalLink(str(other), "/")
        file[name] = h5py.SoftLink(f"/{group}/x/numbers")
    elif way == 3:
        file.create_dataset(name, shape, "f4", external=[(str(other), 0, h5py.h5f.UNLIMITED)])
    else:
        layout = h5py.VirtualLayout(shape, "f4")
        layout[...] = h5py.VirtualSource(str(other), "numbers", shape)
        file.create_virtual_dataset(name, layout)


LINKED = {"well": ["t0_fields/u", "dimensions/time", "scalars/c"], "pdebench": ["tensor"],
          "netcdf": ["u", "time"], "mat73": ["usol", "t"]}  # fmt: skip


@pytest.mark.parametrize("kind", LINKED)
def test_files_that_point_elsewhere(
    kind: str, good: dict[str, list[Path]], worker: Worker, tmp_path: Path
) -> None:
    """Links, external storage and virtual arrays, some of them damaged as well."""
    draw, tally = random.Random(kind), Tally(f"{kind}: links")
    source = good[kind][0]
    other, file = tmp_path / "other.h5", tmp_path / f"linked{source.suffix}"
    with h5py.File(other, "w") as held:
        held["numbers"] = np.full(10_000, 7777.0, dtype="f4")
    for number in range(quota(0.02)):
        file.write_bytes(source.read_bytes())
        with h5py.File(file, "r+") as held:
            for name in draw.sample(LINKED[kind], draw.randint(1, len(LINKED[kind]))):
                if name in held:
                    point_elsewhere(held, name, other, draw)
        if draw.random() < 0.5:
            file.write_bytes(spoil(file.read_bytes(), draw))
        tally.add(worker.ask({"job": "linked", "given": str(file)}), f"{kind} {number}")
    tally.close()


def test_damaged_resume_files(worker: Worker, tmp_path: Path) -> None:
    file, tally = tmp_path / "resume.safetensors", Tally("resume files")
    assert worker.ask({"job": "write resume", "given": str(file)})[0] == "accepted"
    contents = [file.read_bytes()]
    refused = lambda: tally.outcomes["refused"]  # noqa: E731
    for number, content in enumerate(spoiled("resume", contents, refused, quota(0.05))):
        file.write_bytes(content)
        tally.add(worker.ask({"job": "resume", "given": str(file)}), f"resume {number}")
    tally.close()


SETTINGS = b"""
preset = "tiny"
operator = {kind = "spectral", linear = {kind = "symbol"}, nonlinearity = {kind = "polynomial"}}

[encoder]
width = 8
decoder_width = 16

[training]
seed = 3

[training.budget]
steps = 3
validate_every = 2
"""


@pytest.mark.parametrize("name", ["settings.toml", "recipe.toml"])
def test_damaged_settings(name: str, worker: Worker, tmp_path: Path) -> None:
    recipe = Path(opsplit.__file__).parent / "zoo" / "advection-diffusion" / "unet" / "recipe.toml"
    file, tally = tmp_path / name, Tally(f"settings: {name}")
    contents = [SETTINGS if name == "settings.toml" else recipe.read_bytes()]
    file.write_bytes(contents[0])
    assert worker.ask({"job": "settings", "given": str(file)})[:2] == ("accepted", "")
    refused = lambda: tally.outcomes["refused"]  # noqa: E731
    for number, content in enumerate(spoiled(name, contents, refused, quota(0.02))):
        file.write_bytes(content)
        tally.add(worker.ask({"job": "settings", "given": str(file)}), f"{name} {number}")
    tally.close()
