"""Scheduler and two workers: equal results, a worker killed, the scheduler killed."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from data import finish, forecasts, rows, start, write_files
from machines import machines

N = 96


def run(place: Path, n: int | None) -> dict:
    n = n or N
    data = write_files(place, n)
    code, said = finish(start(data, place / "serial"))
    assert code == 0, said
    serial, arrays = rows(place / "serial"), forecasts(place / "serial")
    assert len(serial) == n
    found: dict = {"n": n}
    code, said = finish(start(data, place / "pool", "--workers", "2"))
    assert code == 0, said
    found["pool_equal"] = (rows(place / "pool"), forecasts(place / "pool")) == (serial, arrays)
    with machines(place) as cluster:
        flag = ("--cluster", cluster.address)
        code, said = finish(start(data, place / "cluster", *flag))
        assert code == 0, said
        equal = (rows(place / "cluster"), forecasts(place / "cluster")) == (serial, arrays)
        found["cluster_equal"] = equal
        found["worker_killed"] = worker_killed(place, data, cluster, serial, arrays)
        found["scheduler_killed"] = scheduler_killed(place, data, cluster, serial, arrays)
    return found


def until_rows(out: Path, running, count: int, seconds: float = 300.0) -> int:
    """Wait until a run has written so many rows."""
    end = time.monotonic() + seconds
    while len(rows(out)) < count and running.poll() is None and time.monotonic() < end:
        time.sleep(0.02)
    return len(rows(out))


def worker_killed(place: Path, data: Path, cluster, serial: list, arrays: dict) -> dict:
    out, victim = place / "killed", cluster.worker_pids()[0]
    running = start(data, out, "--cluster", cluster.address)
    before = until_rows(out, running, len(serial) // 4)
    os.kill(victim, signal.SIGKILL)
    code, _ = finish(running)
    mine = rows(out)
    return {
        "rows_before": before, "exit_code": code, "rows": len(mine),
        "lost": len({r["item"] for r in serial} - {r["item"] for r in mine}),
        "doubled": len(mine) - len({r["item"] for r in mine}),
        "equal": (mine, forecasts(out)) == (serial, arrays),
    }  # fmt: skip


def scheduler_killed(place: Path, data: Path, cluster, serial: list, arrays: dict) -> dict:
    out = place / "restarted"
    cluster.wait()
    running = start(data, out, "--cluster", cluster.address)
    before = until_rows(out, running, len(serial) // 4)
    cluster.kill_scheduler()
    code, said = finish(running)
    kept = len(rows(out))
    cluster.start_scheduler()
    # Workers end with their scheduler.
    cluster.end_workers()
    cluster.start_workers()
    cluster.wait()
    again, words = finish(start(data, out, "--cluster", cluster.address))
    assert again == 0, words
    mine = rows(out)
    return {
        "rows_before": before, "exit_code": code,
        "said": said.strip().splitlines()[-1] if said.strip() else "", "rows_kept": kept,
        "exit_code_again": again, "rows": len(mine),
        "doubled": len(mine) - len({r["item"] for r in mine}),
        "equal": (mine, forecasts(out)) == (serial, arrays),
    }  # fmt: skip


def section(kept: dict) -> list[str]:
    killed, restarted = kept["worker_killed"], kept["scheduler_killed"]

    def yes(value: bool) -> str:
        return "yes" if value else "**no**"

    return [
        "## What is lost", "",
        f"`opsplit predict` on {kept['n']} trajectories of advection-diffusion (256 points, 16 "
        "frames observed, 34 predicted), in files of eight. *Equal* means that all rows of the "
        "table and the bytes of all forecasts are those of the run in one process.", "",
        "| run | rows | lost | doubled | equal |", "|---|---|---|---|---|",
        f"| `--workers 2` | {kept['n']} | 0 | 0 | {yes(kept['pool_equal'])} |",
        f"| `--cluster`, scheduler and two workers | {kept['n']} | 0 | 0 | "
        f"{yes(kept['cluster_equal'])} |",
        f"| one worker killed (-9) after {killed['rows_before']} rows | {killed['rows']} | "
        f"{killed['lost']} | {killed['doubled']} | {yes(killed['equal'])} |",
        f"| scheduler killed (-9) after {restarted['rows_before']} rows and started again, the "
        f"same command again | {restarted['rows']} | {kept['n'] - restarted['rows']} | "
        f"{restarted['doubled']} | {yes(restarted['equal'])} |", "",
        f"When its scheduler is killed, the command ends with exit code {restarted['exit_code']} "
        f"and one sentence: \"{restarted['said']}\" It had kept {restarted['rows_kept']} rows.",
    ]  # fmt: skip
