"""What a user can put right ends in one sentence and exit code 2, never in a traceback."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from opsplit.cli import main
from opsplit.physics import AdvectionDiffusion

Refused = Callable[[str], str]


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Refused:
    """Runs a command line that must fail properly and returns its one message."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(line.split())
        assert end.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("opsplit: ")
        assert err.count("\n") == 1
        message = err.removeprefix("opsplit: ").rstrip("\n")
        assert len(message.split()) > 3
        assert "Traceback" not in message
        return message

    return run


@pytest.fixture
def files(tmp_path: Path, tiny_folder: Path, unet_folder: Path) -> Path:
    """Good and bad files, side by side, with the models `spectral` and `unet`."""
    (tmp_path / "spectral").symlink_to(tiny_folder)
    (tmp_path / "unet").symlink_to(unet_folder)
    u = np.random.default_rng(0).normal(size=(6, 256)).astype(np.float32)
    hole = u.copy()
    hole[4, 100] = np.inf
    arrays = {
        "good": u,
        "one": u[:1],
        "empty": u[:0],
        "line": u[0],
        "axes": u[None, None, None],
        "hole": hole,
        "channels": np.stack([u, u], 1),
        "points": u[:, :250],
        "complex": u + 1j,
        "words": np.array([["a", "b"], ["c", "d"]]),
    }
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.save(tmp_path / "pickled.npy", np.array([u, None], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "many.npz", a=u, b=u[:-1])
    np.savez(tmp_path / "silent.npz", u=u)
    whole = (tmp_path / "silent.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "blank.npz").write_bytes(b"")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "good.npy").read_bytes()[:-50])
    shutil.copy(tmp_path / "good.npy", tmp_path / "array.npz")
    shutil.copy(tmp_path / "silent.npz", tmp_path / "archive.npy")
    (tmp_path / "notes.txt").write_text("1 2 3\n")
    (tmp_path / "notes.npy").write_text("1 2 3\n")
    (tmp_path / "notes.doc").write_text("1 2 3\n")
    (tmp_path / "folder.npy").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    "file, words",
    [
        ("missing.npy", "No such file: missing.npy"),
        ("folder.npy", "No data in folder.npy: no file there ends in one of .npy, .npz, .h5"),
        ("notes.txt", "notes.txt: Read as (time 1, x 3), that is a single frame"),
        ("notes.doc", "notes.doc is none of .npy, .npz, .h5"),
        ("notes.npy", "notes.npy cannot be read by numpy"),
        ("pickled.npy", "pickled.npy cannot be read by numpy"),
        ("cut.npy", "cut.npy cannot be read by numpy"),
        ("cut.npz", "cut.npz cannot be read by numpy"),
        ("blank.npz", "blank.npz cannot be read by numpy"),
        ("array.npz", "array.npz does not hold what its name says"),
        ("archive.npy", "archive.npy does not hold what its name says"),
        ("many.npz", "many.npz holds the arrays ['a', 'b']; name those to read"),
        ("axes.npy", "axes.npy: An array of shape (1, 1, 1, 6, 256) cannot be read"),
        ("line.npy", "line.npy: An array of shape (256,) cannot be read"),
        ("one.npy", "one.npy: Read as (time 1, x 256), that is a single frame"),
        ("empty.npy", "empty.npy: Read as (time 0, x 256)"),
        ("hole.npy", "hole.npy: 1 values are NaN or infinite, the first in frame 4"),
        ("complex.npy", "complex.npy: Fields must be real numbers"),
        ("words.npy", "words.npy: Fields must be real numbers"),
        ("channels.npy", "knows 1 channel(s) (u), the data have 2"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "identify"])
def test_files(files: Path, refused: Refused, command: str, file: str, words: str) -> None:
    assert words in refused(f"{command} {file} --dt 0.1 --model spectral")


def test_a_folder_without_fields(
    files: Path, refused: Refused, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder means all files in it; one that holds no fields is a failed row, not a result."""
    assert "add --out DIR" in refused("identify spectral --dt 0.1 --model spectral")
    with pytest.raises(SystemExit) as end:
        main(["identify", "spectral", "--dt", "0.1", "--model", "spectral", "--out", "found"])
    assert end.value.code == 1
    said = capsys.readouterr().out
    assert "1 failed" in said and "spectral/metrics.csv has the columns step" in said


FIT = "predict good.npy --dt 0.1 --model spectral"
TRAIN = "pretrain advection-diffusion --preset tiny"


@pytest.mark.parametrize(
    "line, words",
    [
        ("predict", "Name a file to read, such as frames.npy"),
        (
            "predict good.npy --dt 0.1 --model spectral --report good.npy",
            "--report is an HTML page",
        ),
        ("describe good.npy --dt 0.1 --ndim 0", "Fields have 1 to 3 space axes, got ndim=0"),
        ("search good.npy --dt 0.1 --model unet --extent 3000", "Is --extent right?"),
        ("search good.npy --dt 0.1 --model spectral --family unet", "not 'unet'"),
        ("search silent.npz --model spectral", "silent.npz does not say the time between frames"),
        ("search good.npy --model spectral", "does not say the time between frames; add --dt"),
        ("search good.npy --dt 0.1 --model spectral --trajectory 1", "trajectories 0..0"),
        ("search good.npy --dt 0.1 --model spectral --trajectory -1", "trajectories 0..0"),
        ("search good.npy --dt 0.1 --model spectral --window 1", "at least 2, got 1"),
        ("search good.npy --dt 0.1 --model spectral --extent 0", "positive length"),
        ("search good.npy --dt 0.1 --model spectral --extent nan", "positive length"),
        ("search good.npy --dt 0.1 --model nothing", "Unknown model 'nothing'"),
        ("extract --model nothing", "Unknown model 'nothing'"),
        ("extract --model spectral --data missing.npz", "No such file: missing.npz"),
        ("extract --model spectral --data cut.npz", "cut.npz cannot be read by numpy"),
        ("extract --model spectral --data folder.npy", "folder.npy holds no .hdf5 or .h5 file"),
        ("extract --model spectral --split nowhere", "Unknown split 'nowhere'"),
        ("info nothing", "'nothing' is neither a known name"),
        ("info missing.npz", "No such file: missing.npz"),
        ("info cut.npz", "cut.npz is not a trajectory file"),
        ("generate nothing", "Unknown physics 'nothing'; choose from advection-diffusion"),
        ("generate --split nowhere", "Unknown split 'nowhere' of advection-diffusion"),
        ("generate --frames 1", "at least 2 frames"),
        (
            "pretrain combined --preset tiny",
            "Store trajectories first: opsplit generate combined --out data, "
            "then opsplit pretrain combined --data data/combined",
        ),
        ("pretrain", "Say what to train on: an equation, as in `opsplit pretrain advection-diff"),
        ("pretrain --method fno", "Say what to train on"),
        ("pretrain --preset tiny --minutes 1", "Say what to train on"),
        ("pretrain nothing --preset tiny", "'navier-stokes'], or give --data"),
        (
            f"{TRAIN} --training.batches.split nowhere",
            "Unknown split 'nowhere'",
        ),
        ("pretrain --recipe secret", "Unknown recipe 'secret'"),
        ("pretrain --operator secret", "Unknown operator 'secret'; choose from auto, spectral"),
        (
            f"{TRAIN} --training.recipe codebook",
            "stored trajectories with --data",
        ),
        ("pretrain --preset tiny --data missing.npz", "No such file: missing.npz"),
        ("pretrain --preset tiny --data silent.npz", "silent.npz does not say the time between"),
        ("pretrain --preset tiny --data good.npy", "good.npy does not say the time between"),
        ("benchmark nothing", "No benchmark for 'nothing'; choose from"),
        (
            "benchmark combined --physics combined",
            "Give the benchmark once: 'combined' or --physics",
        ),
        ("benchmark --method psychic", "Unknown method 'psychic'; choose from persistence"),
        ("benchmark --model nothing --method beam", "Unknown model 'nothing'"),
        ("benchmark --model spectral --family unet --method beam --n 1", "not 'unet'"),
    ],
)
def test_requests(files: Path, refused: Refused, line: str, words: str) -> None:
    assert words in refused(line)


def test_truncated_model(files: Path, tiny_folder: Path, refused: Refused) -> None:
    shutil.copytree(tiny_folder, files / "damaged")
    file = files / "damaged" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    for line in ("predict good.npy --dt 0.1 --model damaged", "info damaged",
                 "extract --model damaged", "benchmark --model damaged --n 1"):  # fmt: skip
        message = refused(line)
        assert "damaged/model.safetensors cannot be read" in message
        assert "The file is damaged" in message


@pytest.mark.parametrize(
    "command",
    [
        "predict good.npy --dt 0.1 --model spectral",
        "search good.npy --dt 0.1 --model spectral",
        "extract --model spectral",
        "generate",
        TRAIN,
        "benchmark --method persistence --n 1",
    ],
)
def test_folders_that_cannot_be_written(files: Path, refused: Refused, command: str) -> None:
    assert "Cannot write to --out notes.txt/below" in refused(f"{command} --out notes.txt/below")
    assert "Cannot write to --out notes.txt" in refused(f"{command} --out notes.txt")
    assert (files / "notes.txt").read_text() == "1 2 3\n"


def test_cache_that_cannot_be_written(files: Path, refused: Refused) -> None:
    line = "benchmark --method persistence --n 1 --cache notes.txt/below --out results"
    assert "notes.txt/below" in refused(line)


@pytest.mark.parametrize(
    "line, flag",
    [
        (f"{FIT} --steps 0", "--steps must be a positive number, got 0"),
        (f"{FIT} --steps -3", "--steps must be a positive number, got -3"),
        (f"{FIT} --width 0", "--width"),
        (f"{FIT} --max-parts 0", "--max-parts"),
        (f"{FIT} --trials 0", "--trials"),
        (f"{FIT} --window 0", "--window"),
        (f"{FIT} --refinement 0", "--refinement"),
        (f"{FIT} --memory-mb 0", "--memory-mb"),
        (f"{FIT} --memory-mb nan", "--memory-mb"),
        (f"{FIT} --memory-mb inf", "--memory-mb"),
        (f"{FIT} --threshold -1", "--threshold must lie in 0..1"),
        (f"{FIT} --threshold 1", "--threshold"),
        (f"{FIT} --threshold nan", "--threshold"),
        (f"{FIT} --dt -1", "--dt must be a positive number, got -1.0"),
        (f"{FIT} --dt nan", "--dt must be a positive number, got nan"),
        (f"{FIT} --dt inf", "--dt"),
        (f"{FIT} --dt 0", "--dt"),
        (f"{FIT} --seed -1", "--seed must lie in 0.."),
        (f"{FIT} --seed 2147483648", "--seed"),
        (f"{FIT} --device tpu", "Unknown --device 'tpu'; choose cpu, cuda"),
        (f"{FIT} --device cpu:x", "Unknown --device 'cpu:x'"),
        (f"{FIT} --device cuda:", "Unknown --device 'cuda:'"),
        ("generate --n 0", "--n must"),
        ("generate --n -5", "--n must"),
        ("generate --frames 0", "--frames"),
        ("extract --model spectral --n 0", "--n must"),
        ("benchmark --n 0", "--n must"),
        ("benchmark --n-unet 0", "--n-unet"),
        ("generate --seed -1", "--seed"),
        (f"{TRAIN} --steps 0", "--steps"),
        (f"{TRAIN} --minutes 0", "--minutes"),
        (f"{TRAIN} --devices 0", "--devices"),
        (f"{TRAIN} --threads 0", "--threads"),
        (
            f"{TRAIN} --training.recipe plain --training.batches.states 90",
            "do not fit into the 100 frames",
        ),
    ],
)
def test_absurd_flags(files: Path, refused: Refused, line: str, flag: str) -> None:
    assert flag in refused(line)


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
@pytest.mark.parametrize("command", [FIT, TRAIN, "benchmark --n 1"])
def test_missing_accelerator(
    files: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch, command: str, device: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = refused(f"{command} --device {device}")
    assert message == "This machine has no cuda device; use --device cpu."
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert "1 cuda device(s)" in refused(f"{command} --device cuda:1")


def test_flags_must_not_contradict_a_file(files: Path, refused: Refused) -> None:
    file = AdvectionDiffusion().generate("A+D", 2, seed=0, frames=8).save(files / "two.npz")
    message = refused(f"search {file} --model spectral --dt 0.2")
    assert "in the file: 0.10101, as you say: 0.2. Leave yours out" in message
    assert "as you say: 3.0. Leave yours out" in refused(
        f"search {file} --model spectral --extent 3"
    )
    assert "trajectories 0..1, not number 2" in refused(
        f"search {file} --model spectral --trajectory 2"
    )


@pytest.mark.parametrize(
    "line, word",
    [
        ("divine frames.npy", "divine"),
        (f"{FIT} --crystal-ball 3", "--crystal-ball"),
        (f"{FIT} --steps many", "many"),
        (f"{FIT} --scheme euler", "euler"),
        ("pretrain --preset huge", "huge"),
        ("pretrain --training.recipe secret", "secret"),
        ("pretrain --training.optimiser.learning-rate 0", "learning_rate must lie in"),
        ("pretrain --training.optimiser.learning-rate nan", "learning_rate must be a number"),
        ("pretrain --training.optimiser.learning-rate -1", "learning_rate must lie in"),
        ("pretrain --training.batches.environments 0", "environments must lie in"),
        ("pretrain --training.dictionary.operators 0", "operators must lie in"),
        ("pretrain --training.budget.checkpoint-steps 0", "checkpoint_steps must lie in"),
        ("pretrain --operator polynomial --operator.copies 3", "--operator.copies"),
        ("pretrain --family fourier", "fourier"),
    ],
)
def test_lines_that_cannot_be_parsed(
    capsys: pytest.CaptureFixture[str], line: str, word: str
) -> None:
    """The parser's own box: what it did not understand, what there is, where the help is."""
    with pytest.raises(SystemExit) as end:
        main(line.split())
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert any(part in err for part in word.split("|"))
    assert "--help" in err
    assert "Traceback" not in err
