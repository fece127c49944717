"""Time and memory: a limit holds in every phase, or the run is refused with what it needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from opsplit import OperatorSplitter, OpsplitError, Pursuit
from opsplit.model import Model
from opsplit.search.budget import Meter, time_is_up, within

Observe = Callable[..., tuple[torch.Tensor, Any, float]]
pytestmark = pytest.mark.filterwarnings("ignore::opsplit.OpsplitWarning")
QUICK = Pursuit(width=2, max_parts=2, refine="none")


def fit(model: Model, observe: Observe, times: np.ndarray | None = None, **more: Any) -> Any:
    u, grid, dt = observe(0.5, 0.2, frames=8, points=64)
    steps: dict[str, Any] = {"dt": dt} if times is None else {"times": times * dt}
    return OperatorSplitter(model, **{"search": QUICK, **more}).fit(u, extent=grid.extent, **steps)


def test_a_large_gap_costs_nothing(tiny_model: Model, observe: Observe) -> None:
    """Nothing is carried across it: a million steps took hours, whatever the budget."""
    found = {}
    for gap in (100.0, 1e6):
        times = np.arange(8.0)
        times[4:] += gap
        began = time.process_time()
        found[gap] = fit(tiny_model, observe, times)
        assert time.process_time() - began < 10
    short, long = found.values()
    assert short.coefficients_ == pytest.approx(long.coefficients_)
    assert short.verdict_.skill == pytest.approx(long.verdict_.skill, rel=1e-6)


def test_one_budget_for_everything_inside() -> None:
    with within(0.05), within(100.0):
        assert not time_is_up()
        time.sleep(0.06)
        assert time_is_up()
        meter = Meter()
        with meter.limited(None, None), pytest.raises(Exception, match="stopped by max_seconds"):
            meter.check()
    assert not time_is_up()


def test_a_forecast_stops_in_time(tiny_model: Model, observe: Observe) -> None:
    search = Pursuit(width=2, max_parts=1, refine="none", max_seconds=0.3)
    splitter = fit(tiny_model, observe, search=search)
    began = time.process_time()
    found = splitter.forecast(200_000)
    assert time.process_time() - began < 5
    assert found.status.endswith(f"stopped by max_seconds before frame {found.broken}")
    assert bool(found.frames[: (found.broken or 1) - 1].isfinite().all())
    assert bool(found.frames[-1].isnan().all())


@pytest.mark.parametrize("far", [{"steps": 10**30}, {"times": [1e12]}, {"steps": 10_000_001}])
def test_endless_forecasts_are_refused(
    tiny_model: Model, observe: Observe, far: dict[str, Any]
) -> None:
    with pytest.raises(OpsplitError, match="10000000"):
        fit(tiny_model, observe).forecast(**far)


def test_forecasts_that_do_not_fit_into_memory_are_refused(
    tiny_model: Model, observe: Observe, monkeypatch: pytest.MonkeyPatch
) -> None:
    splitter = fit(tiny_model, observe)
    monkeypatch.setattr("opsplit._memory.room", lambda: 1e5)
    with pytest.raises(OpsplitError, match=r"1000 frames takes .* GB of memory"):
        splitter.forecast(1000)


def test_a_search_keeps_its_memory_or_says_what_it_needs(
    tiny_model: Model, observe: Observe
) -> None:
    with pytest.raises(OpsplitError, match=r"need (\d+) MB, the limit is 0 MB") as refused:
        fit(tiny_model, observe, memory_mb=0.01)
    needed = int(str(refused.value).split("--memory-mb ")[1].split()[0])
    assert fit(tiny_model, observe, memory_mb=needed).fit_error_ > 0
