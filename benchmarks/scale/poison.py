"""Items that hang, crash, or need too much memory, among items that do not."""

from __future__ import annotations

import time
from pathlib import Path

from items import poisoned
from machines import machines

from opsplit.parallel import Where, run_items

POISON = ("hangs", "crashes", "needs too much memory", "fails")
LONGEST = 8.0
N = 40


def run(place: Path, n: int | None) -> dict:
    good = [f"good {i}" for i in range(n or N)]
    items = good[:7] + [x for i, word in enumerate(POISON) for x in (word, *good[7 + i :: 4])]
    found = {}
    with machines(place, memory="1GB") as cluster:
        places = {
            "--workers 2": Where(workers=2, longest=LONGEST),
            "--cluster": Where(cluster=cluster.address, longest=LONGEST),
        }
        for name, where in places.items():
            began = time.monotonic()
            outcomes = {o.item: o for o in run_items(poisoned, items, None, where)}
            found[name] = {
                "items": len(items), "outcomes": len(outcomes),
                "good": sum(outcomes[item].ok for item in good),
                "reasons": {word: outcomes[word].reason for word in POISON},
                "seconds": time.monotonic() - began,
            }  # fmt: skip
    return {"longest": LONGEST, "places": found}


def section(kept: dict) -> list[str]:
    lines = [
        "## Poisoned items", "",
        f"Forty items that work and one each that hangs (given {kept['longest']:g} s), crashes, "
        "fills its memory, and fails. An item that ends its worker is tried twice. A worker of the "
        "cluster has 1 GB; one of the pool has half of the machine's memory, so that there the "
        "item reaches the time limit first.", "",
    ]  # fmt: skip
    for name, one in kept["places"].items():
        lines += [
            f"`{name}`: {one['outcomes']} of {one['items']} items have an outcome, "
            f"{one['good']} of the good ones a value.", "", "| item | reason |", "|---|---|",
            *(f"| {word} | {reason} |" for word, reason in one["reasons"].items()), "",
        ]  # fmt: skip
    return lines[:-1]
