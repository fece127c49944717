"""`opsplit generate`: whole data sets, interrupted, damaged, refused and checked again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch import Tensor

from opsplit.cli import main
from opsplit.io import read_well
from opsplit.physics import GrayScott, dataset, get_physics
from opsplit.physics.dataset import PER_FILE, make, make_all, plan

Cli = Callable[..., str]
SLOW = GrayScott.initial_fields
GS = "generate gray-scott --n 1 --frames 3 --workers 1 --out data"


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Gray-Scott without a past, which takes longer than the few frames these tests need."""

    def fields(self: GrayScott, n: int, generator: torch.Generator, split: str = "train") -> Tensor:
        pairs = [torch.stack([self._clusters(generator) for _ in "AB"]) for _ in range(n)]
        return torch.stack(pairs).clamp(0, 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GrayScott, "initial_fields", fields)
        yield


@pytest.fixture
def refused(cli: Cli, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    def run(line: str) -> str:
        with pytest.raises(SystemExit) as end:
            cli(line)
        assert end.value.code == 2
        return capsys.readouterr().err

    return run


@pytest.fixture(scope="module")
def gray_scott(quick: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training set of the forty dynamics of Gray-Scott, one trajectory of three frames each."""
    folder = tmp_path_factory.mktemp("set")
    main(GS.replace("data", str(folder / "data")).split())
    return folder / "data"


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.hdf5"))}


def test_a_training_set_holds_every_dynamics_of_the_list(gray_scott: Path) -> None:
    found = read_well(gray_scott / "gray-scott")
    physics = get_physics("gray-scott")
    assert found.data.shape == (40, 3, 2, 64, 64)
    assert (found.grid, found.dt, found.channels) == (physics.grid, 1.0, ("A", "B"))
    for name, values in physics.environments().items():
        assert torch.equal(found.coefficients[name], values)
    # The first frames differ between dynamics: every file has its own seed.
    assert len(torch.unique(found.data[:, 0].flatten(1), dim=0)) == 40
    stats = (gray_scott / "gray-scott" / "stats.yaml").read_text()
    for name, field in zip(found.channels, found.data.double().unbind(2), strict=True):
        steps = field.diff(dim=1)
        for key, value in (("mean", field.mean()), ("std", field.std(correction=0)),
                           ("rms", field.square().mean().sqrt()), ("mean_delta", steps.mean()),
                           ("rms_delta", steps.square().mean().sqrt())):  # fmt: skip
            block = re.search(rf"^{key}:\n((?:  .*\n)+)", stats, re.M)
            assert block is not None
            said = re.search(rf'"{name}": (.*)', block[1])
            assert said is not None
            assert float(said[1]) == pytest.approx(float(value), rel=1e-6, abs=1e-12)


def test_a_rerun_makes_only_what_is_missing_or_damaged(
    cli: Cli, gray_scott: Path, tmp_path: Path
) -> None:
    shutil.copytree(gray_scott, tmp_path / "data")
    folder = tmp_path / "data/gray-scott/data/train"
    before = contents(folder)
    assert json.loads(cli(f"{GS} --json"))["made"] == 0
    (folder / "train-0003.hdf5").unlink()
    cut = folder / "train-0007.hdf5"
    cut.write_bytes(before[cut.name][:-1])
    flipped = folder / "train-0009.hdf5"
    with h5py.File(flipped) as file:
        place = file["t0_fields"]["B"].id.get_chunk_info(0).byte_offset
    damaged = bytearray(before[flipped.name])
    damaged[place] ^= 1
    flipped.write_bytes(damaged)
    # A leftover of a run that was killed is no obstacle.
    (folder / f"train-0003.hdf5.{2**22 + 1}.0123abcd.part").write_text("half")
    result = json.loads(cli(f"{GS} --json"))
    assert (result["made"], result["files"], result["trajectories"]) == (3, 40, 40)
    after = read_well(folder).data
    assert torch.equal(after, read_well(gray_scott / "gray-scott").data)
    assert not list(folder.glob("*.part"))
    assert "0 made now" in cli(GS)


def test_other_settings_in_the_same_folder_are_refused(
    cli: Cli, refused: Callable[[str], str], gray_scott: Path, tmp_path: Path
) -> None:
    shutil.copytree(gray_scott, tmp_path / "data")
    before = contents(tmp_path / "data/gray-scott/data/train")
    message = refused(GS.replace("--frames 3", "--frames 4"))
    assert "other settings (frames 3, not 4); choose another --out, or --force" in message
    assert "(seed 0, not 1)" in refused(f"{GS} --seed 1")
    (tmp_path / "data/gray-scott/data/train/train.json").unlink()
    assert "without train.json" in refused(GS)
    assert contents(tmp_path / "data/gray-scott/data/train") == before


def test_other_splits_go_to_test_and_begin_elsewhere(cli: Cli, tmp_path: Path) -> None:
    line = "generate gray-scott --split GS --n 2 --frames 2 --format hdf5 --workers 1 --out data"
    cli(line)
    test = read_well(tmp_path / "data/gray-scott", "test")
    assert len(test) == 2 and bool((test.coefficients["reaction"] == 1).all())
    assert not (tmp_path / "data/gray-scott/stats.yaml").exists()
    cli(f"{line} --force --seed 3")
    other = read_well(tmp_path / "data/gray-scott", "test")
    assert not torch.equal(other.data[:, 0], test.data[:, 0])
    physics = get_physics("gray-scott")
    seeds = []
    for split in ("train", "GS"):
        (work, *_) = plan(physics, "cpu", split, 1, 0, tmp_path)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("generate", "generate_environment"):
                patch.setattr(
                    type(physics), name, lambda self, what, n, seed: seeds.append(seed) or seed
                )
            list(work.parts())
    assert len(set(seeds)) == 2


def test_advection_diffusion_in_files_of_bounded_size(cli: Cli, tmp_path: Path) -> None:
    n = 2 * PER_FILE + 5
    line = f"generate --n {n} --frames 3 --format hdf5 --workers 1 --out data --json"
    result = json.loads(cli(line))
    assert (result["files"], result["made"], result["trajectories"]) == (3, 3, n)
    found = read_well(tmp_path / "data/advection-diffusion")
    assert len(found) == n
    assert bool((found.coefficients["c"] * found.coefficients["D"] == 0).all())
    assert len(found.coefficients["c"].unique()) > n / 3
    assert (tmp_path / "data/advection-diffusion/stats.yaml").exists()


def test_batches_bound_the_memory_and_fill_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    physics = get_physics("combined")
    # Of diffusion, which is exact and fast.
    work = plan(physics, "cpu", "train", 5, 0, tmp_path)[130]
    monkeypatch.setattr(dataset, "BATCH_BYTES", 2 * 8 * 250 * 256)
    assert [len(part) for part in work.parts()] == [2, 2, 1]
    make(work)
    found = read_well(work.path)
    assert len(torch.unique(found.data[:, 0, 0], dim=0)) == 5


def test_navier_stokes_has_as_much_euler_as_heat_in_equal_files(tmp_path: Path) -> None:
    works = plan(get_physics("navier-stokes"), "cpu", "train", None, 0, tmp_path)
    assert {work.n for work in works} == {4}
    assert [work.environment for work in works] == [0] * 16 + list(range(1, 17))
    works = plan(get_physics("combined", "paper"), "paper", "train", None, 0, tmp_path)
    assert len(works) == 384 and sum(work.n for work in works) == 3 * 8192
    works = plan(get_physics("gray-scott", "paper"), "paper", "train", None, 0, tmp_path)
    assert [work.n for work in works] == [512] * 40


def test_several_processes_make_the_same_files_and_an_interrupt_keeps_the_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = GS.replace("--workers 1", "--workers 2")
    command = [sys.executable, "-m", "opsplit", *line.split()]
    folder = tmp_path / "data/gray-scott/data/train"
    # A shell lets its background jobs ignore interrupts, and their children inherit that.
    running = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    while len(list(folder.glob("*.hdf5"))) < 3:
        assert running.poll() is None, "the command ended before its third file"
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=600)
    assert running.returncode == 130
    kept = len(contents(folder))
    assert f"{kept} of 40 files are complete and kept" in err and "Traceback" not in err
    assert 3 <= kept < 40 and not list(folder.glob("*.part"))
    monkeypatch.setattr(GrayScott, "initial_fields", SLOW)
    physics = replace(get_physics("gray-scott"), frames=3)  # type: ignore[type-var]
    works = plan(physics, "cpu", "train", 1, 0, folder)
    for work in [work for work in works if work.path.exists()][:2]:
        stored = read_well(work.path).data
        work.path.unlink()
        assert make(work)[1]
        assert torch.equal(read_well(work.path).data, stored)


def test_a_file_does_not_depend_on_the_number_of_threads(tmp_path: Path) -> None:
    physics = replace(get_physics("gray-scott"), frames=3)  # type: ignore[type-var]
    before = torch.get_num_threads()
    files = []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            work = plan(physics, "cpu", "train", 1, 0, tmp_path / str(count))[0]
            work.path.parent.mkdir()
            make(work)
            assert torch.get_num_threads() == count
            files.append(read_well(work.path).data)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(files[0], files[1]) and torch.equal(files[0], files[2])


def test_a_full_disk_is_noticed_before_anything_is_simulated(
    refused: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**8))
    message = refused("generate combined --preset paper --out data")
    # 3 * 8192 trajectories of 250 frames of 256 single-precision numbers.
    assert "need 6.42 GB" in message and "has 0.1 GB left" in message
    assert not list(tmp_path.rglob("*.hdf5"))


def test_a_simulation_that_diverges_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    physics = get_physics("combined")
    monkeypatch.setattr(
        type(physics), "solve", lambda self, u, mu, t: u[:, None].repeat(1, len(t), 1, 1) / 0
    )
    works = plan(physics, "cpu", "D+Disp", 1, 0, tmp_path)
    with pytest.raises(ValueError, match=r"D\+Disp-0000\.hdf5 did not stay finite"):
        make_all(works, quiet=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line, words",
    [
        ("combined --preset gpu", "Unknown preset 'gpu' of combined; choose from ['cpu', 'paper']"),
        ("combined --split nowhere", "Unknown split 'nowhere' of combined"),
        ("combined --workers 0", "--workers must be a positive number"),
        ("combined --frames 1", "at least 2 frames"),
        ("--check missing.hdf5", "No such file: missing.hdf5"),
        ("--check missing.hdf5 --n -1", "--n must be a positive number, got -1"),
    ],
)
def test_requests_that_cannot_be_met(
    refused: Callable[[str], str], line: str, words: str, tmp_path: Path
) -> None:
    message = refused(f"generate {line}")
    assert words in message and message.count("\n") == 1
    assert not list(tmp_path.rglob("*.hdf5"))


# The check


def edit(path: Path, change: Callable[[h5py.File], None]) -> None:
    with h5py.File(path, "r+") as file:
        change(file)


@pytest.fixture
def mixed(cli: Cli, tmp_path: Path) -> Path:
    """One trajectory of every physics, in files of its own."""
    kind = "--n 1 --format hdf5 --workers 1 --out data"
    for what in (
        "advection-diffusion --split A+D",
        "combined --split NA+D --frames 20",
        "gray-scott --split GS --frames 8",
        "navier-stokes --split NS --frames 4",
    ):
        cli(f"generate {what} {kind}")
    return tmp_path / "data"


def test_sound_files_agree_and_changed_ones_do_not(
    cli: Cli, mixed: Path, refused: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    files = {p.parents[2].name: p for p in mixed.rglob("*.hdf5")}
    assert set(files) == {"advection-diffusion", "combined", "gray-scott", "navier-stokes"}
    for name in files:
        assert f"agrees with {name}" in cli(f"generate --check data/{name}")
        (found,) = json.loads(cli(f"generate --check data/{name} --json"))["files"]
        assert found["agrees"] and found["worst"] < 0.5

    def disagreement(name: str, change: Callable[[h5py.File], None]) -> str:
        whole = files[name].read_bytes()
        edit(files[name], change)
        with pytest.raises(SystemExit) as end:
            cli(f"generate --check {files[name]}")
        files[name].write_bytes(whole)
        assert end.value.code == 2
        out, err = capsys.readouterr()
        assert "1 of 1 files do not hold what they say" in err
        assert f"DISAGREES with {name}" in out
        return out

    def scale(name: str, by: float) -> Callable[[h5py.File], None]:
        def change(file: h5py.File) -> None:
            file["scalars"][name][...] = by * file["scalars"][name][()]
            file.attrs[name] *= by

        return change

    # Wrong coefficients; the true one is what least squares finds.
    c = float(read_well(files["advection-diffusion"]).coefficients["c"][0])
    words = disagreement("advection-diffusion", scale("c", 1.01))
    assert f"c={1.01 * c:.4g}" in words and f"least squares: c={c:.3g}"[:-1] in words
    for name, coefficient in (("combined", "beta"), ("gray-scott", "F"), ("gray-scott", "k"),
                              ("navier-stokes", "nu"), ("navier-stokes", "advection")):  # fmt: skip
        words = disagreement(name, scale(coefficient, 1.2))
        assert re.search(rf"does not follow .*{coefficient}=.* in (\d+) of \1 steps", words)

    def swap(file: h5py.File) -> None:
        a, b = (file["t0_fields"][name] for name in "AB")
        a[...], b[...] = b[()], a[()]

    assert "trajectory 0 does not follow" in disagreement("gray-scott", swap)

    def spike(file: h5py.File) -> None:
        (field,) = file["t0_fields"].values()
        field[(0, 10, 7)] += np.float32(0.01)

    words = disagreement("combined", spike)
    assert "in 2 of 19 steps between frames 9 and 11" in words

    def rename(file: h5py.File) -> None:
        file["t0_fields"].move("A", "C")
        file["t0_fields"].attrs["field_names"] = ["C", "B"]

    assert "fields ['C', 'B'], where there should be ['A', 'B']" in disagreement(
        "gray-scott", rename
    )
    edit(files["combined"], lambda file: file.attrs.__setitem__("dataset_name", "heat"))
    assert "is of 'heat'; known physics are" in refused(f"generate --check {files['combined']}")


def test_a_checked_folder_names_the_wrong_files(
    cli: Cli, gray_scott: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(gray_scott, tmp_path / "data")
    root = tmp_path / "data/gray-scott"
    wrong = root / "data/train/train-0025.hdf5"

    def change(file: h5py.File) -> None:
        file["t0_fields"]["B"][0, 2, 5, 5] += np.float32(0.1)

    edit(wrong, change)
    with pytest.raises(SystemExit) as end:
        cli("generate --check data/gray-scott --json")
    assert end.value.code == 2
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["disagree"] == 1 and len(result["files"]) == 40
    assert [f["file"] for f in result["files"] if not f["agrees"]] == [
        "data/gray-scott/data/train/train-0025.hdf5"
    ]
    assert not (tmp_path / "data/opsplit.json").exists()
