"""Processes on this machine, each with one item at a time."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from opsplit._processes import begin_worker

Wanted = tuple[Future[Any], Callable[..., Any], Any]
"""A call that waits for a worker."""


class Pool:
    """Workers that are started by spawn and replaced when they end.

    Every worker has one item at a time. If it ends, only that item is lost.
    """

    isolates = True

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.RLock()
        self._idle = [Slot(workers) for _ in range(workers)]
        self._slots = list(self._idle)
        self._waiting: deque[Wanted] = deque()
        self._closed = False

    def slots(self) -> int:
        # One more for each waits here, so that a worker does not wait for the caller.
        return 2 * self._workers

    def check(self) -> None:
        return None

    def submit(self, function: Callable[..., Any], call: Any) -> Future[Any]:
        outer: Future[Any] = Future()
        with self._lock:
            self._waiting.append((outer, function, call))
            self._dispatch()
        return outer

    def kill(self) -> None:
        """End all workers at once."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
        for slot in self._slots:
            slot.kill()

    def _dispatch(self) -> None:
        while self._idle and self._waiting and not self._closed:
            outer, function, call = self._waiting.popleft()
            if not outer.set_running_or_notify_cancel():
                continue
            slot = self._idle.pop()
            inner = slot.submit(function, call)
            inner.add_done_callback(partial(self._finished, slot, outer))

    def _finished(self, slot: Slot, outer: Future[Any], inner: Future[Any]) -> None:
        # The next item first: the worker need not wait until somebody has looked at this one.
        with self._lock:
            self._idle.append(slot)
            if isinstance(inner.exception(), BrokenProcessPool):
                slot.forget()
            self._dispatch()
        reason = inner.exception()
        if reason is None:
            outer.set_result(inner.result())
        else:
            outer.set_exception(reason)


class Slot:
    """One worker, started when it is needed."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._executor: ProcessPoolExecutor | None = None

    def submit(self, function: Callable[..., Any], call: Any) -> Future[Any]:
        if self._executor is None:
            # A fork would copy the locks of torch's threads.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(1, context, begin, (self._workers,))
        try:
            return self._executor.submit(function, call)
        except BrokenProcessPool:
            # The worker ended while it had nothing to do.
            self.forget()
            return self.submit(function, call)

    def forget(self) -> None:
        """Leave a worker that has ended."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    def kill(self) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            for process in list((executor._processes or {}).values()):
                process.kill()
            executor.shutdown(wait=True, cancel_futures=True)


def begin(workers: int) -> None:
    """In a worker, before its first item."""
    begin_worker()
    torch.set_num_threads(1)
    with suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        # A worker may take its share of the memory: an item that needs more fails by itself,
        # before the system ends whatever is largest.
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (whole // workers, hard))
