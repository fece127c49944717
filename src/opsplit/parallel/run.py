"""The side of the caller: items go out as workers become free, outcomes come back."""

from __future__ import annotations

import hashlib
import pickle
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from opsplit.errors import OpsplitError
from opsplit.parallel.cluster import LOST, Cluster
from opsplit.parallel.pool import Pool
from opsplit.parallel.work import (
    Call,
    Done,
    Reply,
    attempt,
    check_versions,
    here,
    versions,
    words,
    work,
)

Item = TypeVar("Item")
Result = TypeVar("Result")

Shared = TypeVar("Shared")

TRIES = 2
"""An item that ends its worker so many times is given up."""
PATIENCE = 5.0
"""Seconds without any result after which the workers are looked at."""
LONGEST = 3600.0
"""Seconds that an item may take in another process."""
YEAR = 366 * 86400.0
"""Seconds; the clock that watches items counts no further."""
BUNDLE_SECONDS, BUNDLE_MOST = 0.1, 100
"""Quick items travel together: so many seconds of work, so many items at most."""
UNKNOWN = 32
"""Items in flight on an executor that does not say how many workers it has."""


@dataclass(frozen=True)
class Where:
    """Where work items run: in this process unless something else is said.

    Arguments:
        workers: processes on this machine, of one thread each.
        cluster: address of a Dask scheduler, such as `tcp://127.0.0.1:8786`.
        executor: any executor whose workers can import opsplit, such as `MPIPoolExecutor`.
        longest: seconds after which an item in another process counts as hanging.
        threads: of an item. The order of sums depends on it, and so the last digits of results
            do. None: as many as torch is set to.
    """

    workers: int = 1
    cluster: str | None = None
    executor: Executor | None = None
    longest: float = LONGEST
    threads: int | None = 1

    @property
    def here(self) -> bool:
        """Whether that is this process."""
        return self.workers == 1 and self.cluster is None and self.executor is None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise OpsplitError(f"workers counts processes and must be at least 1: {self.workers}.")
        if not 0 < self.longest <= YEAR:
            raise OpsplitError(f"longest counts seconds, at most a year, got {self.longest:.6g}.")
        if (self.workers > 1) + (self.cluster is not None) + (self.executor is not None) > 1:
            raise OpsplitError("Give one of workers, cluster and executor, not several.")


HERE = Where()
"""In this process."""


@dataclass(frozen=True)
class Outcome(Generic[Item, Result]):
    """What became of one item."""

    item: Item
    value: Result | None
    reason: str | None = None
    """Why there is no value; None if there is one."""
    seconds: float = 0.0
    """Time that the item took where it ran."""

    @property
    def ok(self) -> bool:
        return self.reason is None


class Place(Protocol):
    """Workers of some kind."""

    isolates: bool
    """Whether the future of an item fails only if its own worker ended."""

    def submit(self, function: Callable[..., Any], call: Any) -> Future[Any]:
        """Give a call to a worker."""

    def slots(self) -> int:
        """Items that may be in flight."""

    def check(self) -> None:
        """Raise if no result can be expected any more."""


def run_items(
    function: Callable[[Shared, Item], Result],
    items: Iterable[Item],
    shared: Shared = None,  # type: ignore[assignment]
    where: Where = HERE,
    split: Callable[[Item], Sequence[Item]] | None = None,
) -> Iterator[Outcome[Item, Result]]:
    """Outcomes of `function(shared, item)` for all items, in the order in which they finish.

    Items are taken from the iterator as workers become free, so there may be any number of them.
    What is shared is pickled once and sent to a worker that does not have it yet.

    Arguments:
        function: of a module that the workers can import; it may not change what is shared.
        split: parts of an item whose worker ended, each of which is tried by itself.
    """
    if where.here:
        for item in items:
            yield _outcome(item, attempt(function, shared, item, where.threads))
        return
    with _open(where) as place:
        yield from _Flight(place, function, shared, where, split).run(items)


@contextmanager
def _open(where: Where) -> Iterator[Place]:
    if where.cluster is not None:
        cluster = Cluster(where.cluster)
        try:
            yield cluster
        finally:
            cluster.close()
    elif where.executor is not None:
        yield Given(where.executor)
    else:
        pool = Pool(where.workers)
        try:
            yield pool
        finally:
            # A run that ends early must not wait for items that nobody asks for any more.
            pool.kill()


class Given:
    """An executor of the caller."""

    isolates = False

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def submit(self, function: Callable[..., Any], call: Any) -> Future[Any]:
        return self.executor.submit(function, call)

    def slots(self) -> int:
        workers = getattr(self.executor, "_max_workers", None)
        return 2 * workers if isinstance(workers, int) and workers > 0 else UNKNOWN

    def check(self) -> None:
        return None


