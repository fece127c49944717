"""Files that would hang or crash their library end in a sentence; messages stay readable."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import opsplit
from opsplit.errors import OpsplitError
from opsplit.io import guard
from opsplit.io.guard import plain, try_first


def test_a_crash_in_the_child_is_a_sentence_here() -> None:
    with pytest.raises(OpsplitError, match=r"bad\.mat crashes the library that reads such files"):
        try_first("bad.mat", lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_a_child_that_does_not_return_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PATIENCE", 0.1)
    with pytest.raises(OpsplitError, match=r"slow\.h5 cannot be opened in 0\.1 s"):
        try_first("slow.h5", lambda: time.sleep(60))


def test_what_the_child_raises_or_changes_stays_there() -> None:
    seen: list[int] = []

    def attempt() -> None:
        seen.append(1)
        raise ValueError("never mind")

    try_first("fine.h5", attempt)
    assert seen == []


def test_names_from_a_file_do_not_spoil_a_message(tmp_path: Path) -> None:
    assert plain("a\nb\x00c") == "a?b?c"
    assert len(plain("x" * 5000)) <= 600
    np.savez(tmp_path / "two.npz", **{"a\n" * 900: np.zeros((4, 8)), "b": np.zeros((4, 8))})
    with pytest.raises(OpsplitError, match=r"two\.npz") as reason:
        opsplit.read(tmp_path / "two.npz")
    assert "\n" not in str(reason.value) and len(str(reason.value)) <= 600
