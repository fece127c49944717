"""Saved splitters of strangers: every number has a range, nothing else is read, nothing hangs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.predict.estimator import OperatorSplitter
from opsplit.search import Pursuit
from opsplit.splitting import MOST_SUBSTEPS, split_step


@pytest.fixture(scope="module")
def saved(
    observe: Callable[..., tuple[Tensor, Grid, float]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    u, grid, dt = observe(c=0.5, D=0.3, frames=6, points=64)
    search = Pursuit(max_parts=2, width=4, survivors=2)
    made = OperatorSplitter("advection-diffusion", search).fit(u, dt, grid.extent)
    return made.save(tmp_path_factory.mktemp("saved") / "good")


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "fit"))


def change(folder: Path, *keys: Any, value: Any) -> None:
    """Put a value into the file of a saved splitter, at the end of these keys."""
    file = folder / "splitter.json"
    held = whole = json.loads(file.read_text())
    for key in keys[:-1]:
        held = held[key]
    held[keys[-1]] = value
    file.write_text(json.dumps(whole))


PICK = ("result", "pick")


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("format",), 99),
        (("format",), True),
        (("result",), {}),
        (("parameters",), {"model": "x"}),
        (("parameters",), None),
        # A hundred GB of substeps, and hours of them.
        (("refinement",), 10**9),
        (("refinement",), MOST_SUBSTEPS + 1),
        (("refinement",), 1e999),
        (("units", "time"), 0),
        (("units", "time"), -1.0),
        (("units", "time"), float("nan")),
        (("units", "mean"), [1.0] * 3),
        (("parameters", "device"), "cuda:77"),
        (("parameters", "device"), "evil"),
        (("parameters", "denoise"), "x"),
        (("model",), []),
        ((*PICK, "operators"), [10**6, 10**6]),
        ((*PICK, "operators"), []),
        ((*PICK, "strengths"), [-1.0, -1.0]),
        ((*PICK, "strengths"), [float("nan")] * 2),
        (("result", "finalists"), {}),
        (("result", "cost", "flows"), "x"),
        (("result", "alike"), [["a"]]),
        (("result", "alike"), [["c", ""]]),
        (("intervals",), {"c": [float("nan"), 1]}),
        (("changes",), {"repeated": [5]}),
        (("changes",), {"turned": [1]}),
        (("equation",), 3),
        (("notes",), "abc"),
        (("given",), True),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_is_refused(folder: Path, keys: tuple[Any, ...], value: Any) -> None:
    change(folder, *keys, value=value)
    with pytest.raises(OpsplitError, match="fit"):
        OperatorSplitter.load(folder)


def test_its_words_are_safe_to_print(folder: Path) -> None:
    for keys in (("equation",), ("notes",), (*PICK, "label"), ("result", "status")):
        words = "\x1b]0;evil\x07"
        change(folder, *keys, value=[words] if keys == ("notes",) else words)
    found = OperatorSplitter.load(folder)
    assert "\x1b" not in str(found) + "".join(found.notes_) + found.equation_


@pytest.mark.parametrize("name", ["dictionary", "observed.npz"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, saved: Path, name: str) -> None:
    place = folder / name
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(saved / name)
    with pytest.raises(OpsplitError, match="link out of its folder"):
        OperatorSplitter.load(folder)


@pytest.mark.parametrize("refinement", [0, MOST_SUBSTEPS + 1, 10**9])
def test_substeps_are_limited_wherever_they_come_from(refinement: int) -> None:
    import torch

    flows = [lambda u, h: u] * 2
    with pytest.raises(OpsplitError, match="refinement"):
        split_step(flows, torch.zeros(1, 1, 1, 4), 0.1, refinement=refinement)


@pytest.mark.parametrize("device", ["evil", "cuda:77"])
def test_a_device_that_is_not_there_is_refused(
    observe: Callable[..., tuple[Tensor, Grid, float]], device: str
) -> None:
    u, grid, dt = observe(c=0.5, D=0.3, frames=6, points=64)
    with pytest.raises(OpsplitError, match="device"):
        OperatorSplitter("advection-diffusion", device=device).fit(u, dt, grid.extent)
