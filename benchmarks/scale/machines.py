"""A scheduler and workers as processes of their own, on the loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
LOOPBACK = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])


class Machines:
    """One scheduler, some workers with their guards."""

    def __init__(self, place: Path, workers: int = 2, memory: str = "2GB") -> None:
        self.place, self.count, self.memory = place, workers, memory
        self.port = free_port()
        self.address = f"tcp://{LOOPBACK}:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start_scheduler(self) -> None:
        self._start("scheduler", "--host", LOOPBACK, "--port", str(self.port), "--no-dashboard")

    def start_workers(self) -> None:
        self._start(
            "worker", self.address, "--host", LOOPBACK, "--nworkers", str(self.count),
            "--nthreads", "1", "--memory-limit", self.memory, "--no-dashboard",
            "--local-directory", str(self.place),
        )  # fmt: skip

    def kill_scheduler(self) -> None:
        """End the scheduler at once."""
        self.processes["scheduler"].kill()
        self.processes["scheduler"].wait()

    def end_workers(self) -> None:
        """End the workers and their guards, if they have not ended themselves."""
        workers = self.processes["worker"]
        if workers.poll() is None:
            os.killpg(workers.pid, signal.SIGKILL)
            workers.wait()

    def worker_pids(self) -> list[int]:
        """Processes of the workers, as the scheduler knows them."""
        from distributed import Client

        with Client(self.address, timeout=30, set_as_default=False) as client:
            return sorted(client.run(os.getpid).values())

    def wait(self, seconds: float = 240.0) -> None:
        """Until all workers are there."""
        from distributed import Client

        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                with Client(self.address, timeout=10, set_as_default=False) as client:
                    client.wait_for_workers(self.count, timeout=max(1, until - time.monotonic()))
                    return
            except OSError:
                time.sleep(1)
        raise SystemExit(f"No {self.count} workers after {seconds:g} s; see {self.place}.")

    def _start(self, kind: str, *words: str) -> None:
        environment = os.environ | {
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
            "OMP_NUM_THREADS": "1",
            # Workers import the functions of the items from here.
            "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        }
        module = f"distributed.cli.dask_{kind}"
        with open(self.place / f"{kind}.log", "ab") as log:
            self.processes[kind] = subprocess.Popen(
                [sys.executable, "-m", module, *words], stdout=log, stderr=log, env=environment,
                process_group=0,
            )  # fmt: skip

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextmanager
def machines(place: Path, workers: int = 2, memory: str = "2GB") -> Iterator[Machines]:
    found = Machines(place, workers, memory)
    try:
        found.start_scheduler()
        found.start_workers()
        found.wait()
        yield found
    finally:
        found.stop()
