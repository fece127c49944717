"""Processes on this machine, each with one item at a time."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

from opsplit._processes import begin_worker
from opsplit.errors import OpsplitError
from opsplit.parallel.work import words

Wanted = tuple[Future[Any], Callable[..., Any], Any]
"""A call that waits for a worker."""


class Pool:
    """Workers that are started by spawn when they are needed, and replaced when they end.

    Every worker has one item at a time. If it ends, only that item is lost. It is no
    `ProcessPoolExecutor`: that gives up all its workers when one of them ends, and since Python
    3.12 it waits for itself for ever if it is shut down by whoever is told so.
    """

    isolates = True

    def __init__(self, workers: int) -> None:
        self._calls: queue.SimpleQueue[Wanted | None] = queue.SimpleQueue()
        self._slots = [Slot(workers) for _ in range(workers)]
        self._threads = [
            threading.Thread(target=slot.serve, args=(self._calls,), daemon=True)
            for slot in self._slots
        ]
        for thread in self._threads:
            thread.start()

    def slots(self) -> int:
        # One more for each waits here, so that a worker does not wait for the caller.
        return 2 * len(self._slots)

    def check(self) -> None:
        return None

    def submit(self, function: Callable[..., Any], call: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.put((future, function, call))
        return future

    def kill(self) -> None:
        """End all workers at once."""
        for slot in self._slots:
            slot.close()
            self._calls.put(None)
        for thread in self._threads:
            thread.join()


class Slot:
    """One worker after the other, and the thread that talks to it."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._closed = False
        self._process: SpawnProcess | None = None
        self._connection: Connection | None = None

    def serve(self, calls: queue.SimpleQueue[Wanted | None]) -> None:
        """Pass calls to the worker until the pool is closed."""
        while (wanted := calls.get()) is not None and not self._closed:
            future, function, call = wanted
            if not future.set_running_or_notify_cancel():
                continue
            try:
                # Not the pickler of multiprocessing: torch makes it lend memory to the worker,
                # which is lost if the worker ends.
                answer = self._ask(pickle.dumps((function, call)))
            except (OSError, EOFError):
                self._forget()
                future.set_exception(BrokenExecutor("The worker ended."))
            # Whatever an item or a result raises that cannot be pickled.
            except Exception as reason:
                future.set_exception(reason)
            else:
                future.set_result(answer)
        self._forget()

    def _ask(self, task: bytes) -> Any:
        connection = self._connection or self._start()
        try:
            connection.send_bytes(task)
        except OSError:
            # The worker ended while it had nothing to do.
            self._forget()
            connection = self._start()
            connection.send_bytes(task)
        value, reason = pickle.loads(connection.recv_bytes())
        if reason is not None:
            raise OpsplitError(reason)
        return value

    def _start(self) -> Connection:
        # A fork would copy the locks of torch's threads.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        with self._lock:
            if self._closed:
                raise EOFError
            self._process = context.Process(
                target=answer_calls, args=(theirs, self._workers), daemon=True
            )
            self._process.start()
        # The worker alone holds the other end, which is closed when it ends, however it ends.
        theirs.close()
        self._connection = ours
        return ours

    def _forget(self) -> None:
        """Leave a worker that has ended."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()

    def close(self) -> None:
        """End the worker; the thread that waits for it is told by the end of the connection."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()


def answer_calls(connection: Connection, workers: int) -> None:
    """In a worker: call what comes, until the other side is gone."""
    begin(workers)
    with suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_answer(connection.recv_bytes()))


def _answer(task: bytes) -> bytes:
    """The value of a call and no reason, or a reason; either can be pickled."""
    try:
        function, call = pickle.loads(task)
        return pickle.dumps((function(call), None))
    except Exception as reason:
        return pickle.dumps((None, words(reason)))


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
