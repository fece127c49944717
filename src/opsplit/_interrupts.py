"""Interrupts (Ctrl-C) that wait until work can be left."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def waiting_interrupts() -> Iterator[list[bool]]:
    """Inside, an interrupt is only noted in the list; it is raised at the end.

    A second interrupt ends the process at once. Where interrupts are heard by somebody else, or in
    another thread, nothing changes.
    """
    heard: list[bool] = []

    def hear(*_: Any) -> None:
        heard.append(True)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield heard
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if heard:
            raise KeyboardInterrupt
