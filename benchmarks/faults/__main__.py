"""Kills at random moments inside writes: nothing is orphaned, locked, mixed or lost.

Five commands run again and again. A file layer (`layer.py`) stops each run inside a write that
was drawn at random: at its beginning, when half of it is on disk, or before it takes its place.
Then the process, a child of it or the whole group is sent TERM, KILL or INT. After that

- no process of the run is alive;
- every file that is there can be read, and a record with a result speaks of just these files;
- the same command, run again, takes the lock, ends well, leaves no partial file, and gives the
  numbers of a run that was never killed.

    OMP_NUM_THREADS=1 python benchmarks/faults --kills 200
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import layer

ROOT = Path(__file__).parents[2]
SIGNALS = ("TERM", "KILL", "INT")
TARGETS = ("process", "child", "group")
MODEL = ROOT / "src" / "opsplit" / "zoo" / "advection-diffusion" / "spectral"
LATE = 120.0
"""Seconds of the processor that a run may take to get to its write, or to its end, ..."""
PATIENCE = 1800.0
"""... and seconds on the wall: the machine may do other work too."""


@dataclass(frozen=True)
class Command:
    """A command line, the folder that it writes, and the numbers that must come out."""

    line: str
    out: str
    numbers: Callable[[Path], Any]
    forced: bool = False
    """Whether it is also run with --force over a finished result."""


def _frames(folder: Path) -> Any:
    import opsplit

    return opsplit.read(folder / "forecast.hdf5").frames(0).tolist()


def _trajectories(folder: Path) -> Any:
    from opsplit.io import read_well

    data = read_well(folder / "advection-diffusion" / "data" / "test").data
    return float(data.double().sum()), float(data.double().square().sum())


def _weights(folder: Path) -> Any:
    from opsplit.model import Model

    held = Model.load(folder).disco.state_dict()
    return {name: float(tensor.double().square().sum()) for name, tensor in held.items()}


def _table(folder: Path) -> Any:
    rows = json.loads((folder / "method.json").read_text())
    return [(row["method"], row["column"], row["n"], row["nrmse"]) for row in rows]


def _factors(folder: Path) -> Any:
    return json.loads((folder / "calibration.json").read_text())["coefficients"]


COMMANDS = {
    "predict": Command(
        f"predict in.hdf5 --model {MODEL} --steps 3 --max-parts 1 --report page.html", "forecast",
        _frames, forced=True,
    ),
    "generate": Command(
        "generate advection-diffusion --format hdf5 --split A+D --n 130 --frames 3 --workers 2",
        "data", _trajectories,
    ),
    "pretrain": Command(
        "pretrain advection-diffusion --preset tiny --steps 6 --threads 1 "
        "--training.budget.checkpoint-steps 2 --training.budget.validate-every 3 --out run",
        "run", _weights,
    ),
    "benchmark": Command(
        f"benchmark advection-diffusion --method persistence,direct --n 2 --model {MODEL} "
        "--cache cache --out results", "results", _table, forced=True,
    ),
    "calibrate": Command(
        f"calibrate --model {MODEL} --n 1 --out factors", "factors", _factors, forced=True,
    ),
}  # fmt: skip


def begin(folder: Path, line: str, plan: dict[str, Any]) -> int:
    """A run in a process group of its own; the number of the process."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        nice = session_nice()
        os.setsid()
        session_nice(nice)
        os.chdir(folder)
        quiet = os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.environ[layer.PLAN] = json.dumps(plan)
        from opsplit import cli

        sys.argv = ["opsplit", *shlex.split(line)]
        cli.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        import atexit

        atexit._run_exitfuncs()
        os._exit(code)


def session_nice(wanted: str | None = None) -> str | None:
    """How the system ranks this session among others; a new session is to have the rank of ours."""
    place = Path("/proc/self/autogroup")
    with contextlib.suppress(OSError, IndexError):
        if wanted is not None:
            place.write_text(wanted)
        return place.read_text().split()[-1]
    return None


