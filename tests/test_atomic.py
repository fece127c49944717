"""Output is whole or not there: a full disk, a kill, two runs with one `--out`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opsplit._files import LOCK, atomic, own, read_json, remove_parts, write_json
from opsplit._tensors import save_tensors
from opsplit.dictionary import OperatorDictionary
from opsplit.errors import OpsplitError
from opsplit.model import Model
from opsplit.trajectories import Trajectories

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class FullDisk:
    """A stream that takes so many bytes and then has no space left."""

    def __init__(self, stream: Any, room: int) -> None:
        self.stream, self.room = stream, room

    def write(self, data: bytes) -> int:
        taken = self.stream.write(bytes(data)[: self.room])
        self.room -= taken
        if taken < len(data):
            self.stream.flush()
            raise FULL
        return int(taken)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@pytest.mark.parametrize("room", [0, 1, 100, 4000])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, room: int) -> None:
    file = tmp_path / "forecast.npz"
    np.savez(file, u=np.arange(3))
    before = file.read_bytes()
    with (
        pytest.raises(OpsplitError, match=r"Cannot write .*forecast\.npz: No space left"),
        atomic(file) as partial,
        open(partial, "wb") as stream,
    ):
        np.savez(FullDisk(stream, room), u=np.arange(10_000))
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a bug"), OpsplitError("no")])
def test_other_failures_pass_through_and_leave_nothing(
    tmp_path: Path, error: BaseException
) -> None:
    file = tmp_path / "a.json"
    write_json(file, 1)
    with pytest.raises(type(error)), atomic(file) as partial:
        partial.write_text("half")
        raise error
    assert file.read_text() == "1\n"
    assert list(tmp_path.iterdir()) == [file]


def test_success(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.txt"
    with atomic(file) as partial:
        assert partial.parent == file.parent and partial.name.endswith(".part")
        assert str(os.getpid()) in partial.name
        partial.write_text("whole")
        assert not file.exists()
    assert file.read_text() == "whole"
    assert list(file.parent.iterdir()) == [file]


def test_links_and_devices_are_not_written_through(tmp_path: Path) -> None:
    """A folder may come from somebody else, with names that we are about to use."""
    (tmp_path / "mine").write_text("keep")
    (tmp_path / "out").mkdir()
    for name in (LOCK, f"a.json.{os.getpid()}.part"):
        (tmp_path / "out" / name).symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="symbolic links"):
        own(tmp_path / "out")
    write_json(tmp_path / "out" / "a.json", 1)
    os.mkfifo(tmp_path / "out" / "pipe")
    with pytest.raises(OpsplitError, match="not a regular file"):
        write_json(tmp_path / "out" / "pipe", 1)
    assert (tmp_path / "mine").read_text() == "keep"
    assert read_json(tmp_path / "out" / "a.json") == 1


def test_nothing_is_written_where_nothing_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OpsplitError, match=r"Cannot write .*below.json: .+\."):
        write_json(tmp_path / "file" / "below.json", 1)
    with pytest.raises(OpsplitError, match="Cannot write"):
        save_tensors(tmp_path / "file" / "below.safetensors", {"a": torch.zeros(1)})
    with pytest.raises(TypeError):
        write_json(tmp_path / "set.json", {1, 2})
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def folder_of(kind: str, folder: Path, size: float, model: Model) -> Callable[[], Any]:
    """Something that writes files, other ones for every `size`."""
    if kind == "json":
        return lambda: write_json(folder / "a.json", [size] * 5000)
    if kind == "trajectories":
        data = torch.full((2, 4, 1, 512), size)
        made = Trajectories.from_numpy(data, dt=0.1)
        return lambda: made.save(folder / "a.npz")
    if kind == "dictionary":
        terms = [{"advection": size}] * 2000
        return lambda: OperatorDictionary.analytic(1, 1, terms).save(folder)
    return lambda: Model(model.disco, model.dictionary, {"x": size}).save(folder)


@contextlib.contextmanager
def file_size(limit: int) -> Iterator[None]:
    """No file may grow beyond this, as on a full disk (EFBIG instead of ENOSPC)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("limit", [0, 1000, 10_000])
