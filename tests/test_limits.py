"""Models of strangers: sizes are refused wherever they are read, and before they are taken."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.model import Model
from opsplit.operators import Spectral
from opsplit.operators.family import steps_of


def changed(folder: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    held = json.loads((folder / name).read_text())
    change(held)
    (folder / name).write_text(json.dumps(held))


def test_a_training_grid_has_a_size(tiny_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    changed(folder, "config.json", lambda c: c["grid"].update(shape=[2**26]))
    with pytest.raises(OpsplitError, match="more than 16777216 points"):
        Model.load(folder)


def test_steps_of_an_operator_have_a_number(tiny_folder: Path, tmp_path: Path) -> None:
    """A configuration was checked, a dictionary with the same setting was not."""
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))

    def tiny(facts: dict[str, Any]) -> None:
        family = facts["parts"][0]["family"]
        while "operator" in family:
            family = family["operator"]
        family["max_step"] = 1e-9

    changed(folder, "dictionary.json", tiny)
    dictionary = Model.load(folder).dictionary
    grid = Grid((32,), (16.0,))
    u = torch.zeros(1, 1, 1, 32)
    began = time.process_time()
    with pytest.raises(OpsplitError, match="at most 100000 are made"):
        dictionary.prepare(grid, u).flow(torch.tensor([0]), u, 0.1)
    assert time.process_time() - began < 5
    assert steps_of(1.0, 0.1) == 10
    assert Spectral(max_step=1e-9).max_step == 1e-9


@pytest.mark.parametrize("parts", [1, 4])
def test_operators_are_counted_over_all_parts(
    tiny_folder: Path, tmp_path: Path, parts: int
) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    n, each = 120_000, 120_000 // parts
    tensors = load_file(folder / "dictionary.safetensors")
    codes = next(iter(tensors.values()))
    save_file(
        {f"part{i}.codes": torch.zeros(each, codes.shape[1]) for i in range(parts)},
        folder / "dictionary.safetensors",
    )

    def many(facts: dict[str, Any]) -> None:
        facts["parts"] *= parts
        facts["provenance"] = ["a"] * (n if parts == 1 else 100_000)
        facts["max_strengths"] = []
        facts["coefficients"] = {}

    changed(folder, "dictionary.json", many)
    began = time.process_time()
    with pytest.raises(OpsplitError, match="100000"):
        Model.load(folder)
    assert time.process_time() - began < 10


def test_operators_that_do_not_fit_into_memory(
    monkeypatch: pytest.MonkeyPatch, exact: Callable[..., OperatorDictionary]
) -> None:
    dictionary = exact([0.1, 0.2], [0.3])
    monkeypatch.setattr("opsplit._memory.room", lambda: 1e4)
    with pytest.raises(OpsplitError, match="3 operators on 4096 points takes"):
        dictionary.prepare(Grid((4096,), (1.0,)), torch.zeros(1))
