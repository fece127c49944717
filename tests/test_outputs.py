"""No output is ever an input, a run replaces only what is its own, a record speaks the truth."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import opsplit
from opsplit._files import atomic, remove_parts, unchanged, write_json, writing
from opsplit._tensors import save_tensors
from opsplit.errors import OpsplitError
from opsplit.io.well import write_well
from opsplit.pretrain.loggers import MetricsFile
from opsplit.trajectories import Trajectories

Cli = Callable[[str], str]
QUICK = "--width 2 --max-parts 1 --refine none --steps 2"


@pytest.fixture
def frames(observe: Callable[..., tuple[torch.Tensor, object, float]]) -> np.ndarray:
    return observe(0.5, 0.2, frames=6, points=64)[0].numpy()


def refused(cli: Cli, line: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        cli(line)
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    return message


@pytest.mark.parametrize("way", ["name", "link", "hard link", "folder link", "force"])
def test_a_forecast_is_not_written_over_its_input(
    cli: Cli, tmp_path: Path, frames: np.ndarray, tiny_folder: Path, way: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """`predict forecast/forecast.npy` writes to forecast/ unless told otherwise."""
    (tmp_path / "forecast").mkdir()
    file = tmp_path / "forecast" / "forecast.npy"
    given = "forecast/forecast.npy"
    np.save(file, frames)
    if way == "link":
        (tmp_path / "in.npy").symlink_to(file)
        given = "in.npy"
    elif way == "hard link":
        os.link(file, tmp_path / "in.npy")
        given = "in.npy --force"
    elif way == "folder link":
        (tmp_path / "other").symlink_to(tmp_path / "forecast")
        given = "forecast/forecast.npy --out other --force"
    elif way == "force":
        given += " --force"
    before = file.read_bytes()
    message = refused(cli, f"predict {given} --dt 0.1 --model {tiny_folder} {QUICK}", capsys)
    assert file.read_bytes() == before
    assert "forecast.npy" in message or "in.npy" in message


def test_no_file_of_a_run_takes_the_place_of_another(
    cli: Cli, tmp_path: Path, frames: np.ndarray, tiny_folder: Path
) -> None:
    """A forecast in the format of a table is still there when the run has ended."""
    table = np.column_stack([0.1 * np.arange(6), frames[:, 0]])
    names = ",".join(["t", *map(str, range(64))])
    np.savetxt(tmp_path / "in.csv", table, delimiter=",", header=names, comments="")
    with contextlib.suppress(SystemExit):  # Whether the model explains it is not the question.
        cli(f"predict in.csv --model {tiny_folder} {QUICK} --out out")
    found = opsplit.read(tmp_path / "out" / "forecast.csv")
    assert found.shape == (1, 2, 1, 64)
    written = json.loads((tmp_path / "out" / "opsplit.json").read_text())["files"]
    assert {"forecast.csv", "numbers.csv", "forecast.png"} <= written.keys()


def test_a_report_is_not_written_over_its_input_nor_over_a_page(
    cli: Cli, tmp_path: Path, frames: np.ndarray, tiny_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    np.save(tmp_path / "in.npy", frames)
    (tmp_path / "in.npy").rename(tmp_path / "in.html")
    before = (tmp_path / "in.html").read_bytes()
    line = f"predict in.html --dt 0.1 --model {tiny_folder} {QUICK}"
    assert "is read by this run" in refused(cli, f"{line} --report in.html --force", capsys)
    (tmp_path / "mine.html").write_text("my own page")
    assert "--force" in refused(cli, f"{line} --report mine.html", capsys)
    assert (tmp_path / "in.html").read_bytes() == before
    assert (tmp_path / "mine.html").read_text() == "my own page"
    for _ in range(2):
        with contextlib.suppress(SystemExit):  # The tiny model explains nothing.
            cli(f"{line} --report page.html")
        assert (tmp_path / "page.html").exists()
    assert "--force" in refused(cli, f"{line} --report mine.html", capsys)


def test_a_failed_run_takes_back_the_record_before_it(
    cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A, then B that fails in the middle, then A again: the file on disk may be B's."""
    first = "generate --n 1 --frames 2 --out data"
    cli(first)
    assert "--force" in refused(cli, "generate --n 2 --frames 2 --out data", capsys)
    assert "finished before" in cli(first)
    save = Trajectories.save

    def fail(self: Trajectories, path: Path) -> Path:
        save(self, path)
        raise OpsplitError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(Trajectories, "save", fail)
        refused(cli, "generate --n 2 --frames 2 --out data --force", capsys)
    assert json.loads((tmp_path / "data/opsplit.json").read_text())["result"] is None
    assert "--force" in refused(cli, first, capsys)
    assert json.loads(cli(f"{first} --force --json"))["shape"][0] == 1


def test_a_folder_of_somebody_else_needs_force(
    cli: Cli, tmp_path: Path, frames: np.ndarray, tiny_folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    np.save(tmp_path / "in.npy", frames)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    for line in (
        f"predict in.npy --dt 0.1 --model {tiny_folder} {QUICK}",
        f"search in.npy --dt 0.1 --model {tiny_folder} {QUICK.removesuffix('--steps 2')}",
        "demo",
        "pretrain advection-diffusion --preset tiny --steps 1",
        f"extract --model {tiny_folder} --n 1",
    ):
        assert "notes.txt is there already" in refused(cli, f"{line} --out out", capsys)


def test_inputs_are_kept_from_every_writer(tmp_path: Path) -> None:
    for name in ("a.json", "folder/b.json"):
        write_json(tmp_path / name, 1)
    (tmp_path / "link.json").symlink_to(tmp_path / "a.json")
    with writing([tmp_path / "link.json", tmp_path / "folder"]) as made:
        for name in ("a.json", "link.json", "folder/b.json", "folder/deep/c.json"):
            with pytest.raises(OpsplitError, match="which this run reads"):
                write_json(tmp_path / name, 2)
        write_json(tmp_path / "d.json", 3)
        assert made.files == [tmp_path / "d.json"]
        facts = made.facts(tmp_path, tmp_path / "none")
    assert unchanged(facts, tmp_path)
    write_json(tmp_path / "d.json", 4)
    assert not unchanged(facts, tmp_path)
    write_json(tmp_path / "a.json", 2)


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.safetensors": lambda p: save_tensors(p, {"a": torch.zeros(3)}),
    "a.json": lambda p: write_json(p, 1),
    "a.hdf5": lambda p: write_well(Trajectories.from_numpy(torch.rand(1, 3, 1, 8), dt=1.0), p, "u"),
    "metrics.csv": lambda p: MetricsFile(p, 0).write({"step": 0.0}),
}


@pytest.mark.parametrize("name", WRITERS)
def test_files_have_the_mode_of_the_umask_and_follow_no_link(tmp_path: Path, name: str) -> None:
    """Whatever library writes them."""
    (tmp_path / "victim").write_text("keep")
    (tmp_path / f"{name}.part").symlink_to(tmp_path / "victim")
    before = os.umask(0o027)
    try:
        WRITERS[name](tmp_path / name)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640
    assert (tmp_path / "victim").read_text() == "keep"


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    dead, alive = 2**22 + 1, os.getpid()
    names = [f"a.json.{dead}.0123abcd.part", f"a.json.{alive}.0123abcd.part", "mine.part"]
    for name in names:
        (tmp_path / name).write_text("half")
    with atomic(tmp_path / "b.json") as partial:
        partial.write_text("1")
        remove_parts(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*names[1:], "b.json"])
