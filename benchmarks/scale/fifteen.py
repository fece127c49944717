"""What a pass over 15 TB of trajectories would cost on 1,000 cores, from the measured figures."""

from __future__ import annotations

from growth import per_item

BYTES = 15e12
CORES = 1000
POINTS, FRAMES = 256, 100
WRITTEN = 34
DISK = 2e9
"""Bytes per second that a shared disk of a cluster gives to one job: an assumption."""
ITEM = 64
"""Trajectories of a work item."""


def section(held: dict) -> list[str]:
    if not {"growth", "overhead"} <= held.keys():
        return []
    fit = per_item(held["growth"])
    call = held["overhead"]["places"]["--cluster, two workers, many"]["client_cpu_milliseconds"]
    single = held["overhead"]["places"]["--cluster, two workers"]["milliseconds"]
    size = 4 * POINTS * FRAMES
    count = BYTES / size
    items = count / ITEM
    hours = {
        "fits and forecasts on the cores": count * fit / CORES / 3600,
        "reading everything at 2 GB/s": BYTES / DISK / 3600,
        "reading the windows alone": count * 4 * POINTS * 16 / DISK / 3600,
        "writing the forecasts": count * 4 * POINTS * WRITTEN / DISK / 3600,
        "the client: one work item after the other": items * single / 1e3 / 3600,
    }
    first = max(hours, key=lambda k: hours[k] if "everything" not in k else 0)
    return [
        "## 15 TB on 1,000 cores, computed", "",
        f"Trajectories of {FRAMES} frames with {POINTS} points in single precision: "
        f"{size / 1e3:.0f} kB each, {count:.2g} of them, {items:.2g} work items of {ITEM}. "
        "Nothing below was run at this size; every line is a product of figures measured above "
        f"and of the assumed {DISK / 1e9:g} GB/s of a shared disk.", "",
        "| part | figure | hours |", "|---|---|---|",
        f"| fits and forecasts on the cores | {1e3 * fit:.0f} ms of CPU per trajectory | "
        f"{hours['fits and forecasts on the cores']:.1f} |",
        f"| reading the windows | 16 of {FRAMES} frames | "
        f"{hours['reading the windows alone']:.1f} |",
        f"| reading everything | where chunks hold whole trajectories | "
        f"{hours['reading everything at 2 GB/s']:.1f} |",
        f"| writing the forecasts | {WRITTEN} frames, one file each | "
        f"{hours['writing the forecasts']:.1f} |",
        f"| the client, one work item after the other | {single:.2g} ms per call (CPU of the "
        f"client in bundles: {call:.2g} ms) | "
        f"{hours['the client: one work item after the other']:.1f} |", "",
        f"The first bottleneck is: {first}. The parts overlap, so a pass takes about "
        f"{max(hours.values()):.1f} hours and {count * fit / 3600:.3g} core hours. One table of "
        f"{count:.2g} rows does not fit into the memory of the client, which holds all rows to "
        "write table and page: split such a data set over several runs with an `--out` each "
        "(a run of 10^6 rows takes about 1 GB). One file per forecast is too many for most "
        "shared disks at this size: `identify` writes none.",
    ]  # fmt: skip
