"""Work items that workers import."""

from __future__ import annotations

import os
import time

import numpy as np


def trivial(shared: float, item: int) -> float:
    return shared + item


def poisoned(shared: None, item: str) -> str:
    """What the word says."""
    if item == "hangs":
        while True:
            pass
    if item == "crashes":
        os.abort()
    if item == "needs too much memory":
        held = []
        # Slowly, as a search would: the guard of a worker looks every tenth of a second.
        for _ in range(400):
            held.append(np.ones(2**24 // 8))
            time.sleep(0.02)
    if item == "fails":
        raise ValueError("this item always fails")
    return item
