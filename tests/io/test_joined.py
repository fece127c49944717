"""Several files of one system, read as one recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made import field

import opsplit
from opsplit.errors import OpsplitError


def store(folder: Path, name: str, u: np.ndarray, **more: float) -> Path:
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
    ],
)
def test_files_of_different_systems_are_refused(
    tmp_path: Path, points: int, more: dict[str, float], reason: str
) -> None:
    store(tmp_path, "a.npz", field(7, 1, 16))
    store(tmp_path, "b.npz", field(7, 1, points), **more)
    with pytest.raises(OpsplitError, match=f"a.npz and .*b.npz do not belong together: {reason}"):
        opsplit.read(tmp_path)