def apart(work: Callable[[], Any]) -> Any:
    """What a function says in a process of its own: ours stays without threads, fit for forks."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            found = json.dumps(work())
        except Exception as reason:
            found = json.dumps(f"failed: {reason}")
        with os.fdopen(writes, "w") as stream:
            stream.write(found)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def processes_of(group: int) -> dict[int, float]:
    """Processes of a session that are not merely waiting to be forgotten, and their seconds."""
    found = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                words = (place / "stat").read_text().rsplit(")", 1)[1].split()
                if int(words[3]) == group and words[0] != "Z":
                    ticks = sum(map(int, words[11:15]))
                    found[int(place.name)] = ticks / os.sysconf("SC_CLK_TCK")
    return found


def wait_until(condition: Callable[[], Any], seconds: float, group: int | None = None) -> bool:
    """Whether a condition comes true in time, and before a session has computed for too long."""
    until, looked = time.monotonic() + seconds, time.monotonic()
    while not condition():
        if time.monotonic() > until:
            return False
        if group is not None and time.monotonic() > looked + 5:
            looked = time.monotonic()
            if sum(processes_of(group).values()) > LATE:
                return False
        time.sleep(0.01)
    return True


def ended(pid: int) -> int | None:
    """The exit code of a run, which is ended if it takes too long."""
    found: list[int] = []

    def look() -> bool:
        done, status = os.waitpid(pid, os.WNOHANG)
        found.extend([status] if done else [])
        return bool(done)

    if not wait_until(look, PATIENCE, pid):
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return None
    return os.waitstatus_to_exitcode(found[0])


def finished(folder: Path, line: str) -> int | None:
    """Run a command to its end."""
    plan = {"log": str(folder / "log"), "write": -1, "stage": "", "release": str(folder / "go")}
    return ended(begin(folder, line, plan))


def unreadable(folder: Path) -> list[str]:
    """What is wrong with the files of a folder after a kill."""
    import opsplit
    from opsplit._files import PART, unchanged
    from opsplit._tensors import read_tensors

    wrong = []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            if path.suffix == ".json":
                held = json.loads(path.read_text())
                done = isinstance(held, dict) and held.get("result") and "files" in held
                if done and not unchanged(held["files"], path.parent):
                    wrong.append(f"{path.name} speaks of other files")
            elif path.suffix == ".hdf5":
                opsplit.read(path).frames(0)
            elif path.suffix == ".safetensors":
                read_tensors(path.parent, path.name, lambda shapes: None)
            elif path.suffix == ".png" and not path.read_bytes().startswith(b"\x89PNG"):
                wrong.append(f"{path.name} is no picture")
            elif path.suffix == ".html" and "</html>" not in path.read_text():
                wrong.append(f"{path.name} is cut")
            elif path.suffix == ".part" and not PART.fullmatch(path.name):
                wrong.append(f"{path.name} is no partial file of ours")
        except Exception as reason:
            wrong.append(f"{path.name}: {reason}")
    return wrong


def trial(command: Command, folder: Path, draw: random.Random, truth: Any, writes: int) -> Any:
    """One kill and everything that is looked at after it."""
    forced = command.forced and draw.random() < 0.5
    if forced:
        shutil.copytree(folder.with_name(f"{command.out}-whole"), folder, dirs_exist_ok=True)
        (folder / "log").unlink()
    line = f"{command.line} --force" if forced else command.line
    word, target, stage = draw.choice(SIGNALS), draw.choice(TARGETS), draw.choice(layer.STAGES)
    number, log = draw.randrange(writes), folder / "log"
    plan = {"log": str(log), "write": number, "stage": stage, "release": str(folder / "go")}
    run = begin(folder, line, plan)

    def inside() -> str | None:
        said = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
        return next((text for text in said if text.startswith("inside ")), None)

    gone: list[tuple[int, int]] = []

    def over() -> bool:
        gone.extend([found] if (found := os.waitpid(run, os.WNOHANG))[0] else [])
        return bool(gone)

    wait_until(lambda: inside() or over(), PATIENCE, run)
    where = inside()
    facts = {"signal": word, "target": target, "stage": stage, "write": number, "forced": forced}
    if where is None:
        os.killpg(run, signal.SIGKILL) if not gone else None
        return {**facts, "inside": False, "wrong": []}
    facts |= {"inside": True, "file": where.split()[2]}
    others = [pid for pid in processes_of(run) if pid != run]
    aim = draw.choice(others) if target == "child" and others else run
    if target == "group":
        os.killpg(run, getattr(signal, f"SIG{word}"))
    else:
        os.kill(aim, getattr(signal, f"SIG{word}"))
    facts["hit"] = "group" if target == "group" else "process" if aim == run else "child"
    # What was not hit goes on: a child may die and its parent finish the work.
    time.sleep(0.05)
    (folder / "go").touch()
    if not gone:
        facts["exit"] = ended(run)
    wrong = []
    if not wait_until(lambda: not processes_of(run), 60.0):
        wrong.append(f"orphans: {list(processes_of(run))}")
        for pid in processes_of(run):
            os.kill(pid, signal.SIGKILL)
    wrong += apart(lambda: unreadable(folder / command.out))
    code = finished(folder, line)
    if code not in (0, 3):
        wrong.append(f"the same command again ended with {code}")
    else:
        again = apart(lambda: command.numbers(folder / command.out))
        wrong += ["other numbers"] if again != truth else []
        left = [str(p.name) for p in (folder / command.out).rglob("*.part")]
        wrong += [f"partial files: {left}"] if left else []
        wrong += apart(lambda: unreadable(folder / command.out))
    if wrong:
        wrong.append((folder / "said").read_text("utf-8", "replace")[-600:])
    return {**facts, "wrong": wrong}


def prepare(folder: Path) -> None:
    """The input of the predictions."""
    from opsplit.io import write_well
    from opsplit.physics import get_physics

    made = get_physics("advection-diffusion").generate("A+D", 1, seed=1)
    write_well(made.windows(8, 0), folder / "in.hdf5", "advection-diffusion")


def fresh(scratch: Path, name: str) -> Path:
    folder = scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copy(scratch / "in.hdf5", folder)
    return folder


def suite(names: list[str], kills: int, seed: int, seconds: float) -> dict[str, Any]:
    """So many kills over these commands, or fewer if the time is over."""
    draw, trials, writes = random.Random(seed), [], {}
    until = time.monotonic() + seconds
    # Not a context manager: forks of this process would remove the folder when they end.
    scratch = Path(tempfile.mkdtemp())
    try:
        apart(lambda: prepare(scratch))
        truths = {}
        for name in names:
            folder, command = fresh(scratch, "run"), COMMANDS[name]
            code = finished(folder, command.line)
            assert code in (0, 3), f"{name}: {code}: {(folder / 'said').read_text()[-800:]}"
            truths[name] = apart(partial(command.numbers, folder / command.out))
            writes[name] = (folder / "log").read_text().count("write ")
            shutil.copytree(folder, scratch / f"{command.out}-whole")
        while sum(t["inside"] for t in trials) < kills and time.monotonic() < until:
            name = names[len(trials) % len(names)]
            command = COMMANDS[name]
            found = trial(command, fresh(scratch, "run"), draw, truths[name], writes[name])
            trials.append({"command": name, **found})
            if found["wrong"]:
                print(json.dumps(trials[-1], indent=1), flush=True)
            else:
                print(len(trials), name, f"{time.monotonic() - until + seconds:.0f} s", flush=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    fallen = [t for t in trials if t["inside"]]
    return {
        "runs": len(trials),
        "kills_inside_writes": len(fallen),
        "failed": sum(bool(t["wrong"]) for t in trials),
        "writes_per_run": writes,
        "by": {
            key: dict(Counter(t[key] for t in fallen))
            for key in ("command", "signal", "hit", "stage", "file")
        },
        "wrong": [t for t in trials if t["wrong"]][:20],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/faults", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--kills", type=int, default=200, help="runs to kill inside a write (200)")
    parser.add_argument("--seed", type=int, default=0, help="of the moments (0)")
    parser.add_argument("--commands", default=",".join(COMMANDS), help="with commas (all)")
    parser.add_argument("--minutes", type=float, default=600.0, help="stop after so long (600)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "faults.json")
    args = parser.parse_args()
    import torch

    from opsplit import cli
    from opsplit._files import write_json
    from opsplit._origin import origin
    from opsplit.benchmark import rows
    from opsplit.parallel import pool

    torch.set_num_threads(1)
    rows.open = layer.open_rows
    pool.answer_calls = layer.answer_calls
    for name in COMMANDS:
        cli.command_class(name)
    found = suite(args.commands.split(","), args.kills, args.seed, 60 * args.minutes)
    record = {
        "what": "runs killed inside writes, and what was wrong after it",
        **origin(args.seed, program="python benchmarks/faults"),
        "passed": not found["failed"],
        **found,
    }
    write_json(args.out, record)
    told = f"{found['kills_inside_writes']} kills inside writes, {found['failed']} failed"
    print(f"{told}: {args.out}")
    sys.exit(1 if found["failed"] else 0)


if __name__ == "__main__":
    main()