@pytest.mark.parametrize("kind", ["json", "trajectories", "dictionary", "model"])
def test_limited_files(tmp_path: Path, tiny_model: Model, kind: str, limit: int) -> None:
    folder_of(kind, tmp_path, 1.0, tiny_model)()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    large = {name for name, content in before.items() if len(content) > limit}
    with file_size(limit), pytest.raises((OpsplitError, OSError)) as caught:
        folder_of(kind, tmp_path, 2.0, tiny_model)()
    assert "\n" not in str(caught.value)
    after = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert {n: after[n] for n in large} == {n: before[n] for n in large}
    assert after.keys() == before.keys()


def test_a_full_disk_ends_a_command_in_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "opsplit", "generate", "--n", "4", "--force"]
    kept = tmp_path / "data" / "trajectories.npz"
    kept.parent.mkdir()
    kept.write_text("what was here before")
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("opsplit: ") and done.stderr.count("\n") == 1
    assert "too large" in done.stderr
    assert kept.read_text() == "what was here before"


WRITER = """
import sys, time
from pathlib import Path
from opsplit._files import atomic, write_json
file = Path(sys.argv[1])
with atomic(file) as partial, open(partial, "w") as stream:
    stream.write('{"half": ')
    stream.flush()
    print("written", flush=True)
    time.sleep(600)
"""


def test_a_kill_leaves_the_old_file_and_nothing_that_looks_good(tmp_path: Path) -> None:
    file = tmp_path / "opsplit.json"
    write_json(file, {"old": 1})
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "written\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert read_json(file) == {"old": 1}
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".part"}
    write_json(file, {"new": 2})
    assert read_json(file) == {"new": 2}


HOLDER = """
import os, sys, time
from pathlib import Path
from opsplit._files import own
own(Path(sys.argv[1]))
print("held", flush=True)
if len(sys.argv) > 2:
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    print(pid, flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def holder(folder: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the folder for itself."""
    command = [sys.executable, "-c", HOLDER, str(folder), *more]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def test_two_runs_do_not_share_a_folder(
    tmp_path: Path, cli: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    with holder(tmp_path / "out") as other:
        for line in (
            "generate --n 1",
            "pretrain advection-diffusion --preset tiny",
            "demo",
            "benchmark --n 1",
        ):
            with pytest.raises(SystemExit) as end:
                cli(f"{line} --out out")
            assert end.value.code == 2
            message = capsys.readouterr().err
            assert f"Another run (process {other.pid}) is writing to out;" in message
            assert message.count("\n") == 1
        assert [p.name for p in (tmp_path / "out").iterdir()] == [LOCK]
    # A lock dies with its process, even if that is killed.
    assert json.loads(cli("generate --n 1 --frames 2 --out out --json"))["shape"][0] == 1
    assert "finished before" in cli("generate --n 1 --frames 2 --out out")


def _owned(folder: Path) -> bool:
    try:
        own(folder)
    except OpsplitError:
        return False
    return True


def test_a_child_that_outlives_its_parent_does_not_keep_the_lock(tmp_path: Path) -> None:
    with holder(tmp_path, "fork") as other:
        assert other.stdout is not None
        child = int(other.stdout.readline())
        with pytest.raises(OpsplitError, match="Another run"):
            own(tmp_path)
        other.kill()
        other.wait()
        try:
            # The child closes what it inherited as soon as it runs.
            deadline = time.monotonic() + 300
            while not _owned(tmp_path) and time.monotonic() < deadline:
                time.sleep(0.05)
            os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)
    assert (tmp_path / LOCK).read_text() == f"{os.getpid()}\n"


def test_a_lock_is_removed_by_a_run_that_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "opsplit", "generate", "--n", "1", "--frames", "2", "--out"]
    subprocess.run([*command, str(tmp_path)], check=True, capture_output=True)
    assert {p.name for p in tmp_path.iterdir()} == {"opsplit.json", "trajectories.npz"}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_partial_files_of_ended_processes_are_removed_and_others_are_not(tmp_path: Path) -> None:
    """A process that ended counts as ended before its parent has asked how."""
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    names = [f"a.npz.{pid}.0123abcd.part" for pid in (ended.pid, os.getpid())]
    for name in names:
        (tmp_path / name).touch()
    remove_parts(tmp_path)
    ended.wait()
    assert [p.name for p in tmp_path.iterdir()] == names[1:]
