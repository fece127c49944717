"""Workers end with the process that started them, whatever ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

POOL = """
import multiprocessing, os, sys, time
from concurrent.futures import ProcessPoolExecutor
from opsplit._processes import begin_worker
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, begin_worker) as pool:
        busy = pool.submit(time.sleep, 600)
        print(pool.submit(os.getpid).result(), *pool._processes, flush=True)
        busy.result()
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def ended(pids: list[int], seconds: float = 10.0) -> bool:
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
