"""Child processes that never outlive the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def die_with_parent() -> None:
    """End this child process as soon as its parent is gone, however the parent ended.

    An initialiser of workers that `multiprocessing` spawns: the parent holds one end of a pipe,
    and the system closes it even if the parent is killed. A signal at the parent's death
    (`PR_SET_PDEATHSIG`) would also come when only the thread ends that started the child.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch(sentinel: int) -> None:
        wait([sentinel])
        # Not an exception in the main thread: it may be inside a library that never returns.
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()


def begin_worker() -> None:
    """Initialiser of a pool's workers: interrupts are for the parent, whose end ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
