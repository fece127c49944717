"""Workers end with the process that started them, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest

from opsplit.parallel.pool import Pool

POOL = """
import time
from opsplit.parallel.pool import Pool
if __name__ == "__main__":
    pool = Pool(2)
    busy = pool.submit(time.sleep, 600)
    pool.submit(time.sleep, 0).result()
    print(*(slot._process.pid for slot in pool._slots), flush=True)
    busy.result()
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def ended(pids: list[int], seconds: float = 300.0) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.02)
    return not any(map(alive, pids))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("word", ["SIGKILL", "SIGTERM"])
def test_busy_and_idle_workers_die_with_their_parent(tmp_path: Path, word: str) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = sorted({int(pid) for pid in parent.stdout.readline().split()})
    assert len(workers) == 2 and all(map(alive, workers))
    os.kill(parent.pid, getattr(signal, word))
    parent.wait()
    parent.stdout.close()
    assert ended(workers)


def test_a_pool_ends_at_once_with_a_busy_worker_and_replaces_one_that_ended() -> None:
    pool = Pool(1)
    assert pool.submit(int, 1).result() == 1
    (slot,) = pool._slots
    assert slot._process is not None
    os.kill(slot._process.pid or 0, signal.SIGKILL)
    slot._process.join()
    assert pool.submit(int, 2).result() == 2
    busy = pool.submit(time.sleep, 600)
    waiting = pool.submit(int, 3)
    while not busy.running():
        time.sleep(0.01)
    began = time.monotonic()
    pool.kill()
    assert time.monotonic() - began < 300  # The item itself takes 600 s.
    assert isinstance(busy.exception(300), BrokenExecutor) and not waiting.done()
    assert not any(thread.is_alive() for thread in pool._threads)
