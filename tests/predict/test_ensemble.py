"""Many trajectories of many files: one table that no number of workers and no stop changes."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import pytest
from torch import Tensor

from opsplit.cli import main
from opsplit.errors import OpsplitError
from opsplit.grid import Grid
from opsplit.io.read import read
from opsplit.parallel import Outcome
from opsplit.predict.ensemble import (
    FAILED,
    Ensemble,
    Item,
    data_files,
    forecast_name,
    items_together,
    rows_of,
    window_of,
)
from opsplit.predict.estimator import OperatorSplitter
from opsplit.report.table import write_table

Observe = Callable[..., tuple[Tensor, Grid, float]]
FLAGS = "--strategy beam --width 2 --max-parts 1 --window 8 --steps 4"


@pytest.fixture(scope="module")
def folder(observe: Observe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of three trajectories, one that cannot be read, and one of a single trajectory."""
    place = tmp_path_factory.mktemp("ensemble") / "runs"
    (place / "deep").mkdir(parents=True)
    for number in range(2):
        windows = [observe(0.5, 0.3, 12, 64, seed=3 * number + i) for i in range(3)]
        u = np.stack([w.numpy() for w, _, _ in windows])
        np.savez(place / f"r{number}.npz", u=u, dt=windows[0][2], extent=[16.0])
    one = observe(0.2, 0.1, 12, 64, seed=9)
    np.savez(place / "deep" / "one.npz", u=one[0][:, 0].numpy(), dt=one[2], extent=[16.0])
    (place / "broken.npz").write_bytes(b"PK\x03\x04 nothing")
    return place


@pytest.fixture
def run(
    tiny_folder: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], int | str | None]:
    monkeypatch.chdir(folder.parent)

    def call(line: str) -> int | str | None:
        try:
            main([*f"{line} {FLAGS} --model {tiny_folder}".split()])
        except SystemExit as end:
            return end.code
        return 0

    return call


Run = Callable[[str], Any]


