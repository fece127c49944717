"""The fuzz suite at full size, and what became of its inputs, by kind.

Damaged copies of small files of every format, files that point into other files, folders, damaged
model directories and resume files, and senseless command lines go to a process with 2 GB of room
and 10 seconds for each; some are read by four threads at once. `refused` counts those that ended
in one sentence (exit code 2), `accepted` those that were still valid; nothing else may happen.
`most_megabytes` is the most memory of the process, or of the one that examines files for it.

A run that was stopped goes on with the same command: kinds that are counted are kept in `--state`,
unless the commit or the number of inputs is another one. With `--replay`, kinds that passed at
another commit are kept too, and those in which something was found are counted again; every row
says its commit. A run that `--minutes` ended says that it is not `complete`: command lines, which
take longest, come last.

    python benchmarks/fuzz --inputs 50000
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

from opsplit._files import write_json
from opsplit._origin import commit, origin

ROOT = Path(__file__).parents[2]
SUITES = [f"tests/fuzz/test_fuzz_{name}.py" for name in ("files", "models", "flags")]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/fuzz", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--inputs", type=int, default=50_000, help="to be refused, about (50000)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "fuzz.json")
    parser.add_argument("--state", type=Path, default=ROOT / "runs" / "fuzz.jsonl")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long (never)")
    parser.add_argument("--replay", action="store_true", help="keep what passed at other commits")
    args = parser.parse_args()
    run = {"inputs": args.inputs, "commit": commit()}
    held = args.state.read_text().splitlines() if args.state.exists() else [json.dumps(run)]
    before = json.loads(held[0])
    kept = before == run or (args.replay and before["inputs"] == run["inputs"])
    counted = [{"commit": before["commit"], **json.loads(line)} for line in held[1:] if kept]
    args.state.parent.mkdir(parents=True, exist_ok=True)
    args.state.write_text("".join(json.dumps(row) + "\n" for row in (run, *counted)))
    command = [sys.executable, "-m", "pytest", *SUITES, "-n", "0", "-p", "no:cacheprovider"]
    more = {"OPSPLIT_FUZZ": str(args.inputs), "OPSPLIT_FUZZ_COUNTS": str(args.state)}
    done = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **more})
    try:
        done.wait(None if args.minutes is None else 60 * args.minutes)
    except subprocess.TimeoutExpired:
        done.terminate()  # Its worker ends with it.
        done.wait()
    # A kind that went wrong is counted again by the next run: its last count is the one.
    lines = args.state.read_text().splitlines()[1:]
    counted = [{"commit": run["commit"], **json.loads(line)} for line in lines]
    rows = list({row["kind"]: row for row in counted}.values())
    kinds = ("refused", "accepted", "failed", "crashed", "hung")
    total = Counter({kind: sum(row.get(kind, 0) for row in rows) for kind in kinds})
    record = {
        "what": "damaged inputs by how they ended",
        **origin(0),
        "command": _command(args),
        "passed": not any(row["bad"] for row in rows),
        "complete": done.returncode == 0,
        "total": total,
        "most_megabytes": max(row["most_megabytes"] for row in rows),
        "longest_seconds": max(row["longest_seconds"] for row in rows),
        "rows": rows,
    }
    write_json(args.out, record)
    print(f"{dict(total)}: {args.out}")
    sys.exit(done.returncode)


def _command(args: argparse.Namespace) -> str:
    """The command as a user would type it, without where on this machine its files are."""
    more = ["--replay"] if args.replay else []
    more += [] if args.minutes is None else ["--minutes", f"{args.minutes:g}"]
    return shlex.join(["python", "benchmarks/fuzz", "--inputs", str(args.inputs), *more])


if __name__ == "__main__":
    main()