def _outcome(item: Item, result: Done) -> Outcome[Item, Any]:
    return Outcome(item, result.value, result.reason, result.seconds)


@dataclass(frozen=True)
class _Job(Generic[Item]):
    """Items under way together."""

    items: tuple[Item, ...]
    tries: int = 0
    """How often their worker ended."""
    sent: bool = False
    """Whether what is shared travels with them."""


class _Flight(Generic[Item, Result]):
    """The items under way; their number is bounded by the number of workers."""

    def __init__(
        self,
        place: Place,
        function: Callable[[Any, Item], Result],
        shared: Any,
        where: Where,
        split: Callable[[Item], Sequence[Item]] | None,
    ) -> None:
        self.place, self.split = place, split
        self.pickled = pickle.dumps(shared)
        key = hashlib.sha256(self.pickled).hexdigest()
        self.call = Call(function, (), key, versions(), here(), where.longest, where.threads)
        self.done: queue.SimpleQueue[Future[Reply]] = queue.SimpleQueue()
        self.flying: dict[Future[Reply], _Job[Item]] = {}
        self.bundle = 1
        """Items that travel together."""
        self.again: deque[_Job[Item]] = deque()
        """Jobs to be submitted once more."""
        self.suspects: deque[_Job[Item]] = deque()
        """Items that were under way when a worker ended."""

    def run(self, items: Iterable[Item]) -> Iterator[Outcome[Item, Result]]:
        source = iter(items)
        try:
            while True:
                while len(self.flying) < max(1, self.place.slots()):
                    job = self.again.popleft() if self.again else self._fresh(source)
                    if job is None:
                        break
                    self._submit(job)
                if not self.flying and self.suspects:
                    # Alone, so that there is no doubt which item ends its worker.
                    self._submit(self.suspects.popleft())
                if not self.flying:
                    return
                future = self._next()
                yield from self._settle(self.flying.pop(future), future)
        finally:
            for future in self.flying:
                future.cancel()

    def _fresh(self, source: Iterator[Item]) -> _Job[Item] | None:
        taken = tuple(islice(source, self.bundle))
        return _Job(taken) if taken else None

    def _submit(self, job: _Job[Item]) -> None:
        call = replace(self.call, items=job.items, shared=self.pickled if job.sent else None)
        try:
            future = self.place.submit(work, call)
        except BrokenExecutor:
            raise OpsplitError(
                "The executor lost its workers and takes no more items; the same call with a "
                "fresh one goes on."
            ) from None
        self.flying[future] = job
        future.add_done_callback(self.done.put)

    def _next(self) -> Future[Reply]:
        while True:
            try:
                return self.done.get(timeout=PATIENCE)
            except queue.Empty:
                self.place.check()

    def _settle(self, job: _Job[Item], future: Future[Reply]) -> Iterator[Outcome[Item, Result]]:
        """The outcomes of a finished job; none of what is tried again."""
        try:
            reply = future.result()
        except CancelledError:
            raise OpsplitError(LOST) from None
        # Anything may come back from a worker: its own end, or a result that cannot be pickled.
        except Exception as reason:
            if _ended(reason):
                yield from self._retry(job)
            elif len(job.items) > 1:
                self.again.extend(_Job((item,)) for item in job.items)
            else:
                yield Outcome(job.items[0], None, words(reason))
            return
        if reply.versions is not None:
            check_versions(reply.versions, "A worker")
        if reply.missing:
            self.again.append(replace(job, sent=True))
            return
        each = sum(result.seconds for result in reply.results) / len(reply.results)
        self.bundle = max(1, min(2 * self.bundle, BUNDLE_MOST, int(BUNDLE_SECONDS / (each + 1e-9))))
        yield from map(_outcome, job.items, reply.results)

    def _retry(self, job: _Job[Item]) -> Iterator[Outcome[Item, Result]]:
        """Try items again whose worker ended, each by itself; give up after the last try."""
        parts, last = job.items, job.tries + 1 >= TRIES
        if len(parts) == 1 and last and self.split is not None:
            parts = tuple(self.split(parts[0]))
        if len(parts) == 1 and last:
            yield Outcome(
                parts[0], None,
                f"Its worker ended {TRIES} times: it crashes, needs too much memory, or takes "
                f"longer than {self.call.longest:g} s.",
            )  # fmt: skip
            return
        # The worker may have ended for another reason: an item alone is tried once more.
        (self.again if self.place.isolates else self.suspects).extend(
            _Job((part,), TRIES - 1) for part in parts
        )


def _ended(reason: BaseException) -> bool:
    """Whether this says that the worker of an item ended."""
    return isinstance(reason, BrokenExecutor) or type(reason).__name__ == "KilledWorker"