def rows(place: Path) -> list[dict[str, Any]]:
    lines = (place / "rows.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return sorted(({**row, "seconds": None} for row in found), key=lambda row: row["item"])


def test_every_trajectory_has_a_row_and_a_run_that_was_cut_goes_on(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder.parent / "out"
    assert run("predict runs --out out") == 1
    said = capsys.readouterr().out
    assert "8 trajectories (8 now)" in said and "runs/broken.npz cannot be read" in said
    whole = rows(out)
    assert [row["item"] for row in whole] == [
        "runs/broken.npz",
        "runs/deep/one.npz#0",
        *(f"runs/r{i}.npz#{j}" for i in (0, 1) for j in range(3)),
    ]
    assert [row["status"] == "failed" for row in whole] == [True, *[False] * 7]
    page = (out / "report.html").read_text()
    assert all(f'href="forecasts/{path.name}"' in page for path in (out / "forecasts").iterdir())
    assert len(list((out / "forecasts").iterdir())) == 7
    again = read(out / "forecasts" / whole[1]["forecast"])
    assert again.shape == (1, 4, 1, 64)
    # The same command after a stop in the middle of a row makes the rest and nothing twice.
    journal = out / "rows.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:3]) + lines[3][:30])
    assert run("predict runs --out out") == 1
    # Rows that failed are tried again: the file of the first may be whole by now.
    assert "8 trajectories (6 now)" in capsys.readouterr().out
    assert rows(out) == whole
    assert run("predict runs --out out --seed 1") == 2
    assert "not from this command (seed 0, not 1)" in capsys.readouterr().err


def test_a_disk_that_was_full_leaves_rows_that_are_made_by_the_same_command(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    line = f"predict runs/r0.npz runs/r1.npz --out {tmp_path}/out"
    with monkeypatch.context() as patch:
        patch.setattr("opsplit.predict.ensemble.write_forecast", full)
        assert run(line) == 1
    failed = rows(tmp_path / "out")
    assert len(failed) == 6 and all("No space left" in row["reason"] for row in failed)
    assert run(line) == 0
    healed = rows(tmp_path / "out")
    assert [row["item"] for row in healed] == [row["item"] for row in failed]
    assert not any(row["reason"] for row in healed)
    assert len(list((tmp_path / "out" / "forecasts").iterdir())) == 6
    # Once more there is nothing to do.
    before = (tmp_path / "out" / "rows.jsonl").read_bytes()
    assert run(line) == 0
    assert (tmp_path / "out" / "rows.jsonl").read_bytes() == before
    # Rows that are no rows, and those whose forecast is gone, are made again; no link is followed.
    (tmp_path / "elsewhere").write_bytes(before + JUNK)
    (tmp_path / "out" / "rows.jsonl").unlink()
    (tmp_path / "out" / "rows.jsonl").symlink_to(tmp_path / "elsewhere")
    gone = tmp_path / "out" / "forecasts" / healed[0]["forecast"]
    gone.unlink()
    assert run(line) == 0
    assert gone.exists() and rows(tmp_path / "out") == healed
    assert (tmp_path / "elsewhere").read_bytes() == before + JUNK


JUNK = b"""{}
{"item": 1}
{"item": {}, "file": [], "trajectory": "q", "status": []}
{"item": "runs/r0.npz#1", "file": "runs/r0.npz", "trajectory": 1, "status": "ok", "c": "x"}
[[[[
null
"""


@pytest.mark.parametrize(
    "change",
    [
        {"file": "b.npz"}, {"file": []}, {"item": "a.npz#3"}, {"trajectory": "2"},
        {"trajectory": 2**70, "item": f"a.npz#{2**70}"}, {"status": FAILED}, {"status": None},
        {"c": "1"}, {"c": {}}, {"c": 2**70}, {"equation": 1}, {"forecast": "../secret"},
        {"forecast": None},
    ],
)  # fmt: skip
def test_a_row_is_believed_if_it_is_one(tmp_path: Path, change: dict[str, Any]) -> None:
    ensemble = Ensemble(OperatorSplitter(), out=tmp_path)
    name = f"{forecast_name('a.npz', 2)}.npz"
    row = {"item": "a.npz#2", "file": "a.npz", "trajectory": 2, "status": "explained",
           "reason": None, "c": 1.0, "c low": None, "forecast": name}  # fmt: skip
    assert not ensemble.holds(row, ["a.npz"])
    (tmp_path / name).touch()
    assert ensemble.holds(row, ["a.npz"])
    assert not ensemble.holds({**row, **change}, ["a.npz"])


def test_each_row_is_the_answer_to_its_trajectory_alone(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("predict runs/r0.npz --every --out every") == 0
    found = rows(folder.parent / "every")
    for number, row in enumerate(found):
        capsys.readouterr()
        assert run(f"predict runs/r0.npz --trajectory {number} --out one{number} --json") in (0, 3)
        alone = json.loads(capsys.readouterr().out)
        for name, value in alone["coefficients"].items():
            assert row[name] == pytest.approx(value, rel=1e-5, abs=1e-7)
        assert row["status"] == alone["status"] and row["nrmse"] == alone["nrmse"]


def test_forecasts_in_one_store(run: Run, folder: Path) -> None:
    zarr = pytest.importorskip("zarr")
    assert run("predict runs/r0.npz --every --forecasts zarr --out store") == 0
    assert run("predict runs/r0.npz --every --out single") == 0
    store = zarr.open_group(folder.parent / "store" / "forecasts.zarr", mode="r")
    files = {row["item"]: row["forecast"] for row in rows(folder.parent / "single")}
    for row in rows(folder.parent / "store"):
        held = read(folder.parent / "single" / "forecasts" / files[row["item"]]).frames()
        assert np.array_equal(
            store[row["forecast"]]["u"][row["trajectory"]], held.astype(np.float32)
        )


def test_files_of_one_name_do_not_share_a_forecast() -> None:
    assert forecast_name("x/a/run.npz", 0) != forecast_name("y/a/run.npz", 0)
    assert forecast_name("run.npz", 0) != forecast_name("run.h5", 0)


def test_files_are_named_by_folders_and_patterns(folder: Path) -> None:
    names = [path.name for path in data_files([folder])]
    assert names == ["broken.npz", "one.npz", "r0.npz", "r1.npz"]
    assert [path.name for path in data_files([folder / "r*.npz"])] == ["r0.npz", "r1.npz"]
    with pytest.raises(OpsplitError, match="No file is named like"):
        data_files([folder / "z*.npz"])


def test_a_folder_is_not_read_twice_by_a_link_back(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "u.npy").touch()
    (tmp_path / "a" / "b" / "back").symlink_to(Path("..") / ".." / "a")
    (tmp_path / "a" / "other").symlink_to("b")
    names = [str(path.relative_to(tmp_path)) for path in data_files([tmp_path / "a"])]
    assert names == ["a/b/u.npy", "a/other/u.npy"]


def test_an_ensemble_keeps_what_it_reads_and_what_is_not_its_own(
    run: Run, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(folder / "r0.npz", data / "r0.npz")
    for line in (f"predict {data} --out {data}", f"predict {data} --out {data}/deep/out"):
        assert run(line) == 2
        assert "choose another" in capsys.readouterr().err
        assert [path.name for path in data.glob("**/[!.]*") if path.is_file()] == ["r0.npz"]
    out = tmp_path / "out"
    out.mkdir()
    for name in ("report.html", "rows.jsonl"):
        (out / name).write_text("notes of somebody")
        assert run(f"predict {data} --out {out}") == 2
        assert f"{name} is there already" in capsys.readouterr().err
        assert (out / name).read_text() == "notes of somebody"
        (out / name).unlink()
    assert run(f"predict {data} --out {out}") == 0


def test_files_of_any_name_and_links_to_nothing_are_rows(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    names = [b"\xff\x1b[31m.npz", "\u202e<script>.npz".encode(), b"50%#2 & more.npz"]
    for name in names:
        shutil.copy(folder / "deep" / "one.npz", os.fsencode(data) + b"/" + name)
    (data / "gone.npz").symlink_to("nowhere")
    os.mkfifo(data / "pipe.npz")
    assert run(f"predict {data} --out {tmp_path}/out") == 1
    found = rows(tmp_path / "out")
    wrong = [Path(row["file"]).name for row in found if row["status"] == "failed"]
    assert len(found) == 5 and wrong == ["gone.npz", "pipe.npz"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "\u202e" not in page and "<script>." not in page
    targets = re.findall('href="(forecasts/[^"]*)"', page)
    assert len(targets) == 3
    for target in targets:
        assert os.path.exists(os.fsencode(tmp_path / "out") + b"/" + unquote_to_bytes(target))


def test_a_failed_item_is_a_row_for_every_trajectory() -> None:
    item = Item("a.npz", (3, 4))
    found = rows_of(Outcome(item, None, "It hangs."))
    assert [(row["item"], row["reason"]) for row in found] == [
        ("a.npz#3", "It hangs."), ("a.npz#4", "It hangs.")
    ]  # fmt: skip
    assert item.split() == [Item("a.npz", (3,)), Item("a.npz", (4,))]


def test_items_are_small_whatever_the_size_of_a_trajectory(folder: Path) -> None:
    recording = read(folder / "r0.npz")
    assert items_together(recording, 50) == 64
    assert items_together(recording, 50_000) == 1
    with pytest.raises(OpsplitError, match="--start 11 leaves no two frames"):
        window_of(recording, 11, 8)


def test_the_table_is_csv_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [{"item": "=a", "c": 0.1}, {"item": "b", "reason": "broken, of course"}]
    parquet = pytest.importorskip("pyarrow.parquet")
    whole = parquet.read_table(write_table(tmp_path, held)).to_pylist()
    assert whole == [{"reason": None, **held[0]}, {"c": None, **held[1]}]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with open(write_table(tmp_path, held)) as stream:
        lines = list(csv.DictReader(stream))
    assert lines[0]["item"] == "'=a"  # No formula.
    assert lines[0]["c"] == "0.1" and lines[1]["reason"] == "broken, of course"
