"""The fuzz suite at full size, and what became of its inputs, by kind.

Damaged copies of small files of every format, files that point into other files, folders, damaged
model directories and resume files, and senseless command lines go to a process with 2 GB of room
and 10 seconds for each; some are read by four threads at once. `refused` counts those that ended
in one sentence (exit code 2), `accepted` those that were still valid; nothing else may happen.
`most_megabytes` is the most memory of the process, or of the one that examines files for it.

    python benchmarks/fuzz --inputs 50000
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from opsplit._files import origin, write_json

ROOT = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/fuzz", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--inputs", type=int, default=50_000, help="to be refused, about (50000)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "fuzz.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.jsonl"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "tests/fuzz",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
        ]
        more = {"OPSPLIT_FUZZ": str(args.inputs), "OPSPLIT_FUZZ_COUNTS": str(counts)}
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **more})
        rows = [json.loads(line) for line in counts.read_text().splitlines()]
    kinds = ("refused", "accepted", "failed", "crashed", "hung")
    total = Counter({kind: sum(row.get(kind, 0) for row in rows) for kind in kinds})
    record = {
        "what": "damaged inputs by how they ended",
        **origin(0),
        "command": shlex.join(["python", "benchmarks/fuzz", *sys.argv[1:]]),
        "passed": done.returncode == 0,
        "total": total,
        "most_megabytes": max(row["most_megabytes"] for row in rows),
        "longest_seconds": max(row["longest_seconds"] for row in rows),
        "rows": rows,
    }
    write_json(args.out, record)
    print(f"{dict(total)}: {args.out}")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
