"""Damaged files of every format end in one sentence; none crashes, hangs or is changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzzing import Tally, Worker, quota, spoiled

READERS = {
    # kind: (share of all inputs, other readers of such files)
    "well": (0.1, ("well", "stored")),
    "pdebench": (0.11, ()),
    "netcdf": (0.07, ()),
    "netcdf3": (0.07, ()),
    "npy": (0.08, ("trajectories",)),
    "npz": (0.09, ("trajectories",)),
    "trajectories": (0.07, ("trajectories", "stored")),
    "mat": (0.08, ()),
    "mat73": (0.05, ()),
}


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files(
    kind: str, good: dict[str, list[Path]], worker: Worker, tmp_path: Path
) -> None:
    share, others = READERS[kind]
    tally = Tally(kind)
    suffix = good[kind][0].suffix
    file = tmp_path / f"spoiled{suffix}"
    contents = [path.read_bytes() for path in good[kind]]
    refused = lambda: tally.outcomes["refused"]  # noqa: E731
    for number, content in enumerate(spoiled(kind, contents, refused, quota(share))):
        file.write_bytes(content)
        flags = {"dt": 0.1} if kind == "npy" else {}
        tasks = [{"job": "read", "given": str(file), "flags": flags}]
        tasks += [{"job": other, "given": str(file)} for other in others]
        # The first reader sees all files, the others a part.
        task = tasks[0 if number % 3 else number // 3 % len(tasks)]
        answer = worker.ask(task)
        if file.read_bytes() != content or list(tmp_path.iterdir()) != [file]:
            answer = ("failed", "the file or its folder was changed", 0.0, 0.0)
        tally.add(answer, f"{kind} {number}, {task['job']}")
    tally.close()
