"""How time, evaluations and memory grow with operators, parts and trajectories.

Dictionaries of up to 4096 operators are extracted from training dynamics by the bundled
hypernetwork; smaller ones are drawn from the largest. Seconds are those that the processor worked.
Memory is what a search adds to a fresh process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import torch
from common import PHYSICS, Item, Row, model, objective, run_items, windows
from torch import Tensor

from opsplit import Beam, Pursuit
from opsplit.dictionary import OperatorDictionary
from opsplit.pretrain.extract import extract
from opsplit.search import Strategy

OPERATORS = (16, 64, 256, 1024, 4096)
PARTS = tuple(range(1, 9))
TRAJECTORIES = (1, 4, 16, 64, 256)
LIMITS = (64, 128, 256, 512)
PATIENCE = 20.0
"""Beam search is left out once it takes longer than this."""
REPEATS = 3


def run(args: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    if args.measure_memory:
        measure_memory(args)
        return
    frames = windows("A+D", max(TRAJECTORIES), args.seed)[0].data
    with tempfile.TemporaryDirectory() as folder:

        @cache
        def largest() -> OperatorDictionary:
            drawn = PHYSICS.dictionary_trajectories("train", OPERATORS[-1], args.seed, fields=1)
            return extract(model().disco, drawn)

        @cache
        def dictionary(n: int) -> OperatorDictionary:
            return largest().subsample(n, args.seed)

        def memory(n: int, trajectories: int, limit: int) -> Row:
            place = Path(folder) / str(n)
            if not place.exists():
                dictionary(n).save(place)
            values = [str(place), str(trajectories), str(limit), str(args.seed)]
            command = [sys.executable, str(Path(__file__).parent), "growth", "--measure-memory"]
            done = subprocess.run([*command, *values], capture_output=True, text=True, check=True)
            return json.loads(done.stdout)

        run_items("growth", args, items(frames, dictionary, memory))


def items(
    frames: Tensor,
    dictionary: Callable[[int], OperatorDictionary],
    memory: Callable[[int, int, int], Row],
) -> Iterator[Item]:
    last: dict[str, float] = {}

    def timed(axis: str, strategy: Strategy, count: int, n: int) -> Row:
        # The next dictionary is four times as large, the next composition one part longer.
        expected = last.get(axis, 0.0) * (4 if axis == "operators" else 1)
        if strategy.name == "beam" and expected > PATIENCE:
            return {}
        made = objective(frames[:count], dictionary(n))
        strategy.run_all(objective(frames[:1], dictionary(OPERATORS[0])))
        seconds = []
        for _ in range(REPEATS):
            began = time.process_time()
            results = strategy.run_all(made)
            seconds.append(time.process_time() - began)
            if seconds[-1] > PATIENCE / REPEATS:
                break
        if strategy.name == "beam":
            last[axis] = min(seconds)
        return {
            "seconds": statistics.median(seconds),
            "evaluations": made.meter.evaluations,
            "longest": max(len(c) for c in results[0].ranked),
        }

    pursuit = Pursuit(tolerance=0.0)
    for n in OPERATORS:
        for strategy in (pursuit, Beam()):
            item = {"axis": "operators", "search": strategy.name, "at": n}
            yield item, lambda s=strategy, n=n: timed("operators", s, 1, n)
    for m in PARTS:
        # Every longer composition counts as an improvement, so that all lengths are explored.
        for strategy in (
            Pursuit(max_parts=m, threshold=-1e9, tolerance=0.0),
            Beam(max_parts=m, threshold=-1e9),
        ):
            item = {"axis": "parts", "search": strategy.name, "at": m}
            yield item, lambda s=strategy: timed("parts", s, 1, 256)
    for count in TRAJECTORIES:
        item = {"axis": "trajectories", "search": "pursuit", "at": count}
        yield item, lambda c=count: timed("trajectories", Pursuit(), c, 256)
    for n in OPERATORS:
        item = {"axis": "memory", "trajectories": 1, "operators": n, "limit": 256}
        yield item, lambda n=n: memory(n, 1, 256)
    for limit in LIMITS:
        item = {"axis": "memory", "trajectories": 64, "operators": 256, "limit": limit}
        yield item, lambda x=limit: memory(256, 64, x)


def measure_memory(args: argparse.Namespace) -> None:
    """Print what a search adds to the resident memory of this process (Linux only)."""
    place, trajectories, limit, seed = args.measure_memory
    frames = windows("A+D", int(trajectories), int(seed))[0].data
    operators = OperatorDictionary.load(place)
    # Two operators on one short window, so that what torch loads on first use is not counted.
    Pursuit().run(objective(frames[:1, :3], operators.select([0, 1])))
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
    before = size_mb("VmRSS")
    Pursuit().run_all(objective(frames, operators, float(limit)))
    print(json.dumps({"search_mb": size_mb("VmHWM") - before, "process_mb": size_mb("VmHWM")}))


def size_mb(field: str) -> float:
    """`VmRSS`, the memory in use, or `VmHWM`, the most there was, of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith(field))
    return int(kilobytes) / 1024
