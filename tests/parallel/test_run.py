"""The map over work items: each exactly once, wherever it runs and whatever its neighbours do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from work_items import LOADED, Counted, add, trouble

from opsplit.errors import OpsplitError
from opsplit.parallel import HERE, Outcome, Where, run_items
from opsplit.parallel import work as worker_side
from opsplit.parallel.run import TRIES, UNKNOWN, Given

Items = st.lists(st.integers(-3, 50), max_size=40)


def outcomes(items: Any, where: Where, shared: Any = None) -> list[Outcome[Any, Any]]:
    return list(run_items(add, items, shared or Counted(0.5), where))


def told(found: list[Outcome[Any, Any]]) -> list[tuple[Any, Any, Any]]:
    return sorted((o.item, o.value or 0, o.reason or "") for o in found)


@given(items=Items, workers=st.integers(1, 4))
def test_any_executor_gives_the_outcomes_of_one_after_the_other(
    items: list[int], workers: int
) -> None:
    with ThreadPoolExecutor(workers) as pool:
        spread = outcomes(items, Where(executor=pool))
    alone = outcomes(items, HERE)
    assert told(spread) == told(alone)
    assert [o.item for o in alone] == items
    for one in alone:
        assert one.ok == (one.item >= 0)
        assert one.value == one.item + 0.5 if one.ok else "no" in str(one.reason)


def test_what_is_shared_is_sent_to_a_worker_that_lacks_it_and_not_with_every_item() -> None:
    LOADED.clear()
    worker_side._held.clear()
    with ThreadPoolExecutor(2) as pool:
        found = outcomes(range(300), Where(executor=pool), Counted(1.25))
    assert len(found) == 300
    # All threads are one process; those that ask at the same time are answered each.
    assert 1 <= len(LOADED) <= 4


def test_items_are_taken_as_workers_become_free() -> None:
    taken = []

    def source() -> Any:
        for i in range(1000):
            taken.append(i)
            yield i

    gate = threading.Event()

    class Slow(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            def wait() -> Any:
                gate.wait(20)
                return fn(*args, **kwargs)

            return super().submit(wait)

    with Slow(3) as pool:
        running = run_items(add, source(), Counted(0.0), Where(executor=pool))
        threading.Timer(0.2, gate.set).start()
        next(running)
        # Twice as many as workers, and what was bundled since.
        assert len(taken) <= 6 * 100
        first = len(taken)
        running.close()
    assert first < 1000 and len(taken) == first


class Fragile(Executor):
    """Loses the job before as well when a poisoned item ends a worker."""

    def __init__(self, poison: set[int]) -> None:
        self.poison, self.held = poison, None
        self.ended: dict[int, int] = {}
        self.lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self.lock:
            held, self.held = self.held, (future, fn, args)
            bad = [i for i in args[0].items if i in self.poison]
            if bad:
                self.ended[bad[0]] = self.ended.get(bad[0], 0) + 1
                self.held = None
        if bad:
            future.set_exception(BrokenExecutor())
            if held:
                held[0].set_exception(BrokenExecutor())
        elif held:
            held[0].set_result(held[1](*held[2]))
        threading.Timer(0.005, self.last, [future]).start()
        return future

    def last(self, future: Future[Any]) -> None:
        with self.lock:
            mine = self.held is not None and self.held[0] is future
            held, self.held = self.held, None if mine else self.held
        if mine and held:
            future.set_result(held[1](*held[2]))


@given(poison=st.sets(st.integers(0, 25), max_size=4), n=st.integers(1, 26))
def test_an_item_that_ends_its_worker_is_given_up_and_its_neighbours_are_not(
    poison: set[int], n: int
) -> None:
    executor = Fragile(poison)
    found = outcomes(range(n), Where(executor=executor))
    assert sorted(o.item for o in found) == list(range(n))
    for one in found:
        assert one.ok == (one.item not in poison), one
    # In a bundle only the first of two is seen to end its worker.
    assert all(count <= TRIES for count in executor.ended.values())


def test_an_item_whose_worker_ends_is_taken_apart() -> None:
    where = Where(executor=Breaks(3))
    found = run_items(_size, [(0, 1, 2), (3, 4)], None, where, lambda x: [(i,) for i in x])
    parts = [outcome.item for outcome in found]
    assert sorted(parts) == [(0, 1, 2), (3,), (4,)]


def _size(shared: None, item: tuple[int, ...]) -> int:
    return len(item)


class Breaks(Executor):
    """Ends the worker of everything that holds a number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if any(self.number in item for item in args[0].items):
            future.set_exception(BrokenExecutor())
        else:
            future.set_result(fn(*args))
        return future


class Cut(Executor):
    """A connection that is lost."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_a_lost_connection_is_one_sentence() -> None:
    with pytest.raises(OpsplitError, match="connection to the workers was lost"):
        outcomes([1], Where(executor=Cut()))


def test_a_worker_with_other_versions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(call: worker_side.Call) -> worker_side.Reply:
        return worker_side.Reply(versions={**worker_side.versions(), "torch": "0.1"})

    monkeypatch.setattr("opsplit.parallel.run.work", other)
    with ThreadPoolExecutor(1) as pool, pytest.raises(OpsplitError, match=r"torch 0\.1 instead of"):
        outcomes([1], Where(executor=pool))


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": 0},
        {"longest": 0},
        {"longest": 1e30},
        {"longest": float("nan")},
        {"workers": 2, "cluster": "tcp://x"},
    ],
)
def test_places_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(OpsplitError):
        Where(**wrong)


def test_an_executor_that_does_not_say_how_many_workers_it_has() -> None:
    assert Given(Cut()).slots() == UNKNOWN
    with ThreadPoolExecutor(3) as pool:
        assert Given(pool).slots() == 6


def test_processes_isolate_crashes_hangs_and_exits() -> None:
    """The real thing: spawned workers, one of which a poisoned item ends twice."""
    items = [1, "crash", 2, "words", "exit", "hang", "unpicklable", 3]
    found = run_items(trouble, items, 10.0, Where(workers=2, longest=2.0))
    by = {o.item: o for o in found}
    assert len(by) == len(items)
    assert [by[i].value for i in (1, 2, 3)] == [(i + 10.0, 1) for i in (1, 2, 3)]
    assert by["words"].reason == "ValueError: words"
    assert "SystemExit" in str(by["exit"].reason)
    assert "pickle" in str(by["unpicklable"].reason)
    assert "ended 2 times" in str(by["crash"].reason)
    assert "longer than 2 s" in str(by["hang"].reason)
