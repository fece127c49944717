"""Files of strangers: none reads outside itself, takes all memory, hangs or ends the process."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import opsplit
from opsplit._text import plain
from opsplit.errors import OpsplitError
from opsplit.io import helper, read_well
from opsplit.io.guard import opened
from opsplit.io.helper import HELPER, examined
from opsplit.io.load import load_trajectories
from opsplit.io.stored import StoredArray
from opsplit.io.well import write_well
from opsplit.physics.check import check_file
from opsplit.pretrain.data import load
from opsplit.trajectories import Trajectories


def well(path: Path, points: int = 8) -> Path:
    data = np.random.default_rng(0).normal(size=(2, 4, 1, points)).astype(np.float32)
    known = {"c": np.ones(2)}
    made = Trajectories.from_numpy(data, dt=0.1, extent=1.0, coefficients=known)
    return write_well(made, path, "advection-diffusion")


def netcdf(path: Path) -> Path:
    xarray = pytest.importorskip("xarray")
    values = np.random.default_rng(0).normal(size=(5, 16))
    held = xarray.Dataset({"u": (("time", "x"), values)}, {"time": np.arange(5.0)})
    held.to_netcdf(path, engine="h5netcdf")
    return path


CALLERS: dict[str, Callable[[Path], object]] = {
    "read": lambda p: opsplit.read(p).frames(0),
    "folder": lambda p: opsplit.read(p.parent).frames(0),
    "several": lambda p: opsplit.read([p, p]).frames(0),
    "read_well": lambda p: read_well(p),
    "training": lambda p: load(p),
    "trajectories": lambda p: load_trajectories(p),
    "generate --check": lambda p: check_file(p),
}


def external_link(file: Any, name: str, secret: Path) -> None:
    del file[name]
    file[name] = h5py.ExternalLink(str(secret), "/secret")


def soft_to_external(file: Any, name: str, secret: Path) -> None:
    external_link(file, "elsewhere" if "elsewhere" in file else name, secret)
    file.move(name, "hidden")
    file[name] = h5py.SoftLink("/hidden")


def external_storage(file: Any, name: str, secret: Path) -> None:
    shape, kept = file[name].shape, dict(file[name].attrs)
    del file[name]
    made = file.create_dataset(name, shape, "f4", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
    made.attrs.update({k: v for k, v in kept.items() if "DIMENSION" not in k and k != "_Netcdf4"})


def virtual(file: Any, name: str, secret: Path) -> None:
    shape, kept = file[name].shape, dict(file[name].attrs)
    del file[name]
    layout = h5py.VirtualLayout(shape, "f4")
    layout[...] = h5py.VirtualSource(str(secret), "secret", shape)
    made = file.create_virtual_dataset(name, layout)
    made.attrs.update({k: v for k, v in kept.items() if "DIMENSION" not in k and k != "_Netcdf4"})


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("trick", [external_link, soft_to_external, external_storage, virtual])
def test_no_caller_reads_outside_a_file(
    tmp_path: Path, trick: Callable[[Any, str, Path], None], caller: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    with h5py.File(secret / "s.h5", "w") as file:
        file["secret"] = np.full((2, 4, 8), 7, dtype="f4")
    path = well(tmp_path / "in" / "a.hdf5")
    with h5py.File(path, "r+") as file:
        trick(file, "t0_fields/u", secret / "s.h5")
    with pytest.raises(OpsplitError, match=r"a\.hdf5.* another file"):
        CALLERS[caller](path)


@pytest.mark.parametrize("trick", [external_link, soft_to_external, external_storage, virtual])
@pytest.mark.parametrize("place", ["u", "time"])
def test_netcdf_does_not_read_outside_a_file(
    tmp_path: Path, trick: Callable[[Any, str, Path], None], place: str
) -> None:
    """The bytes of a system file came back as a field."""
    path = netcdf(tmp_path / "a.nc")
    with h5py.File(path, "r+") as file:
        trick(file, place, Path("/etc/hostname"))
    with pytest.raises(OpsplitError, match=r"a\.nc.* another file"):
        opsplit.read(path)


@pytest.mark.parametrize("caller", CALLERS)
def test_a_pipe_keeps_no_caller_waiting(tmp_path: Path, caller: str) -> None:
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "in" / "a.hdf5")
    # Whoever opens it waits for a writer that never comes.
    with pytest.raises(OpsplitError, match="not a regular file"):
        CALLERS[caller](tmp_path / "in" / "a.hdf5")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".nc", ".h5"])
def test_pipes_of_all_names(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"a{suffix}")
    with pytest.raises(OpsplitError, match="not a regular file"):
        opsplit.read(tmp_path / f"a{suffix}")


@pytest.mark.parametrize("caller", ["folder", "several", "read_well", "training", "trajectories"])
def test_small_files_do_not_take_large_memory(tmp_path: Path, caller: str) -> None:
    """Chunks that were never written are zeros: kilobytes that claim gigabytes."""
    path = well(tmp_path / "in" / "a.hdf5")
    with h5py.File(path, "r+") as file:
        field = file["t0_fields/u"]
        field.resize(10_000_000, 0)
        file.attrs["n_trajectories"] = 10_000_000
    assert path.stat().st_size < 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(OpsplitError, match="claims"):
        CALLERS[caller](path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_counts_are_multiplied_before_they_are_believed(tmp_path: Path) -> None:
    """Ten million trajectories are believed, and so are a thousand names, but not both."""
    path = well(tmp_path / "a.hdf5")
    names = [f"k{i}" for i in range(300)]
    with h5py.File(path, "r+") as file:
        file.attrs["n_trajectories"] = 9_000_000
        group = file["scalars"]
        group.attrs.create("field_names", names, (300,), h5py.string_dtype())
        for name in names:
            group[name] = np.float32(1)
            group[name].attrs.update({"sample_varying": False, "time_varying": False})
    with pytest.raises(OpsplitError, match="claims"):
        opsplit.read(path)


def test_memory_is_looked_at_before_it_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = well(tmp_path / "a.hdf5")
    monkeypatch.setattr("opsplit._memory.room", lambda: 100.0)
    for caller in ("read_well", "training", "trajectories"):
        with pytest.raises(OpsplitError, match=r"takes .* GB of memory, of which"):
            CALLERS[caller](path)


def ask_for(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    monkeypatch.setattr(HELPER, "ask", lambda *_: answer)


def test_every_end_of_the_helper_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "bad.h5"
    file.write_text("no HDF5")
    for answer, words in (
        (-signal.SIGSEGV, r"bad\.h5 crashes the library"),
        (0, r"bad\.h5 crashes the library"),
        ({"memory": "yes"}, r"bad\.h5 asks for more memory"),
        ({"failed": "no\nsignature"}, r"bad\.h5 cannot be read as HDF5 \(no signature\)"),
        (-signal.SIGXCPU, r"bad\.h5 cannot be opened in 8 s of the processor"),
        # A file that took too long is not examined again: several threads may ask for it.
        ({}, r"bad\.h5 cannot be opened in 8 s of the processor"),
    ):
        ask_for(monkeypatch, answer)
        with pytest.raises(OpsplitError, match=words):
            examined(file, "hdf5", "as HDF5")


@pytest.mark.parametrize("way", ["crash", "hang", "memory"])
def test_the_helper_survives_its_files(tmp_path: Path, way: str) -> None:
    """A process that ends is replaced, and the next file is read as if nothing had been."""
    good, bad = well(tmp_path / "good.hdf5"), tmp_path / "bad.hdf5"
    bad.write_bytes(good.read_bytes())
    process = HELPER._started()
    if way == "crash":
        os.kill(process.pid, signal.SIGSTOP)
        threading.Timer(0.2, process.kill).start()
        with pytest.raises(OpsplitError, match="crashes the library"):
            examined(bad, "hdf5", "as HDF5")
    else:
        code = {
            "hang": "examine.LOOKS['hdf5'] = lambda p: [0 for _ in iter(int, 1)]",
            "memory": "examine.LOOKS['hdf5'] = lambda p: bytearray(4 * 2**30)",
        }[way]
        HELPER.stop()
        start = helper.START.replace("main()", f"from opsplit.io import examine; {code}; main()")
        before, helper.START = helper.START, start
        try:
            words = "1 s of the processor" if way == "hang" else "more memory"
            patience, helper.PATIENCE = helper.PATIENCE, 1.0
            with pytest.raises(OpsplitError, match=words):
                examined(bad, "hdf5", "as HDF5")
        finally:
            helper.START, helper.PATIENCE = before, patience
    assert len(opsplit.read(good)) == 2


def test_a_file_is_examined_once_and_again_when_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = well(tmp_path / "a.hdf5"), []
    ask = HELPER.ask

    def count(*words: Any) -> Any:
        asked.append(words)
        return ask(*words)

    monkeypatch.setattr(HELPER, "ask", count)
    for _ in range(3):
        with opened(path) as file:
            assert "t0_fields" in file
    assert len(asked) == 1
    well(path, points=16)
    opsplit.read(path)
    assert len(asked) == 2


def test_threads_read_good_files(tmp_path: Path) -> None:
    """A fork of a threaded process copied locks that nobody held any more."""
    files = [netcdf(tmp_path / f"{i}.nc") for i in range(6)]
    wrong: list[BaseException] = []

    def work() -> None:
        try:
            for file in files:
                opsplit.read(file).frames(0)
                os.utime(file)
        except BaseException as reason:
            wrong.append(reason)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


READER = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background jobs ignore it.
import json, os, sys, time
from pathlib import Path
from opsplit.io.helper import HELPER, examined
examined(Path(sys.argv[1]), "hdf5", "as HDF5")
print(json.dumps([os.getpid(), HELPER._process.pid]), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("word", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_the_helper_dies_with_its_parent(tmp_path: Path, word: str) -> None:
    path = well(tmp_path / "a.hdf5")
    parent = subprocess.Popen(
        [sys.executable, "-c", READER, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    _, child = json.loads(parent.stdout.readline())
    os.kill(parent.pid, getattr(signal, word))
    parent.wait(timeout=300)
    parent.stdout.close()
    deadline = time.monotonic() + 300
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()


def test_modules_in_the_current_folder_are_not_run(tmp_path: Path) -> None:
    path = well(tmp_path / "a.hdf5")
    (tmp_path / "h5py.py").write_text("open('ran', 'w')")
    code = (
        "import sys; sys.path.remove(''); import os, pathlib; "
        "from opsplit.io.helper import examined; "
        f"os.chdir({str(tmp_path)!r}); examined(pathlib.Path({str(path)!r}), 'hdf5', '')"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/")
    assert not (tmp_path / "ran").exists()


CUT = """
import sys
from pathlib import Path
import opsplit
path = Path(sys.argv[1])
recording = opsplit.read(path, dt=0.1)
with open(path, "rb+") as stream:
    stream.truncate(path.stat().st_size // 2)
try:
    recording.frames(0)
except opsplit.OpsplitError as reason:
    print(reason)
"""


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_file_that_is_cut_while_it_is_open_is_no_bus_error(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    field = np.zeros((64, 4096))
    if suffix == ".npy":
        np.save(path, field)
    else:
        np.savez(path, u=field)
    done = subprocess.run(
        [sys.executable, "-c", CUT, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert path.name in done.stdout


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("block", [0, 64, 2**26])
def test_slices_of_a_stored_array(
    tmp_path: Path, order: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opsplit.io.stored.BLOCK", block)
    whole = np.asarray(np.random.default_rng(0).normal(size=(3, 5, 4)), order=order)
    (tmp_path / "a").write_bytes(b"head" + whole.tobytes(order))
    held = StoredArray(tmp_path / "a", 4, whole.shape, whole.dtype, order == "F")
    for index in (
        (1, slice(0, 5), slice(None)), (slice(None), slice(1, 5, 2), slice(0, 3)),
        (slice(1, 3), slice(None), slice(None)), (slice(0, 3, 2), 4, slice(None)),
        (slice(None), slice(None), 2), (2, 3, 1),
    ):  # fmt: skip
        assert np.array_equal(held[index], whole[index])


def test_many_members_and_variables(tmp_path: Path) -> None:
    """2,000 numbers beside a field are unusual, not damage."""
    many = {f"k{i}": np.array(float(i)) for i in range(2000)}
    field = np.random.default_rng(0).normal(size=(5, 16))
    np.savez(tmp_path / "a.npz", u=field, dt=0.1, **many)
    sci = pytest.importorskip("scipy.io")
    sci.savemat(tmp_path / "a.mat", {"usol": field, "t": np.arange(16.0), **many})
    for name in ("a.npz", "a.mat"):
        began = time.process_time()
        found = opsplit.read(tmp_path / name)
        assert time.process_time() - began < 4
        assert len(found.coefficients) == 2000


def test_a_bomb_in_an_archive(tmp_path: Path) -> None:
    """40 members of zeros, a kilobyte each, of 80 MB each."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(4):
            with archive.open(f"k{i}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.zeros(9_000_000))
    with pytest.raises(OpsplitError, match="claims"):
        opsplit.read(path)


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_are_inflated_only_as_far_as_asked(tmp_path: Path, way: int) -> None:
    """Python inflates such members a buffer of compressed bytes at a time, whatever is asked."""
    np.save(tmp_path / "u.npy", np.ones((8, 16)))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", way) as archive:
        archive.write(tmp_path / "u.npy", "u.npy")
    with pytest.raises(OpsplitError, match="numpy does not use"):
        opsplit.read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "text",
    [
        "#" + "a" * 1_000_000 + "\n1,2\n3,4\n",
        "#" + "a = " * 1_000_000 + "\n1,2\n3,4\n",
        "t,x," + "[ " * 100_000 + "\n1,2,3\n",
        "#\n" * 3_000_000,
    ],
)
def test_no_pattern_takes_long_on_a_long_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    began = time.process_time()
    with contextlib.suppress(OpsplitError):
        opsplit.read(tmp_path / "a.csv")
    assert time.process_time() - began < 5


def test_numbers_and_names_that_no_file_can_have(tmp_path: Path) -> None:
    np.save(tmp_path / "pair.npy", np.ones((8, 16), [("real", "f4"), ("imag", "U4")]))
    (tmp_path / "empty.csv").touch()
    for name in ("pair.npy", "empty.csv", "x" * 300 + ".npy"):
        with pytest.raises(OpsplitError, match=name[:4]):
            opsplit.read(tmp_path / name)
    (tmp_path / "dt.csv").write_text("# dt = 1e999\n1,2\n3,4\n")
    with warnings.catch_warnings(), pytest.raises(OpsplitError, match="times must increase"):
        warnings.simplefilter("error")
        opsplit.read(tmp_path / "dt.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert opsplit.read(np.ones((8, 16)), times=1e300 * np.arange(8)).times[1] == 1e300


@pytest.mark.parametrize("way", ["field", "times"])
def test_many_small_chunks_are_refused(tmp_path: Path, way: str) -> None:
    """Two kilobytes of file, of which HDF5 would make 6 GB."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        chunks = (1, 1) if way == "field" else (8, 16)
        file.create_dataset("u", (1000, 1000) if way == "field" else (8, 16), "f4", chunks=chunks)
        file.create_dataset("t", (10**6,) if way == "times" else (1000,), "f8", chunks=(1,))
    with pytest.raises(OpsplitError, match="1000000 chunks of"):
        opsplit.read(tmp_path / "a.h5")


def test_names_from_a_file_do_not_spoil_a_message(tmp_path: Path) -> None:
    assert plain("a\nb\x00c") == "a?b?c"
    assert len(plain("x" * 5000)) <= 600
    np.savez(tmp_path / "two.npz", **{"a\n" * 900: np.zeros((4, 8)), "b": np.zeros((4, 9))})
    with pytest.raises(OpsplitError, match=r"two\.npz") as reason:
        opsplit.read(tmp_path / "two.npz")
    assert "\n" not in str(reason.value) and len(str(reason.value)) <= 600


def test_attributes_are_added_up_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file["u"] = np.ones((8, 16))
        for i in range(2):
            file.attrs.create(f"a{i}", np.zeros(6_000_000, "f8"))
    with pytest.raises(OpsplitError, match="attributes claim more than 10000000 numbers"):
        opsplit.read(path)
