"""Time and memory: a limit holds in every phase, or the run is refused with what it needs."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import opsplit
from opsplit import OperatorSplitter, OpsplitError, Pursuit
from opsplit._deadline import time_is_up, within
from opsplit.io.helper import HELPER
from opsplit.model import Model
from opsplit.search.budget import Meter

Observe = Callable[..., tuple[torch.Tensor, Any, float]]
pytestmark = pytest.mark.filterwarnings("ignore::opsplit.OpsplitWarning")
QUICK = Pursuit(width=2, max_parts=2, refine="none")


def fit(model: Model, observe: Observe, times: np.ndarray | None = None, **more: Any) -> Any:
    u, grid, dt = observe(0.5, 0.2, frames=8, points=64)
    steps: dict[str, Any] = {"dt": dt} if times is None else {"times": times * dt}
    return OperatorSplitter(model, **{"search": QUICK, **more}).fit(u, extent=grid.extent, **steps)


def test_a_large_gap_costs_nothing(tiny_model: Model, observe: Observe) -> None:
    """Nothing is carried across it: a million steps took hours, whatever the budget."""
    found = {}
    for gap in (100.0, 1e6):
        times = np.arange(8.0)
        times[4:] += gap
        began = time.process_time()
        found[gap] = fit(tiny_model, observe, times)
        assert time.process_time() - began < 10
    short, long = found.values()
    assert short.coefficients_ == pytest.approx(long.coefficients_)
    assert short.verdict_.skill == pytest.approx(long.verdict_.skill, rel=1e-6)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as a test wants it: a busy machine may lose seconds between two lines."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_one_budget_for_everything_inside(clock: list[float]) -> None:
    with within(0.05), within(100.0):
        assert not time_is_up()
        clock[0] += 0.06
        assert time_is_up()
        meter = Meter()
        with meter.limited(None, None), pytest.raises(Exception, match="stopped by max_seconds"):
            meter.check()
    assert not time_is_up()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".h5", ".nc"])
def test_no_file_is_read_after_the_time(tmp_path: Path, suffix: str) -> None:
    path, u = tmp_path / f"u{suffix}", np.random.default_rng(0).normal(size=(8, 16))
    if suffix == ".h5":
        h5py.File(path, "w").create_dataset("u", data=u)
    elif suffix == ".nc":
        held = pytest.importorskip("xarray").Dataset({"u": (("time", "x"), u)})
        held.to_netcdf(path, engine="h5netcdf")
    else:
        {".npy": np.save, ".npz": np.savez, ".csv": np.savetxt}[suffix](path, u)
    with within(0.0), pytest.raises(OpsplitError, match=f"max_seconds was over before .*{path}"):
        opsplit.read(path, dt=0.1)
    recording = opsplit.read(path, dt=0.1)
    with within(0.0), pytest.raises(OpsplitError, match="max_seconds was over"):
        recording.frames()
    assert recording.frames().shape == (8, 1, 16)


def test_reading_stops_between_frames_and_between_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    path, u = tmp_path / "u.csv", np.random.default_rng(0).normal(size=(500, 16))
    np.savetxt(path, u)
    monkeypatch.setattr("opsplit.io.recording.PIECE_MB", 1e-9)
    monkeypatch.setattr("opsplit.io.csv.PIECE", 7)
    recording, read = opsplit.read(path, dt=0.1), []
    with within(100.0):
        np.testing.assert_array_equal(recording.frames()[:, 0], np.loadtxt(path))

    def slow(trajectory: int, frames: slice) -> np.ndarray:
        read.append(frames)
        clock[0] += 0.02
        return recording.fetch(trajectory, frames)

    with within(0.1), pytest.raises(OpsplitError, match="max_seconds was over"):
        replace(recording, fetch=slow).frames()
    assert 1 <= len(read) <= 6
    ticks = iter(range(10_000))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))
    with within(20.0), pytest.raises(OpsplitError, match="max_seconds was over"):
        opsplit.read(path, dt=0.1)
    assert next(ticks) < 40


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="stops a process")
def test_a_disk_that_does_not_answer_is_given_up_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "u.h5"
    h5py.File(path, "w").create_dataset("u", data=np.ones((8, 16)))
    for seconds, slowest, words in ((0.2, 600.0, "max_seconds was over"), (None, 0.2, "its disk")):
        monkeypatch.setattr("opsplit.io.helper.SLOWEST", 600.0)
        HELPER.ask(path, "hdf5", 8.0)
        assert HELPER._process is not None
        os.kill(HELPER._process.pid, signal.SIGSTOP)
        monkeypatch.setattr("opsplit.io.helper.SLOWEST", slowest)
        with within(seconds), pytest.raises(OpsplitError, match=words):
            opsplit.read(path, dt=0.1)
    monkeypatch.setattr("opsplit.io.helper.SLOWEST", 600.0)
    assert opsplit.read(path, dt=0.1).shape == (1, 8, 1, 16)


def test_a_forecast_stops_in_time(
    tiny_model: Model, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Pursuit(width=2, max_parts=1, refine="none")
    splitter = fit(tiny_model, observe, search=search)
    splitter.search = replace(search, max_seconds=0.3)
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: 1e-3 * next(ticks))
    found = splitter.forecast(200_000)
    # Not more looks at the clock than the limit has milliseconds, and a few.
    assert 300 <= next(ticks) < 330
    assert found.status.endswith(f"stopped by max_seconds before frame {found.broken}")
    assert bool(found.frames[: (found.broken or 1) - 1].isfinite().all())
    assert bool(found.frames[-1].isnan().all())


@pytest.mark.parametrize("far", [{"steps": 10**30}, {"times": [1e12]}, {"steps": 10_000_001}])
def test_endless_forecasts_are_refused(
    tiny_model: Model, observe: Observe, far: dict[str, Any]
) -> None:
    with pytest.raises(OpsplitError, match="10000000"):
        fit(tiny_model, observe).forecast(**far)


def test_forecasts_that_do_not_fit_into_memory_are_refused(
    tiny_model: Model, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    splitter = fit(tiny_model, observe)
    monkeypatch.setattr("opsplit._memory.room", lambda: 1e5)
    with pytest.raises(OpsplitError, match=r"1000 frames takes .* GB of memory"):
        splitter.forecast(1000)


def test_a_search_keeps_its_memory_or_says_what_it_needs(
    tiny_model: Model, observe: Observe
) -> None:
    with pytest.raises(OpsplitError, match=r"need (\d+) MB, the limit is 0 MB") as refused:
        fit(tiny_model, observe, memory_mb=0.01)
    needed = int(str(refused.value).split("--memory-mb ")[1].split()[0])
    assert fit(tiny_model, observe, memory_mb=needed).fit_error_ > 0


def test_the_ends_of_long_noisy_lines_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waves of a million points took eight gigabytes, whatever the limit."""
    from opsplit.predict import noisy_ends, rival_ends
    from opsplit.predict.ends import ends_of

    def refuse(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(noisy_ends, "_judged", refuse)
    noise = np.random.default_rng(0).standard_normal((16, 1, noisy_ends.LONGEST + 1))
    found = opsplit.read(noise.astype(np.float32), dt=0.1, axes="t,c,x")
    assert ends_of(found)[0].words == "periodic"
    assert list(rival_ends._rivals(found)) == []


def peak_mb(work: Callable[[], Any]) -> float:
    """The most memory that was taken at once, above what was taken before."""
    held = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    work()
    return resident("VmHWM") - held


def resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the peak")
def test_the_memory_limit_counts_the_frames_and_their_copies() -> None:
    """A million points took 1.4 GB within a limit of 256 MB."""
    points, frames = 200_000, 16
    x, t = np.arange(points) * 2 * np.pi / points, np.arange(frames)[:, None] * 0.1
    u = np.sin(x - t) + 0.5 * np.sin(3 * (x - t) + 1)
    with pytest.raises(OpsplitError, match="16 frames of 200000 numbers need at least") as refused:
        OperatorSplitter("advection-diffusion", memory_mb=64.0).fit(u, 0.1, 2 * np.pi)
    needed = float(str(refused.value).split("--memory-mb ")[1].split()[0])
    assert needed < 250
    tight = OperatorSplitter("advection-diffusion", memory_mb=needed)
    # Libraries that are loaded on the way are not counted.
    tight.fit(u[:, ::200], 0.1, 2 * np.pi).predict(2)
    assert peak_mb(lambda: tight.fit(u, 0.1, 2 * np.pi)) < needed
    assert tight.status_ == "explained"
    with pytest.raises(OpsplitError, match="A forecast of 100 frames need"):
        tight.forecast(100)
