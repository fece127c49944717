"""What an item costs that does nothing, and the memory of the client."""

from __future__ import annotations

import os
import time
from pathlib import Path

from items import trivial
from machines import machines

from opsplit._memory import peak_memory_mb
from opsplit.parallel import HERE, Where, run_items

N = 100_000
FEW = 5_000


def run(place: Path, n: int | None) -> dict:
    n = n or N
    found = {}
    with machines(place) as cluster:
        places = {
            "in this process": (HERE, FEW),
            "--workers 2": (Where(workers=2), FEW),
            "--cluster, two workers": (Where(cluster=cluster.address), FEW),
            "--cluster, two workers, many": (Where(cluster=cluster.address), n),
        }
        for name, (where, count) in places.items():
            # Of a cluster, workers import torch with their first item.
            list(run_items(trivial, range(4), 0.5, where))
            before, cpu, began = peak_memory_mb(), time.process_time(), time.monotonic()
            most = total = 0
            first = 0.0
            for outcome in run_items(trivial, range(count), 0.5, where):
                assert outcome.value == outcome.item + 0.5
                first = first or time.monotonic() - began
                total += 1
                if total % 1000 == 0:
                    most = max(most, resident_mb())
            found[name] = {
                "items": total, "first_seconds": first,
                "milliseconds": 1e3 * (time.monotonic() - began - first) / count,
                "client_cpu_milliseconds": 1e3 * (time.process_time() - cpu) / count,
                "resident_mb": most, "peak_before_mb": before, "peak_after_mb": peak_memory_mb(),
            }  # fmt: skip
    return {"places": found}


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def section(kept: dict) -> list[str]:
    return [
        "## Overhead", "",
        "Items that add two numbers. Quick items travel together, at most a hundred at a time. "
        "A pool starts its two processes for the first item, and each of them imports torch; items "
        "are counted after the first result. Goal: below 5 ms per item. Peak memory is the largest "
        "that the client process held until then; the client imports torch, which takes most of "
        "it.", "",
        "| place | items | seconds to the first result | milliseconds per item | of them CPU of "
        "the client | peak MB before | after |", "|---|---|---|---|---|---|---|",
        *(
            f"| {name} | {one['items']:,} | {one['first_seconds']:.1f} | "
            f"{one['milliseconds']:.3g} | "
            f"{one['client_cpu_milliseconds']:.3g} | {one['peak_before_mb']:.0f} | "
            f"{one['peak_after_mb']:.0f} |"
            for name, one in kept["places"].items()
        ),
    ]  # fmt: skip
