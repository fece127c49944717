"""The process that examines files, where its own start is limited."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from opsplit.io.helper import START


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are known on Linux only")
def test_a_user_with_little_memory_and_time_reads_files(tmp_path: Path) -> None:
    """A limit that a shell or a cluster has set can be lowered, but not raised."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["u"] = np.zeros(8)
    task = json.dumps({"path": str(path), "kind": "hdf5", "seconds": 10_000})
    helper = shlex.join([sys.executable, "-I", "-c", START, json.dumps(sys.path)])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -v 2500000 -t 1000; exec {helper}"],
        input=f"{task}\n",
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.stdout.splitlines() == ["ready", "{}"], done.stderr
