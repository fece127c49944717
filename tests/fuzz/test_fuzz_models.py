"""Damaged models and saved splitters: bytes, and JSON that is JSON but says something else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fuzzing import Tally, Worker, quota, spoiled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SPLITTER = "splitter.json"
FILES = {
    "config.json": 0.03,
    "dictionary.json": 0.03,
    "calibration.json": 0.02,
    "metrics.json": 0.01,
    "model.safetensors": 0.04,
    "dictionary.safetensors": 0.04,
    SPLITTER: 0.01,
}


def contents(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def check(tally: Tally, worker: Worker, folder: Path, name: str, content: bytes, what: str) -> None:
    (folder / name).write_bytes(content)
    before = contents(folder)
    answer = worker.ask({"job": folder.name, "given": str(folder)})
    if contents(folder) != before:
        answer = ("failed", "the folder was changed", 0.0, 0.0)
    tally.add(answer, f"{what} {content[:4000]!r}" if name.endswith("json") else what)


@pytest.fixture
def copied(name: str, small_folder: Path, small_splitter: Path, tmp_path: Path) -> Path:
    """A copy of the folder with a file of that name; it is called after what it holds."""
    what, given = ("model", small_folder)
    if name == SPLITTER:
        what, given = ("splitter", small_splitter)
    return Path(shutil.copytree(given, tmp_path / what))


@pytest.mark.parametrize("name", FILES)
def test_damaged_bytes(name: str, copied: Path, worker: Worker) -> None:
    folder, content = copied, (copied / name).read_bytes()
    tally = Tally(f"{folder.name}: {name}, bytes")
    refused = lambda: tally.outcomes["refused"]  # noqa: E731
    for number, bad in enumerate(spoiled(name, [content], refused, quota(FILES[name]))):
        check(tally, worker, folder, name, bad, f"{name} {number}")
    tally.close()


OPERATORS: list[dict[str, Any]] = [
    {"kind": "unet", "width": 512, "ndim": 3},
    {"kind": "unet", "width": 256},
    {"kind": "polynomial", "degree": 8, "derivatives": True, "inverse": True},
    {"kind": "flux-stencil", "points": 64, "flux_products": 1024},
    {"kind": "shifted-stages", "operator": {"kind": "shifted-stages"}},
    {"kind": "potential-inputs", "operator": {"kind": "unet", "channels": 64, "ndim": 3}},
    {"kind": "homogeneous", "degree": "learned"},
    {"kind": "standardised", "centre": [0.0] * 256},
]
"""Parts that are well written, but large, or not of this model."""

JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2000)
    | st.integers()
    | st.sampled_from([10**9, 2**31, 2**63, 10**30, 10**400])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["spectral", "unet", "linear", "periodic", "zero", "u", "../../etc"])
    | st.sampled_from(OPERATORS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
SHARES = {"config.json": 0.08, "dictionary.json": 0.06, "calibration.json": 0.04, SPLITTER: 0.03}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a value can be put: the whole, and everything inside."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path] + [
        place for key, held in list(inner)[:40] for place in places(held, (*path, key))
    ]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = put(copy[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("name", SHARES)
def test_other_values(name: str, copied: Path, worker: Worker) -> None:
    folder = copied
    tally = Tally(f"{folder.name}: {name}, values")
    whole = json.loads((folder / name).read_text())
    where = places(whole)

    @settings(
        max_examples=quota(SHARES[name] * 1.2), deadline=None, database=None,
        derandomize=True, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.lists(st.tuples(st.sampled_from(where), JUNK), min_size=1, max_size=2))
    def try_values(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
        new = whole
        for path, value in changes:
            try:
                new = put(new, path, value)
            except (KeyError, IndexError, TypeError):
                continue  # The first change took away the place of the second.
        text = json.dumps(new).encode()
        check(tally, worker, folder, name, text, "values")

    try_values()
    tally.close()
