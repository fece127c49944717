"""Several files of one system, read as one recording."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made import field

import opsplit
from opsplit.errors import OpsplitError


def store(folder: Path, name: str, u: np.ndarray, **more: Any) -> Path:
    folder.mkdir(exist_ok=True)
    np.savez(folder / name, u=u, **({"dt": 0.1, "extent": 4.0} | more))
    return folder / name


@pytest.mark.parametrize("as_list", [False, True])
def test_a_folder_of_runs_is_one_recording(tmp_path: Path, as_list: bool) -> None:
    runs = [field(7, 1, 16), field(9, 1, 16), field(9, 1, 16)]
    known = [{"D": 0.5}, {"D": 0.7}, {"r": 2.0}]
    place = tmp_path / "runs"
    files = [
        store(place, f"{i}.npz", u, **c) for i, (u, c) in enumerate(zip(runs, known, strict=True))
    ]
    (place / "notes.md").write_text("not a field")
    found = opsplit.read(files if as_list else place)
    assert found.shape == (3, 7, 1, 16) and found.known >= {"dt", "extent"}
    for i, u in enumerate(runs):
        np.testing.assert_array_equal(found.frames(i), u[:7])
        np.testing.assert_array_equal(found.part([i], slice(1, 5)).frames(), u[1:5])
    assert found.coefficients["D"].tolist() == [0.5, 0.7, 0.0]
    assert found.coefficients["r"].tolist() == [0.0, 0.0, 2.0]
    assert "Trajectories of 3 files, one after the other." in found.understood
    assert "taken as 0" in " ".join(found.understood)


@pytest.mark.parametrize(
    "points, more, reason",
    [
        (24, {}, "their grids differ"),
        (16, {"extent": 5.0}, "their grids differ"),
        (16, {"dt": 0.2}, "the times between frames differ, 0.1 and 0.2"),
        (16, {"terms": '{"D": "u_xxxx"}'}, "the terms of D differ, u_xx and u_xxxx"),
    ],
)
def test_files_of_different_systems_are_refused(
    tmp_path: Path, points: int, more: dict[str, Any], reason: str
) -> None:
    store(tmp_path, "a.npz", field(7, 1, 16), D=0.5, terms='{"D": "u_xx"}')
    store(tmp_path, "b.npz", field(7, 1, points), **more)
    with pytest.raises(OpsplitError, match=f"a.npz and .*b.npz do not belong together: {reason}"):
        opsplit.read(tmp_path)


def test_what_the_system_puts_beside_files_is_not_read(tmp_path: Path) -> None:
    store(tmp_path, "a.npz", field(7, 1, 16))
    (tmp_path / "._a.npz").write_bytes(b"\0\5\x16\7")
    assert opsplit.read(tmp_path).shape == (1, 7, 1, 16)


def test_coefficients_of_all_files_are_counted_together(tmp_path: Path) -> None:
    for i in range(40):
        known = {f"k{i}_{j}": 1.0 for j in range(20)}
        np.savez_compressed(tmp_path / f"{i}.npz", u=np.zeros((400, 2, 4)), dt=0.1, **known)
    with pytest.raises(OpsplitError, match="coefficients of all trajectories claims 12800000"):
        opsplit.read(tmp_path, axes="n,t,x")


def test_memory_does_not_grow_with_the_number_of_files(tmp_path: Path) -> None:
    for i in range(6):
        np.savez_compressed(tmp_path / f"{i}.npz", u=np.full((100, 10_000), float(i)), dt=0.1)
    tracemalloc.start()
    try:
        found = opsplit.read(tmp_path)
        assert [found.frames(i, slice(0, 1)).max() for i in range(6)] == list(range(6))
        assert tracemalloc.get_traced_memory()[1] < 4 * 8 * 10**6
    finally:
        tracemalloc.stop()


def test_a_file_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        store(tmp_path, name, field(7, 1, 16))
    found = opsplit.read(tmp_path)
    store(tmp_path, "b.npz", field(5, 1, 16))
    with pytest.raises(OpsplitError, match="was changed while it was read"):
        found.frames(1)
