"""The meter: it counts, it stops at its limits, it forgets them."""

from __future__ import annotations

import pytest

from opsplit.search.budget import BudgetError, Meter


def test_a_meter_counts_flows_and_evaluations() -> None:
    meter = Meter()
    meter.count(3, 4.0)
    meter.count(2, 1.5)
    assert (meter.flows, meter.evaluations) == (5, 15)
    meter.restart()
    assert (meter.flows, meter.evaluations) == (0, 0)


def test_the_limit_holds_inside_its_block_only() -> None:
    meter = Meter()
    meter.count(100, 1)
    with meter.limited(None, 10):
        meter.count(9, 1)
        meter.check()
        meter.count(1, 1)
        with pytest.raises(BudgetError, match="stopped by max_evaluations=10"):
            meter.check()
    meter.check()


def test_limits_are_forgotten_after_an_error() -> None:
    meter = Meter()
    with pytest.raises(BudgetError, match="stopped by max_seconds=0"), meter.limited(0.0, None):
        meter.check()
    meter.check()


def test_seconds_are_counted_from_the_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([10.0, 13.0, 20.0, 20.5])
    monkeypatch.setattr("opsplit.search.budget.time.perf_counter", lambda: next(clock))
    meter = Meter()
    assert meter.seconds == 3.0
    meter.restart()
    assert meter.seconds == 0.5
